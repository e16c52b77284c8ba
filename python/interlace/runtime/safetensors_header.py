"""Headers of safetensors files: read strictly, and written.

A file is 8 bytes with the length of the header, little-endian, the header, and the data. The header
is a JSON object of tensors, each with dtype, shape and data_offsets from the data's begin, and of
`__metadata__`, an object of strings. Tensors fill the data without holes and without overlap. The
rules are those of the format's description (https://github.com/huggingface/safetensors, README).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

from interlace.base.errors import UserError
from interlace.base.memory import memory_bytes

PREFIX = 8  # bytes before the header
MOST_BYTES = 100_000_000  # of a header
MOST_OTHERS = 16  # objects that are not tensors: the header, its metadata, and wrong ones
NEEDED = 30  # bytes of memory for a byte of a header
METADATA = "__metadata__"
KEYS = ("dtype", "shape", "data_offsets")

# Bits of an element. Tensors are written from the last dtype to the first.
BITS = {
    "BOOL": 8,
    "F4": 4,
    "F6_E2M3": 6,
    "F6_E3M2": 6,
    "U8": 8,
    "I8": 8,
    "F8_E5M2": 8,
    "F8_E4M3": 8,
    "F8_E8M0": 8,
    "F8_E4M3FNUZ": 8,
    "F8_E5M2FNUZ": 8,
    "I16": 16,
    "U16": 16,
    "F16": 16,
    "BF16": 16,
    "I32": 32,
    "U32": 32,
    "F32": 32,
    "C64": 64,
    "F64": 64,
    "I64": 64,
    "U64": 64,
}


class Entry(NamedTuple):
    """A tensor: [begin, end) are bytes of the data."""

    name: str
    dtype: str  # a key of BITS
    shape: tuple[int, ...]
    begin: int
    end: int


class Header(NamedTuple):
    """The contents of a file. The tensors follow each other without gaps."""

    tensors: tuple[Entry, ...]
    metadata: dict[str, str]
    data_begin: int  # in the file


def header_bytes_of(file: str, prefix: bytes, file_bytes: int) -> int:
    """The length of the header, which the file's first bytes say; raises UserError."""
    if len(prefix) < PREFIX or file_bytes < PREFIX:
        raise UserError(
            f"{file} is not a safetensors file: it ends after {min(len(prefix), file_bytes)} "
            f"bytes, within the {PREFIX} bytes that say how long its header is"
        )
    length = int.from_bytes(prefix[:PREFIX], "little")
    if length > MOST_BYTES:
        raise UserError(
            f"{file} is not a safetensors file: its header would be {length} bytes long; "
            f"{MOST_BYTES} are allowed"
        )
    if length > 1 << 20 and NEEDED * length > memory_bytes():
        raise UserError(
            f"{file}: its header of {length} bytes needs about {NEEDED * length / 1e9:.1f} GB of "
            f"memory and this process has {memory_bytes() / 1e9:.1f} GB"
        )
    if length > file_bytes - PREFIX:
        raise UserError(
            f"{file} is cut: its header is {length} bytes long, and {file_bytes - PREFIX} bytes "
            "are there"
        )
    return length


def parse(file: str, text: bytes, file_bytes: int) -> Header:
    """Parse `text`, the header of a file of `file_bytes` bytes in all.

    Raises UserError, which names `file`, the tensor and what is wrong.
    """
    document = _document(file, text)
    metadata = _metadata(file, document.pop(METADATA, {}))
    entries = [_entry(file, name, value) for name, value in document.items()]
    entries.sort(key=lambda entry: (entry.begin, entry.end))
    end = 0
    for before, entry in zip([None, *entries], entries, strict=False):
        if entry.begin < end and before is not None:
            raise UserError(
                f"{file}: tensor {entry.name!r} begins at byte {entry.begin} of the data, within "
                f"{before.name!r}, which ends at {end}"
            )
        if entry.begin > end:
            raise UserError(
                f"{file}: bytes {end} to {entry.begin} of the data, before tensor "
                f"{entry.name!r}, belong to no tensor"
            )
        end = entry.end
    data_begin = PREFIX + len(text)
    there = file_bytes - data_begin
    if there < end:
        raise UserError(f"{file} is cut: its tensors take {end} bytes, and {there} bytes are there")
    if there > end:
        raise UserError(
            f"{file}: {there - end} bytes after the last tensor belong to no tensor; its header "
            "or its length is wrong"
        )
    return Header(tuple(entries), metadata, data_begin)


class _Refused(Exception):  # noqa: N818
    """A problem of a JSON text."""


