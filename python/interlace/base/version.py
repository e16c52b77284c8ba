"""The version of this installation."""

from __future__ import annotations

from pathlib import Path


def version() -> str:
    """Return the version of Interlace."""
    file = Path(__file__).resolve().parents[3] / "VERSION"
    if file.is_file():  # a checkout
        return file.read_text(encoding="utf-8").strip()
    from importlib import metadata

    try:
        return metadata.version("interlace")
    except metadata.PackageNotFoundError:
        return "unknown"
