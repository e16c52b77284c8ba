"""Files of measured rows. `interlace calibrate --measured` compares them with simulated rows."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

import msgspec

from interlace.base.errors import UserError
from interlace.base.files import read_results

LEAST, MOST = 1e-15, 1e15  # the bounds of any measured value


class MeasuredFile(Protocol):
    """The fields that all files of measured rows have."""

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
        kind: The type of the file's content.
        file_format: The number of the file's format.
        what: The name of its rows in messages.
        known: The names that a row may have.
        row_of: Returns a row's name, its value, and the word for the value in messages.

    Raises:
        UserError: The file is not a file of measured rows, or one of its rows is unknown, occurs
            twice, or is not above 0.
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
            raise UserError(
                f"--measured {path}: {called} {text} is {value}; no measurement can give this value"
            )
        seen.add(name)
    if not found.rows:
        raise UserError(f"--measured {path} has no rows")
    return found
