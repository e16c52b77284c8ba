"""TOML files that people write, read with errors that name file and line."""

from __future__ import annotations

import re
import stat
import tomllib
from pathlib import Path
from typing import Any

from interlace.errors import UserError

MAX_FILE_BYTES = 1 << 20


def read_text(path: Path, what: str) -> str:
    """The text of a regular UTF-8 file; `what` it should be, such as machine."""
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise UserError(f"{path} is a directory; a {what} is a .toml file")
        if not stat.S_ISREG(mode):
            raise UserError(f"{path} is not a regular file; a {what} is a .toml file")
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"{path} cannot be read: {reason}") from error
    if len(data) > MAX_FILE_BYTES:
        raise UserError(f"{path} is larger than 1 MiB; this is not a {what} file")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path} is not UTF-8 text: byte 0x{data[error.start]:02x} at offset {error.start}"
        ) from error


def parse(text: str, where: str, what: str, version: int) -> dict[str, Any]:
    """The document, whose key `format` is `version`; `where` is how errors name the file."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message = str(error)
        line = re.search(r"\(at line (\d+), column \d+\)", message)
        place = f", line {line[1]}" if line else ""
        reason = re.sub(r"\s*\(at .*\)$", "", message)
        raise UserError(f"{where}{place}: this is not TOML: {reason}") from error
    except RecursionError as error:
        raise UserError(f"{where}: this is not a {what} file: too deeply nested") from error
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
