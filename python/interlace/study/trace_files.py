"""Reads trace files of other tools: detects their format, and yields their text in pieces."""

from __future__ import annotations

import lzma
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from interlace.base.errors import UserError, unknown
from interlace.model.run import core_errors
from interlace.study.address_map import Places

ACCEL_SIM, NVBIT, MGPUSIM = "accel-sim", "nvbit", "mgpusim"
FORMATS = (ACCEL_SIM, NVBIT, MGPUSIM)
COMPONENT = "L1VCache"  # in the names of MGPUSim's caches that get the vector units' accesses

PIECE = 1 << 20
# Compressed bytes are read in small pieces. The size of an unpacked piece is then limited, even if
# the file was made to unpack to very many bytes.
PACKED_PIECE = 1 << 14
MAX_LIST_BYTES = 64 << 20
LOOKED_AT = 1 << 16


def pieces(file: Path) -> Iterator[bytes]:
    """Yield the bytes of a file. A file whose name ends in .xz or .zst is unpacked.

    Raises UserError if the file cannot be read or is damaged.
    """
    try:
        with file.open("rb") as stream:
            if file.name.endswith(".xz"):
                yield from _unpacked_xz(file, stream)
            elif file.name.endswith((".zst", ".zstd")):
                yield from _unpacked_zst(file, stream)
            else:
                while piece := stream.read(PIECE):
                    yield piece
    except OSError as error:
        raise UserError(f"{file} cannot be read: {error.strerror or error}") from None


def _unpacked_xz(file: Path, stream: Any) -> Iterator[bytes]:
    unpacker = lzma.LZMADecompressor(format=lzma.FORMAT_XZ)
    begun = between = False
    try:
        while packed := stream.read(PACKED_PIECE):
            while (
                packed := packed.lstrip(b"\0") if between else packed
            ):  # there may be padding between streams
                begun, between = True, False
                if piece := unpacker.decompress(packed, PIECE):
                    yield piece
                while not unpacker.needs_input and not unpacker.eof:
                    yield unpacker.decompress(b"", PIECE)
                packed = unpacker.unused_data if unpacker.eof else b""
                if unpacker.eof:
                    unpacker = lzma.LZMADecompressor(format=lzma.FORMAT_XZ)
                    begun, between = False, True
    except lzma.LZMAError as error:
        raise UserError(f"{file} is not a sound xz file ({error}); get it anew") from None
    if begun:
        raise UserError(f"{file} is cut off (its xz stream does not end); get it anew")


def _unpacked_zst(file: Path, stream: Any) -> Iterator[bytes]:
    try:
        import zstandard
    except ImportError:
        raise UserError(
            f"{file} needs the Python package zstandard; run pip install zstandard, or unpack the "
            "file"
        ) from None
    unpacker = zstandard.ZstdDecompressor().decompressobj()
    begun = False
    try:
        while packed := stream.read(PACKED_PIECE):
            while packed:
                begun = True
                if piece := unpacker.decompress(packed):
                    yield piece
                packed = unpacker.unused_data if unpacker.eof else b""
                if unpacker.eof:
                    unpacker, begun = zstandard.ZstdDecompressor().decompressobj(), False
    except zstandard.ZstdError as error:
        raise UserError(f"{file} is not a sound zstd file ({error}); get it anew") from None
    if begun:
        raise UserError(f"{file} is cut off (its zstd stream does not end); get it anew")


def beginning(file: Path) -> bytes:
    """Return the first bytes of a file, unpacked."""
    return next(pieces(file), b"")[:LOOKED_AT]


def kind_of(file: Path, asked: str | None) -> str:
    """Return the format of another tool's file: `asked`, or the format that its bytes show."""
    if asked is not None:
        if asked not in FORMATS:
            raise unknown("format", asked, FORMATS)
        return asked
    if file.name.endswith(".tracez"):
        raise UserError(
            f"{file} has Accel-Sim's binary form, which Interlace cannot read; give the .traceg "
            "files"
        )
    text = beginning(file)
    first = text.lstrip()
    if first.startswith((b"-kernel name", b"Memcpy", b"kernel-")):
        return ACCEL_SIM
    if first.startswith(b"start, "):
        return MGPUSIM
    if b"MEMTRACE: CTX" in text:
        return NVBIT
    raise UserError(
        f"{file} does not look like a file of the formats {', '.join(FORMATS)}; name its format "
        "with --format"
    )


class Conversion:
    """Converts a trace of another tool with the compiled module, piece by piece."""

    def __init__(
        self, core: Any, file: Path, kind: str, places: Places, component: str, out: str
    ) -> None:
        self.core = core
        self.file = file
        self.kind = kind
        self.places = places
        with core_errors():
            self.made = core.convert_trace(
                kind, str(file), places.gpus, places.ranges, places.contexts, component, out
            )

    def run(self, tick: Callable[[], None]) -> dict[str, Any]:
        """Convert the whole trace, and return its statistics. Calls `tick` after each piece."""
        with core_errors():
            if self.kind != ACCEL_SIM:
                self._feed(self.file, tick)
            elif beginning(self.file).lstrip().startswith(b"-"):
                self._kernel(self.file, tick)
            else:
                self._list(tick)
            found: dict[str, Any] = self.made.finish()
            return found

    def lines(self) -> int:
        """Return the number of lines that were read so far."""
        count: int = self.made.lines()
        return count

    def _feed(self, file: Path, tick: Callable[[], None]) -> None:
        for piece in pieces(file):
            self.made.feed(piece)
            tick()
        self.made.end_file()

    def _kernel(self, file: Path, tick: Callable[[], None]) -> None:
        self.made.begin_file(str(file), self.places.gpu_of(file.name))
        self._feed(file, tick)

    def _list(self, tick: Callable[[], None]) -> None:
        text = bytearray()
        for piece in pieces(self.file):
            text += piece
            if len(text) > MAX_LIST_BYTES:
                raise UserError(
                    f"{self.file} is too long for a list of kernels; give a list of at most "
                    f"{MAX_LIST_BYTES >> 20} MiB"
                )
        for step in self.core.trace_kernels_list(bytes(text), str(self.file)):
            if step.is_copy:
                self.made.copy(step, str(self.file))
                continue
            kernel = self.file.parent / step.file
            if not kernel.is_file():
                raise UserError(
                    f"{self.file}, line {step.line}: there is no file {kernel}; put it next to the "
                    "list"
                )
            self._kernel(kernel, tick)
