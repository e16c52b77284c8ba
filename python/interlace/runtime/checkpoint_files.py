"""Opens the files of a checkpoint: a file, several files, or a folder, which may have an index.

An index is a JSON file with the name `*.safetensors.index.json`. Its `weight_map` says which file
of the index's folder has each tensor.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from interlace.base.errors import UserError
from interlace.runtime import safetensors_header, safetensors_index
from interlace.runtime.safetensors_header import Header

OPEN = os.O_CLOEXEC | os.O_NONBLOCK
Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


class _Opened:
    """A file that is closed when its last reference goes away.

    Therefore Ctrl-C never leaves a file open.
    """

    def __init__(self, path: Path) -> None:
        # without the flags OPEN, `open` would wait at a pipe to which nobody writes
        self.file = open(  # noqa: SIM115
            path, "rb", buffering=0, opener=lambda name, flags: os.open(name, flags | OPEN)
        )

    def __del__(self) -> None:
        if hasattr(self, "file"):
            self.file.close()


class File(NamedTuple):
    """An open file and its header."""

    opened: _Opened
    name: str
    header: Header

    @property
    def descriptor(self) -> int:
        """Return the descriptor of the open file."""
        return self.opened.file.fileno()


def close_files(files: Iterable[File]) -> None:
    """Close files that nobody else uses."""
    for file in files:
        file.opened.file.close()


class _Index(NamedTuple):
    path: Path
    files: Mapping[str, Path]  # maps a tensor's name to its file


def open_files(paths: Paths) -> list[File]:
    """Open the files of a checkpoint, read their headers, and compare the files with the indexes.

    Raises UserError. Its message names the file and the tensor.
    """
    found, indexes = _find(paths)
    files = open_each(found)
    _check_names(files)
    for index in indexes:
        _check_index(index, files)
    return files


def open_each(paths: Iterable[Path]) -> list[File]:
    """Open files that may have parts of the same tensor, so tensors' names are not compared."""
    return [_open(path) for path in paths]


def _find(paths: Paths) -> tuple[list[Path], list[_Index]]:
    """Return the files in the order of `paths`, and the indexes that name some of the files."""
    several = isinstance(paths, Iterable) and not isinstance(paths, (str, bytes, os.PathLike))
    given: list[Any] = list(paths) if several else [paths]  # type: ignore[arg-type]
    for path in given:
        if not isinstance(path, (str, os.PathLike)):
            raise UserError(
                f"load takes the path of a file or a folder, or a list of them, not {path!r}"
            )
    found: list[Path] = []
    indexes: list[_Index] = []
    for path in map(Path, given):
        try:
            named = _index_at(path)
        except OSError as error:  # for example, the name is too long
            raise UserError(f"{path} cannot be opened: {error.strerror}") from None
        if named is not None:
            index = _Index(named, safetensors_index.read(named))
            indexes.append(index)
            found += dict.fromkeys(index.files.values())
        elif path.is_dir():
            inside = sorted(path.glob("*.safetensors"))
            if not inside:
                raise UserError(f"there is no *.safetensors in the folder {path}")
            found += inside
        else:
            found.append(path)
    if not found:
        raise UserError("no file to load was given")
    return found, indexes


def _index_at(path: Path) -> Path | None:
    """Return the index file that `path` names, or the index in the folder `path`, or None."""
    if path.name.endswith(safetensors_index.ENDS):
        return path
    inside = sorted(path.glob("*" + safetensors_index.ENDS)) if path.is_dir() else []
    if len(inside) > 1:
        names = ", ".join(one.name for one in inside)
        raise UserError(f"the folder {path} has several indexes, {names}; give the path of one")
    return inside[0] if inside else None


def _open(path: Path) -> File:
    try:
        opened = _Opened(path)
        descriptor = opened.file.fileno()
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise UserError(f"{path} is not a regular file; give a regular file")
        prefix = _pread(descriptor, safetensors_header.PREFIX, 0)
        length = safetensors_header.header_bytes_of(str(path), prefix, status.st_size)
        text = _pread(descriptor, length, safetensors_header.PREFIX)
        # With this advice, the kernel reads further ahead. This helps if several threads read one
        # file.
        with suppress(OSError):
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_SEQUENTIAL)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError as error:  # the name has a zero byte
        raise UserError(f"{str(path)!r} cannot be read: {error}") from None
    return File(opened, str(path), safetensors_header.parse(str(path), text, status.st_size))


def _pread(descriptor: int, size: int, offset: int) -> bytes:
    found = b""
    while len(found) < size:
        more = os.pread(descriptor, size - len(found), offset + len(found))
        if not more:
            break
        found += more
    return found


def _check_names(files: list[File]) -> None:
    where: dict[str, str] = {}
    for file in files:
        for entry in file.header.tensors:
            if (other := where.setdefault(entry.name, file.name)) != file.name:
                raise UserError(f"tensor {entry.name!r} is in {other} and in {file.name}")
    names = [file.name for file in files]
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise UserError(f"{twice} is given twice; give each file once")


def _check_index(index: _Index, files: list[File]) -> None:
    """Check that each tensor of the index is in its file. A file may have further tensors."""
    named = {str(path) for path in index.files.values()}
    where = {
        entry.name: file.name
        for file in files
        if file.name in named
        for entry in file.header.tensors
    }
    for name, path in index.files.items():
        if (there := where.get(name)) != str(path):
            elsewhere = f"{there} has it" if there else "no file that the index names has it"
            raise UserError(f"{index.path}: tensor {name!r} is not in {path.name}; {elsewhere}")
