"""Files of measured rows, which `interlace calibrate --measured` compares with simulated ones."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

import msgspec

from interlace.base.errors import UserError
from interlace.base.files import read_results

LEAST, MOST = 1e-15, 1e15  # of any measured value


class MeasuredFile(Protocol):
    """The fields that all these files have."""

    @property
    def format(self) -> int: ...

    @property
    def rows(self) -> Sequence[Any]: ...


File = TypeVar("File", bound=MeasuredFile)


def read_measured_file(
    path: Path,
    kind: type[File],
    file_format: int,
    what: str,
    known: Container[object],
    row_of: Callable[[Any], tuple[object, float, str]],
) -> File:
    """Read a file of measured rows.

    Args:
        path: The file.
        kind: What the file holds.
        file_format: The number of its format.
        what: What its rows are, for messages.
        known: The names that a row may have.
        row_of: Returns the name of a row, its value, and what the value is called in messages.

    Raises:
        UserError: It is not such a file, or a row is unknown, is there twice, or is not above 0.
    """
    data = read_results(path, f"--measured {path}")
    try:
        found = msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UserError(f"--measured {path} is not a file of {what}: {error}") from None
    if found.format != file_format:
        raise UserError(f"--measured {path}: format is {found.format}; it must be {file_format}")
    seen: set[object] = set()
    for row in found.rows:
        name, value, called = row_of(row)
        text = repr(str(name))
        if name not in known:
            raise UserError(f"--measured {path}: there is no row {text}")
        if name in seen:
            raise UserError(f"--measured {path}: row {text} occurs twice")
        if not value > 0:
            raise UserError(f"--measured {path}: {called} {text} is not above 0")
        if not LEAST <= value <= MOST:
            raise UserError(f"--measured {path}: {called} {text} is {value}; nothing measures that")
        seen.add(name)
    if not found.rows:
        raise UserError(f"--measured {path} has no rows")
    return found
