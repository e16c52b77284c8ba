"""Output files that are either whole or not there, and hashes of inputs."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from interlace.base.errors import UserError


def check_writable(path: Path, option: str) -> None:
    """Raise UserError unless a file can be written at `path`, which `option` asked for.

    Nothing is left behind. A file may still fail to be written later, when the disk is full.
    """
    try:
        if not path.name:
            raise UserError(f"{option} {path}: give the name of a file")
        if path.is_dir():
            raise UserError(f"{option} {path} is a directory; give the name of a file")
        if path.exists() and not os.access(path, os.W_OK):
            raise UserError(f"{option} {path} cannot be written: Permission denied")
        if _is_special(path):
            return
        target = path.resolve()
        if not target.parent.exists():
            raise UserError(f"{option} {path}: there is no directory {path.parent}")
        if not target.parent.is_dir():
            raise UserError(f"{option} {path}: {path.parent} is not a directory")
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name[:80]}.", dir=target.parent)
        os.close(handle)
        Path(temporary).unlink()
    except (OSError, ValueError) as error:
        raise _unwritable(path, error) from None


def check_outputs(
    outputs: Mapping[str, Path | None], inputs: Mapping[str, Path | None] | None = None
) -> None:
    """Raise UserError unless all files that options asked for can be written, and differ.

    They also have to differ from `inputs`, the files that the command reads.
    """
    writes = {option: path for option, path in outputs.items() if path is not None}
    reads = {option: path for option, path in (inputs or {}).items() if path is not None}
    for option, path in writes.items():
        check_writable(path, option)
        for other, same in {**reads, **writes}.items():
            if (other in reads or other < option) and _are_one(path, same):
                raise UserError(f"{other} and {option} are both {path}; give two names")


def _are_one(path: Path, other: Path) -> bool:
    """Whether two paths name one file, which need not be there."""
    try:
        return path.samefile(other)
    except OSError:
        return path.resolve() == other.resolve()


def make_folder(path: Path) -> None:
    """Make a folder and those above it; raises UserError if it cannot be there."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(path, error) from None


def write_all(contents: Mapping[Path, str]) -> None:
    """Write every file; all are complete on disk before the first gets its name.

    Files appear by a rename, so nobody ever sees half of one; a device or a pipe is written to as
    it is. Raises UserError when the disk is full or a path cannot be written. No file has its name
    then; but where a rename or a device fails, those before it keep theirs.
    """
    parts: dict[Path, Path] = {}
    try:
        for path, text in contents.items():
            if not _is_special(path):
                parts[path] = _write_part(path, text)
        for path, text in contents.items():
            if path in parts:
                _rename(parts[path], path)
                del parts[path]
            else:
                _write_special(path, text)
    finally:
        for part in parts.values():
            with contextlib.suppress(OSError):
                part.unlink()


def show_and_write(show: Callable[[], None], texts: Mapping[Path, Callable[[], str]]) -> None:
    """Print what `show` prints, then write the files; a reader who left does not cost the files."""
    broken: BrokenPipeError | None = None
    try:
        show()
        sys.stdout.flush()
    except BrokenPipeError as error:
        broken = error
    write_all({path: text() for path, text in texts.items()})
    if broken is not None:
        raise broken


def _is_special(path: Path) -> bool:
    """Whether there is a device, a pipe or a socket, over which no file can be renamed."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _write_part(path: Path, text: str) -> Path:
    part: Path | None = None
    try:
        target = path.resolve()
        handle, name = tempfile.mkstemp(prefix=f".{target.name[:80]}.", dir=target.parent)
        part = Path(name)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        mask = os.umask(0)
        os.umask(mask)
        part.chmod(0o666 & ~mask)
    except BaseException as error:
        if part is not None:
            with contextlib.suppress(OSError):
                part.unlink()
        if isinstance(error, OSError):
            raise _unwritable(path, error) from None
        raise
    return part


def _rename(part: Path, path: Path) -> None:
    try:
        part.replace(path.resolve())
    except OSError as error:
        raise _unwritable(path, error) from None


def _write_special(path: Path, text: str) -> None:
    try:
        with path.open("w", encoding="utf-8") as file:
            file.write(text)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise _unwritable(path, error) from None


def _unwritable(path: Path, error: OSError | ValueError) -> UserError:
    reason = getattr(error, "strerror", None) or error
    return UserError(f"{path} cannot be written: {reason}")


def file_hash(path: Path) -> str:
    """The SHA-256 of a file's bytes; raises UserError if it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}") from None
