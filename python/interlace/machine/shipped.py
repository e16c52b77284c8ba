"""The machine files that come with Interlace, and the search for a machine by name or by path."""

from __future__ import annotations

from pathlib import Path

from interlace.base.errors import UserError
from interlace.machine.problems import did_you_mean, give_one_of


def _folder() -> Path:
    """Return the folder of the shipped files: in the package, or in the checkout of the sources."""
    here = Path(__file__).resolve()
    packaged = here.parents[1] / "machines"
    return packaged if packaged.is_dir() else here.parents[3] / "machines"


def shipped_machines() -> list[str]:
    """Return the names of the descriptions that come with Interlace, sorted."""
    return sorted(path.stem for path in _folder().glob("*.toml"))


def find_machine(name_or_path: str) -> Path:
    """Return the file of the machine with this name or path. Raise UserError if there is none."""
    path = Path(name_or_path)
    names = shipped_machines()
    try:
        # If the path is a broken link, the function that reads the file reports it.
        there = path.exists() or path.is_symlink()
        if name_or_path and there and not (path.is_dir() and name_or_path in names):
            return path
    except (OSError, ValueError):  # the text cannot be a file name
        pass
    if name_or_path in names:
        return _folder() / f"{name_or_path}.toml"
    if name_or_path.endswith(".toml") or "/" in name_or_path:
        raise UserError(f"{name_or_path}: there is no such machine file")
    raise UserError(
        f"there is no machine {name_or_path!r}{did_you_mean(name_or_path, names)}; "
        f"{give_one_of(names)}, or the path of a .toml file"
    )
