"""Functions that all loaders use. They read bytes and Matrix Market files, and check memory."""

from __future__ import annotations

import codecs
import gzip
import io
import re
import sys
import zlib
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.io import mmread
from scipy.sparse import coo_array

from interlace.base import files
from interlace.base.errors import UserError
from interlace.base.memory import memory_bytes as memory_bytes

_PIECE = 1 << 20  # the bytes of one read
_BANNER = b"%%matrixmarket"
_ENTRY_BYTES = 256  # a line with an entry has fewer bytes, even with comments
_INTEGER = re.compile(rb"[+-]?[0-9]+")


def read(file: Path) -> bytes:
    """Return the file's bytes, unpacked if the file's name ends in .gz."""
    files.require_regular(file)
    packed = file.name.endswith(".gz")
    try:
        with gzip.open(file) if packed else file.open("rb") as stream:
            return _read_all(file, stream).removeprefix(codecs.BOM_UTF8)
    except FileNotFoundError:
        raise UserError(f"{file} does not exist; check the path.") from None
    except PermissionError:
        raise UserError(f"{file} may not be read; change its permissions.") from None
    except EOFError:
        raise UserError(f"{file} is cut off (its gzip stream does not end); get it anew.") from None
    except gzip.BadGzipFile as error:
        raise UserError(
            f"{file} is not a sound gzip file ({error}); get it anew, or remove .gz from its name "
            "if it is not packed."
        ) from None
    except zlib.error as error:
        raise UserError(f"{file} has a damaged gzip stream ({error}); get it anew.") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"{file} cannot be read ({reason}); check the file.") from None


