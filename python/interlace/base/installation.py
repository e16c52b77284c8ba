"""Files of this installation other than Python modules: shared libraries, headers."""

from __future__ import annotations

import importlib.util
from pathlib import Path


def built() -> str:
    """How the package was built: "with CUDA 13.0 for sm_90", or "without CUDA, since ..."."""
    file = installed("built.txt")
    return "" if file is None else file.read_text("utf-8").strip()


def installed(name: str) -> Path | None:
    """Return the path of a file that was built with the package or is in its sources, or None.

    Built files are next to the compiled modules. In an editable installation, the compiled modules
    and the sources are in different folders.
    """
    folders = [Path(__file__).parents[1]]
    spec = importlib.util.find_spec("interlace._core")
    if spec is not None and spec.origin:
        folders.append(Path(spec.origin).parent)
    for folder in folders:
        file = folder / name
        if file.is_file():
            return file
    return None