class _Objects:
    """Makes the objects of a header; later checks report errors in the first few by place."""

    def __init__(self) -> None:
        self._others = 0  # objects that are not tensors

    def __call__(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = _object(pairs)
        if found.keys() != set(KEYS):
            self._others += 1
            if self._others > MOST_OTHERS:
                raise _Refused(f"more than {MOST_OTHERS} of its objects are not tensors")
        return found


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise _Refused(f"{name!r} is there twice")
            seen.add(name)
    for name in found:
        _check_text(name)
    return found


def _check_text(text: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise _Refused(f"{text!r} has half a surrogate pair") from None


def _whole(digits: str) -> int | float:
    # An offset has no sign (not even -0) and no more digits than a number of 64 bits.
    return float("nan") if digits.startswith("-") or len(digits) > 20 else int(digits)


def _constant(name: str) -> NoReturn:
    raise _Refused(f"{name} is not JSON")


def _document(file: str, text: bytes) -> dict[str, Any]:
    if not text.startswith(b"{"):
        raise UserError(f"{file} is not a safetensors file: its header does not begin with {{")
    try:
        document = json.loads(
            text.decode("utf-8"),
            object_pairs_hook=_Objects(),
            parse_int=_whole,
            parse_constant=_constant,
        )
    except _Refused as error:
        raise UserError(f"{file}: its header is wrong: {error}") from None
    except UnicodeDecodeError as error:
        raise UserError(
            f"{file}: its header is not UTF-8 at byte {PREFIX + error.start} of the file"
        ) from None
    except json.JSONDecodeError as error:
        raise UserError(
            f"{file}: its header is not JSON at character {error.pos}: {error.msg}"
        ) from None
    except RecursionError:
        raise UserError(f"{file}: its header is nested too deeply") from None
    assert isinstance(document, dict)  # it begins with {
    return document


def _metadata(file: str, value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        raise UserError(f"{file}: {METADATA} is not an object")
    for key, text in value.items():
        if not isinstance(text, str):
            raise UserError(f"{file}: {METADATA} has something other than a text as {key!r}")
        try:
            _check_text(text)
        except _Refused as error:
            raise UserError(f"{file}: {METADATA}, {key!r}: {error}") from None
    return value


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**64


def _entry(file: str, name: str, value: Any) -> Entry:
    def wrong(what: str) -> UserError:
        return UserError(f"{file}: tensor {name!r} {what}")

    if not isinstance(value, dict):
        raise wrong("is not an object")
    for key in KEYS:
        if key not in value:
            raise wrong(f"has no {key}")
    for key in value:
        if key not in KEYS:
            raise wrong(f"has the key {key!r}, which is none of {', '.join(KEYS)}")
    dtype, shape, offsets = (value[key] for key in KEYS)
    if not isinstance(dtype, str) or dtype not in BITS:
        raise wrong(f"has the dtype {dtype!r}; there are {', '.join(BITS)}")
    if not isinstance(shape, list) or not all(map(_is_count, shape)):
        raise wrong("has a shape that is not a list of whole numbers from 0")
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(map(_is_count, offsets)):
        raise wrong("has data_offsets that are not two whole numbers from 0")
    begin, end = offsets
    if begin > end:
        raise wrong(f"ends at byte {end} of the data, before it begins, at {begin}")
    try:
        size = bytes_of(dtype, shape)
    except ValueError as error:
        raise wrong(str(error)) from None
    if size != end - begin:
        raise wrong(
            f"has {end - begin} bytes of data, and {dtype} of shape {shape} takes {size} bytes"
        )
    return Entry(name, dtype, tuple(shape), begin, end)


def bytes_of(dtype: str, shape: Sequence[int]) -> int:
    """The bytes of a tensor; raises ValueError if they are not whole, or beyond 64 bits.

    No partial product may be beyond, whatever comes after it: other readers multiply in 64 bits.
    """
    elements = 1
    for extent in shape:
        elements *= extent
        if elements >= 2**64:
            raise ValueError(f"has a shape with more elements than 64 bits count: {list(shape)}")
    bits = elements * BITS[dtype]
    if bits >= 2**64:
        raise ValueError(f"has more bits than 64 bits count: {dtype} of shape {list(shape)}")
    if bits % 8:
        raise ValueError(f"does not end at a byte: {dtype} of shape {list(shape)}")
    return bits // 8


def lay_out(
    tensors: Mapping[str, tuple[str, Sequence[int]]], metadata: Mapping[str, str]
) -> tuple[bytes, tuple[Entry, ...]]:
    """Return the first bytes of a file with these tensors (dtype, shape), and each tensor's place.

    Wide elements come first, and the header is padded, so that each tensor is aligned to its
    elements. Equal arguments give equal bytes.
    """
    rank = {dtype: place for place, dtype in enumerate(BITS)}
    order = sorted(tensors, key=lambda name: (-rank[tensors[name][0]], name))
    entries = []
    end = 0
    for name in order:
        dtype, shape = tensors[name]
        begin, end = end, end + bytes_of(dtype, shape)
        entries.append(Entry(name, dtype, tuple(shape), begin, end))
    document: dict[str, Any] = {METADATA: dict(metadata)} if metadata else {}
    for entry in entries:
        document[entry.name] = {
            "dtype": entry.dtype,
            "shape": list(entry.shape),
            "data_offsets": [entry.begin, entry.end],
        }
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode("utf-8")
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(PREFIX, "little") + text, tuple(entries)
