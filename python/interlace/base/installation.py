"""Finds files of this installation that are not Python modules, such as shared libraries."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any


def build() -> dict[str, Any]:
    """Return the facts that the build recorded. The dict is empty without a readable record."""
    file = installed("build.json")
    try:
        return dict(json.loads(file.read_text("utf-8"))) if file is not None else {}
    except (OSError, ValueError, TypeError):
        return {}


def built() -> str:
    """Return how the package was built: "with CUDA 13.0 for sm_90", or "without CUDA, since ..."
    followed by the reason.
    """
    return str(build().get("built", ""))


def built_without_cuda(how: str) -> str:
    """Return the first clause of a message: how a package without CUDA was built."""
    return f"this Interlace was built {how if how.startswith('without') else 'without CUDA'}"


def installed(name: str) -> Path | None:
    """Return the path of a file that the build made or that is part of the sources, or None.

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