def _read_all(file: Path, stream: gzip.GzipFile | io.BufferedReader) -> bytes:
    """Read all bytes of a stream. Raise UserError if an unpacked file is too large."""
    pieces: list[bytes] = []
    size, most = 0, None
    while piece := stream.read(_PIECE):
        pieces.append(piece)
        size += len(piece)
        if most is None:
            most = min(_most_bytes(piece), memory_bytes() // 4)
        if size > most:
            raise UserError(
                f"{file} has more than {most / 1e6:.0f} MB of text: more than its first lines say, "
                "or more than a quarter of the memory; check the file."
            )
    return b"".join(pieces)


def _most_bytes(beginning: bytes) -> int:
    """Return the largest possible size of a Matrix Market file that begins with these bytes.

    There is no limit if the bytes do not contain the whole head.
    """
    if beginning[: len(_BANNER)].lower() != _BANNER:
        return sys.maxsize
    for line in beginning.splitlines():
        if line.strip() and not line.startswith(b"%"):
            sizes = line.split()
            if len(sizes) != 3 or not sizes[2].isdigit() or len(sizes[2]) >= 20:
                break
            return _PIECE + _ENTRY_BYTES * int(sizes[2])
    return sys.maxsize


def shown(line: bytes) -> str:
    """Return a line as it is shown in messages: shortened and printable."""
    text = line.strip().decode("ascii", "replace")
    text = "".join(ch if ch.isprintable() else "?" for ch in text)
    return f"'{text[:40]}...'" if len(text) > 40 else f"'{text}'"


def require_memory(needed: int, what: str, noun: str) -> None:
    """Raise UserError if building the data needs more memory than there is."""
    have = memory_bytes()
    if needed > have:
        raise UserError(
            f"{what} needs about {needed / 1e9:.1f} GB of memory, but this process has "
            f"{have / 1e9:.1f} GB; take a smaller {noun}."
        )


# --- Matrix Market ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Header:
    """The head of a Matrix Market file."""

    rows: int
    columns: int
    entries: int
    pattern: bool
    symmetric: bool
    line: int  # the number of the line with the sizes; the first line of a file is line 1
    end: int  # the number of bytes up to and including the line with the sizes

    @property
    def stored(self) -> int:
        """Return an upper bound of the number of entries, including mirrored entries.

        An off-diagonal entry of a symmetric matrix is included twice.
        """
        return 2 * self.entries if self.symmetric else self.entries


class Entries(NamedTuple):
    """The entries of a matrix in the order of the file. The first index is 0."""

    rows: NDArray[np.int64]
    columns: NDArray[np.int64]
    values: NDArray[np.float64]  # 1 for each entry if the file has no values


def matrix_market_header(
    file: Path, data: bytes, use: str, fields: Sequence[str], *, square: bool = True
) -> Header:
    """Return the head of a file in coordinate format. `use` names the matrix in messages.

    If `square` is set, the matrix must be square. Otherwise its symmetry must be "general".
    """
    stream = io.BytesIO(data)
    first = stream.readline()
    words = first.decode("latin-1").lower().split()
    if len(words) != 5 or words[0] != "%%matrixmarket":
        raise UserError(
            f"{file}, line 1: expected '%%MatrixMarket matrix coordinate FIELD SYMMETRY', found "
            f"{shown(first)}; is this a Matrix Market file?"
        )
    for word, key, known in (
        (words[1], "object", ("matrix",)),
        (words[2], "format", ("coordinate",)),
        (words[3], "field", fields),
        (words[4], "symmetry", ("general", "symmetric") if square else ("general",)),
    ):
        if word not in known:
            raise UserError(
                f"{file}, line 1: {key} {shown(word.encode())} is impossible for {use}; "
                f"convert the file to {' or '.join(known)}."
            )
    number = 1
    for line in stream:
        number += 1
        if not line.strip() or line.startswith(b"%"):
            continue
        sizes = line.split()
        if len(sizes) != 3 or not all(s.isdigit() and len(s) < 20 for s in sizes):
            raise UserError(
                f"{file}, line {number}: expected rows, columns and entries, found {shown(line)}; "
                "correct the line."
            )
        rows, columns, entries = (int(s) for s in sizes)
        if square and rows != columns:
            raise UserError(
                f"{file}, line {number}: the matrix is {rows} x {columns}; "
                f"{use} has a square matrix; name another file."
            )
        pattern, symmetric = words[3] == "pattern", words[4] == "symmetric"
        return Header(rows, columns, entries, pattern, symmetric, number, stream.tell())
    raise UserError(f"{file} ends before the line with rows, columns and entries; get it anew.")


def matrix_market_entries(
    file: Path, data: bytes, header: Header, needed: int, noun: str
) -> Entries:
    """Return the entries after the head. Entries of a symmetric matrix are mirrored.

    Raises UserError, with the line's number, if the file has an error. Also raises UserError if the
    process has less than `needed` bytes of memory.
    """
    # The shortest entry is "1 1\
    # ". A file with fewer bytes than its entries need is cut off, and the reader must not trust the
    # number of entries.
    if 4 * header.entries > len(data) - header.end + 1:
        _scan_matrix_market(file, data, header)
    require_memory(needed, str(file), noun)
    entries = _fast_matrix_market(data, header)
    return _scan_matrix_market(file, data, header) if entries is None else entries


def _fast_matrix_market(data: bytes, header: Header) -> Entries | None:
    """Return the entries, read by scipy, or None if scipy found an error."""
    # scipy's reader finds line ends with strchr. It crashes on a NUL byte, and on a last line with
    # extra text and no newline.
    if b"\0" in data:
        return None
    if not data.endswith(b"\n"):
        data += b"\n"
    try:
        matrix = coo_array(mmread(io.BytesIO(data)))
        rows = np.asarray(matrix.row, dtype=np.int64)
        columns = np.asarray(matrix.col, dtype=np.int64)
        values = np.asarray(matrix.data, dtype=np.float64)
    except (ValueError, OverflowError, AttributeError):
        return None
    if rows.size < header.entries or matrix.shape != (header.rows, header.columns):
        return None
    if min(rows.min(), columns.min()) < 0:
        return None
    if rows.max() >= header.rows or columns.max() >= header.columns:
        return None
    return Entries(rows, columns, values)


def _scan_matrix_market(file: Path, data: bytes, header: Header) -> Entries:
    """Return the entries, read line by line. This is slow, but an error names the line."""
    rows, columns, values = array("q"), array("q"), array("d")
    number = header.line
    entries = 0
    wanted = 2 if header.pattern else 3
    stream = io.BytesIO(data)
    stream.seek(header.end)
    for line in stream:
        number += 1
        words = line.split()
        if not words:
            continue
        if len(words) < wanted or not _is_entry(words[:wanted]):
            what = "two integers" if header.pattern else "two integers and a value"
            raise UserError(
                f"{file}, line {number}: expected {what}, found {shown(line)}; correct the line."
            )
        pair = int(words[0]), int(words[1])
        for index, size in zip(pair, (header.rows, header.columns), strict=True):
            if not 1 <= index <= size:
                raise UserError(
                    f"{file}, line {number}: index {index} is outside 1 .. {size}; "
                    "correct the line or the sizes."
                )
        entries += 1
        if entries > header.entries:
            raise UserError(
                f"{file}, line {number}: this is entry {entries}, but line {header.line} says that "
                f"the number of entries is {header.entries}; correct line {header.line}."
            )
        value = 1.0 if header.pattern else float(words[2])
        mirrored = header.symmetric and pair[0] != pair[1]
        for row, column in (pair, pair[::-1]) if mirrored else (pair,):
            rows.append(row - 1)
            columns.append(column - 1)
            values.append(value)
    if entries < header.entries:
        raise UserError(
            f"{file} ends after {entries} of {header.entries} entries; it is cut off, get it anew."
        )
    return Entries(
        np.array(rows, dtype=np.int64),
        np.array(columns, dtype=np.int64),
        np.array(values, dtype=np.float64),
    )


def find_value(data: bytes, header: Header, wanted: Callable[[float], bool]) -> tuple[int, float]:
    """Return the first entry whose value is `wanted`: the number of its line, and its value.

    The caller must know that such an entry exists.
    """
    stream = io.BytesIO(data)
    stream.seek(header.end)
    for number, line in enumerate(stream, start=header.line + 1):
        words = line.split()
        if len(words) > 2 and wanted(value := float(words[2])):
            return number, value
    raise AssertionError("no entry has such a value")


def _is_entry(words: list[bytes]) -> bool:
    if not (is_integer(words[0]) and is_integer(words[1])):
        return False
    try:
        return len(words) < 3 or isinstance(float(words[2]), float)
    except ValueError:
        return False


def is_integer(word: bytes) -> bool:
    """Return whether a word of a file can be an integer."""
    return len(word) <= 20 and _INTEGER.fullmatch(word) is not None
