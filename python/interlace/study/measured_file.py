"""Files of measured rows. `interlace calibrate --measured` compares them with simulated rows."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

import msgspec

from interlace.base.errors import UserError
from interlace.base.files import read_results
from interlace.model.results import provenance

FORMAT = 2  # the format version of files of measured rows
WITHOUT_ORIGIN = 1  # the earlier format version; its files name neither command nor commit
LEAST, MOST = 1e-15, 1e15  # any measured value is between these bounds


class Origin(msgspec.Struct, kw_only=True):
    """The head of a file of measured rows: the machine, and how and when it was measured."""

    format: int
    # `command`, `version` and `commit` are None in files of the earlier format.
    command: str | None = None
    version: str | None = None
    commit: str | None = None  # also None if git does not know the commit
    machine: str
    driver: str
    cuda: str
    date: str
    method: str

    def described(self) -> dict[str, str]:
        """Return the fields that have a value, without the format version."""
        texts = {name: getattr(self, name) for name in Origin.__struct_fields__[1:]}
        return {name: text for name, text in texts.items() if text is not None}


def origin() -> dict[str, Any]:
    """Return the fields of `Origin` that do not depend on the machine."""
    made = provenance()
    return {"format": FORMAT, **made, "date": made["date"].split("T")[0]}


class MeasuredFile(Protocol):
    """The fields that all kinds of files of measured rows have."""

    @property
    def format(self) -> int: ...

    @property
    def command(self) -> str | None: ...

    @property
    def rows(self) -> Sequence[Any]: ...


File = TypeVar("File", bound=MeasuredFile)


def read_measured_file(
    path: Path,
    kind: type[File],
    what: str,
    known: Container[object],
    row_of: Callable[[Any], tuple[object, float, str]],
) -> File:
    """Read a file of measured rows.

    Args:
        path: The file.
        kind: The type of the file's content.
        what: The name of the rows in messages.
        known: The names that a row may have.
        row_of: A function that returns the name of a row, its value, and the words for this value
            in messages.

    Raises:
        UserError: The file is not a file of measured rows, or one of its rows is unknown, occurs
            twice, or has a value of 0 or less.
    """
    data = read_results(path, f"--measured {path}")
    try:
        found = msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UserError(f"--measured {path} is not a file of {what}: {error}") from None
    if found.format not in (WITHOUT_ORIGIN, FORMAT):
        raise UserError(
            f"--measured {path}: format is {found.format}; it must be {WITHOUT_ORIGIN} or {FORMAT}"
        )
    if found.format == FORMAT and found.command is None:
        raise UserError(
            f"--measured {path}: format is {FORMAT}, but the file names no command that measured it"
        )
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
