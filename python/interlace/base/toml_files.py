"""Reads TOML files that people write. Errors name the file and the line."""

from __future__ import annotations

import itertools
import re
import stat
import tomllib
from pathlib import Path
from typing import Any

from interlace.base.errors import UserError
from interlace.base.printable import printable

MAX_FILE_BYTES = 1 << 20
MAX_DEPTH = 100  # tables and lists may be nested up to this depth
_PART = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')"""  # one part of a dotted key
_LONG_KEY = re.compile(
    rf"(?:^|[\[{{,])[ \t]*{_PART}(?:[ \t]*\.[ \t]*{_PART}){{{MAX_DEPTH}}}", re.MULTILINE
)


def read_text(path: Path, what: str, most: int = MAX_FILE_BYTES) -> str:
    """Read the text of a regular UTF-8 file of at most `most` bytes.

    `what` names the expected kind of file in errors.
    """
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise UserError(f"{path} is a directory; a {what} is a .toml file")
        if not stat.S_ISREG(mode):
            raise UserError(f"{path} is not a regular file; a {what} is a .toml file")
        with path.open("rb") as file:
            data = file.read(most + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"{path} cannot be read: {reason}") from error
    if len(data) > most:
        raise UserError(f"{path} is larger than {most >> 20} MiB; this is not a {what} file")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path} is not UTF-8 text: byte 0x{data[error.start]:02x} at offset {error.start}"
        ) from error


def parse_any(text: str, where: str, what: str) -> dict[str, Any]:
    """Parse the text without a check of its `format`. `where` names the file in errors."""
    deep = f"{where}: this is not a {what} file, because it is too deeply nested"
    if _LONG_KEY.search(
        text
    ):  # tomllib needs memory that grows with the square of the number of parts of a key
        raise UserError(deep)
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        line = _line_of(error, text)
        place = f", line {line}" if line else ""
        reason = str(error).partition(" (at ")[0]
        raise UserError(f"{where}{place}: this is not TOML: {reason}") from error
    except RecursionError as error:
        raise UserError(deep) from error
    except ValueError as error:  # Python refuses numbers of more than 4300 digits
        raise UserError(f"{where}: this is not TOML: a number is too long") from error
    if _is_deep(document):
        raise UserError(deep)
    if (found := _control(document)) is not None:
        raise UserError(
            f"{where}: {found!r} has a control character, which terminals act on; remove it"
        )
    return document


def _line_of(error: tomllib.TOMLDecodeError, text: str) -> int | None:
    """Return the number of the line with the TOML error, or None if the line is unknown."""
    line: int | None = getattr(error, "lineno", None)  # the attribute exists from Python 3.14 on
    if line is not None:
        return line
    import tomlkit
    from tomlkit.exceptions import ParseError, TOMLKitError

    try:
        tomlkit.parse(text)
    except ParseError as found:
        return found.line
    except (TOMLKitError, ValueError, TypeError, RecursionError):
        pass
    return None


def _control(value: Any) -> str | None:
    """Return the first key or text of the document with a control character, or None."""
    if isinstance(value, str):
        return None if printable(value) == value else value
    inner = [*value, *value.values()] if isinstance(value, dict) else value
    found = map(_control, inner if isinstance(inner, list) else ())
    return next((text for text in found if text is not None), None)


def _is_deep(document: dict[str, Any]) -> bool:
    """Return whether the document is nested too deeply for recursive functions."""
    level: list[Any] = [document]
    for _ in range(MAX_DEPTH):
        values = (one.values() if isinstance(one, dict) else one for one in level)
        inner = itertools.chain.from_iterable(values)
        level = [it for it in inner if isinstance(it, dict | list)]
    return bool(level)


def parse(text: str, where: str, what: str, version: int) -> dict[str, Any]:
    """Check that the document's `format` is `version`, and return the document.

    `where` names the file in errors.
    """
    document = parse_any(text, where, what)
    found = document.get("format")
    if found is None:
        raise UserError(
            f"{where}: format is missing; the first line of a {what} is format = {version}"
        )
    if isinstance(found, bool) or found != version:
        raise UserError(
            f"{where}: format is {found!r}, but this version of Interlace reads format {version}"
        )
    return document
