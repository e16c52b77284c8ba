"""Reads headers of safetensors files strictly, and writes them.

The first 8 bytes of a file are the length of the header (little-endian). The header and the data
follow. The header is a JSON object. It has an object for each tensor, with the keys dtype, shape
and data_offsets. The offsets are relative to the beginning of the data. The key `__metadata__` of
the header is an object of strings. Tensors fill the data without holes and without overlap. These
rules come from the description of the format (https://github.com/huggingface/safetensors, README).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from interlace.base.errors import UserError
from interlace.base.memory import memory_bytes
from interlace.base.native import load_core

PREFIX = 8  # bytes before the header
MOST_BYTES = 100_000_000  # a header has at most this many bytes
NEEDED = 7  # parsing needs this many bytes of memory for each byte of a header
METADATA = "__metadata__"

# Maps a dtype to the bits of an element. In a file, tensors of the last dtype come first.
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
    """A tensor. Its bytes are in the data from `begin` up to, but not including, `end`."""

    name: str
    dtype: str  # a key of BITS
    shape: tuple[int, ...]
    begin: int
    end: int


class Header(NamedTuple):
    """The content of a header. The tensors follow each other without gaps."""

    tensors: tuple[Entry, ...]
    metadata: dict[str, str]
    data_begin: int  # the offset of the data in the file


def header_bytes_of(file: str, prefix: bytes, file_bytes: int) -> int:
    """Return the length of the header, from the first bytes of the file. Raises UserError."""
    if len(prefix) < PREFIX or file_bytes < PREFIX:
        raise UserError(
            f"{file} is not a safetensors file: it ends after {min(len(prefix), file_bytes)} "
            f"bytes, within the {PREFIX} bytes that say how long its header is"
        )
    length = int.from_bytes(prefix[:PREFIX], "little")
    if length > MOST_BYTES:
        raise UserError(
            f"{file} is not a safetensors file: its header would have {length} bytes, and at most "
            f"{MOST_BYTES} are allowed"
        )
    if length > 1 << 20 and NEEDED * length > memory_bytes():
        raise UserError(
            f"{file}: its header of {length} bytes needs about {NEEDED * length / 1e9:.1f} GB of "
            f"memory and this process has {memory_bytes() / 1e9:.1f} GB"
        )
    if length > file_bytes - PREFIX:
        raise UserError(
            f"{file} is cut off: its header has {length} bytes, but only {file_bytes - PREFIX} "
            "bytes are there"
        )
    return length


def parse(file: str, text: bytes, file_bytes: int) -> Header:
    """Parse `text`, the header of a file that has `file_bytes` bytes in all.

    Raises UserError. Its message names `file`, the tensor and the problem.
    """
    dtypes = list(BITS.items())
    tensors, metadata, begin = load_core().parse_header(file, text, file_bytes, dtypes, Entry)
    return Header(tuple(tensors), metadata, begin)


def bytes_of(dtype: str, shape: Sequence[int]) -> int:
    """Return the bytes of a tensor.

    Raise UserError if the number is not whole, or does not fit in 64 bits.
    """
    return int(load_core().tensor_bytes(list(shape), (dtype, BITS[dtype])))


def lay_out(
    tensors: Mapping[str, tuple[str, Sequence[int]]], metadata: Mapping[str, str]
) -> tuple[bytes, tuple[Entry, ...]]:
    """Return the header of a file with these tensors, and the place of each tensor.

    `tensors` maps a name to (dtype, shape). Tensors with wide elements come first, and the header
    is padded, so that each tensor is aligned to its elements. Equal arguments give equal bytes.
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
