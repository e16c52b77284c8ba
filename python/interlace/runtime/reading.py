"""Reads tensors of open files into the host's memory and onto GPUs.

Threads read a file, from the page cache or the disk, into a ring of page-locked memory. From there
the copy engine (interlace/copy.hpp) copies it to the GPUs, also over the links of other GPUs.
Bytes for the host's memory are read directly to their place.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from interlace.base.errors import DeviceError, UserError
from interlace.base.native import load_core, load_driver
from interlace.runtime import tensor_memory
from interlace.runtime.checkpoint_files import File
from interlace.runtime.safetensors_header import BITS, Entry

Progress = Callable[[int, int], None]
# # File, offset in the file, bytes, address, GPU or -1, and the number of the tensor.
Segment = tuple[int, int, int, int, int, int]

MOST_THREADS = 32  # the default limit, because more threads are not faster than the links
MOST_NAMED_THREADS = 1024
ALIGNMENT = 256  # alignment of a tensor; a smaller tensor is aligned to its size
RING = (8, 16 << 20)  # number of slots of page-locked memory, and the bytes of a slot
LEAST_SLOT, MOST_RING = 4096, 1 << 40  # least bytes of a slot, and most bytes of all slots


class How(NamedTuple):
    """The settings of a transfer."""

    threads: int
    checksums: bool = False
    progress: Progress | None = None
    ring: tuple[int, int] = RING


def threads_of(asked: int | None) -> int:
    """Return the number of reading threads: `asked`, or one for each core."""
    if asked is None:
        return min(len(os.sched_getaffinity(0)), MOST_THREADS)
    most = MOST_NAMED_THREADS
    if isinstance(asked, bool) or not isinstance(asked, int) or not 1 <= asked <= most:
        raise UserError(f"threads={asked!r}: give a number from 1 to {most}")
    return asked


def ring_of(asked: tuple[int, int]) -> tuple[int, int]:
    """Return the number of slots and the bytes of a slot, after a check."""
    slots, size = asked
    if slots < 1:
        raise UserError(f"ring={asked!r}: give at least 1 slot")
    if size < LEAST_SLOT:
        raise UserError(f"ring={asked!r}: give slots of at least {LEAST_SLOT} bytes")
    if slots * size > MOST_RING:
        raise UserError(f"ring={asked!r}: give slots of at most 1 TiB in all")
    return slots, size


class Wanted(NamedTuple):
    """A tensor, or rows of a tensor, and its device."""

    file: int  # the file's index in the list of files
    entry: Entry
    gpu: int | None


class _Place(NamedTuple):
    """A tensor, and its place in the memory for its file and device."""

    entry: Entry
    offset: int
    number: int


def _placed(entries: Iterable[tuple[int, Entry]]) -> tuple[list[_Place], int]:
    """The tensors in the order of the file, each aligned, and the bytes of all tensors together."""
    places = []
    end = 0
    for number, entry in entries:
        size = entry.end - entry.begin
        element = max(1, BITS[entry.dtype] // 8)
        own = min(ALIGNMENT, 1 << max(size - 1, 0).bit_length())
        aligned = max(own, element)
        begin = -(-end // aligned) * aligned
        places.append(_Place(entry, begin, number))
        end = begin + size
    return places, end


def refuse_unknown(framework: str, files: Sequence[File], wanted: Iterable[Wanted]) -> None:
    """Raise UserError for the first tensor that the framework cannot represent."""
    for one in wanted:
        reason = tensor_memory.why_not(framework, one.entry.dtype, one.entry.shape)
        if reason is not None:
            raise UserError(f"{files[one.file].name}: tensor {one.entry.name!r}: {reason}")


def read(
    files: Sequence[File],
    wanted: Sequence[Wanted],
    framework: str,
    how: How,
    *,
    pin_memory: bool = False,
) -> tuple[list[Any], list[int]]:
    """Read tensors. Return them, and their checksums if `how` asks for checksums.

    The tensors of a file on one device are views of one allocation in the framework's current
    stream. Returns when all bytes have arrived. Raises UserError for a file that changed, and
    DeviceError for a disk or a GPU that failed; both name the file and the tensor.
    """
    groups: dict[tuple[int, int | None], list[tuple[int, Entry]]] = {}
    for number, one in enumerate(wanted):
        groups.setdefault((one.file, one.gpu), []).append((number, one.entry))
    segments: list[Segment] = []
    tensors: list[Any] = [None] * len(wanted)
    for (file, gpu), entries in groups.items():
        places, total = _placed(entries)
        pinned = pin_memory and gpu is None
        memory = allocated(framework, total, gpu, files[file].name, entries[0][1], pinned=pinned)
        for entry, offset, number in places:
            where, size = files[file].header.data_begin + entry.begin, entry.end - entry.begin
            segments.append(
                (file, where, size, memory.address + offset, -1 if gpu is None else gpu, number)
            )
            tensors[number] = memory.tensor(offset, size, entry.dtype, entry.shape)
    gpus = {gpu for _, gpu in groups if gpu is not None}
    for gpu in gpus:
        tensor_memory.synchronize(framework, gpu)
    return tensors, move_from(files, segments, gpus, how)


def allocated(
    framework: str, size: int, gpu: int | None, file: str, first: Entry, *, pinned: bool = False
) -> tensor_memory.Memory:
    """Allocate memory for the tensors of a file from `first` on. Raises DeviceError if there is
    too little.
    """
    try:
        return tensor_memory.Memory(framework, size, gpu, pinned=pinned)
    except Exception as error:
        if not _is_out_of_memory(error):
            raise
        where = "the host's memory" if gpu is None else f"the memory of GPU {gpu}"
        raise DeviceError(
            f"{file}: tensor {first.name!r} and those after it need {size} bytes, which "
            f"{where} does not have: {str(error).splitlines()[0] if str(error) else 'it is full'}"
        ) from None


def _is_out_of_memory(error: Exception) -> bool:
    # # PyTorch raises a RuntimeError if the host's memory is full.
    named = isinstance(error, MemoryError) or "OutOfMemory" in type(error).__name__
    return named or (isinstance(error, RuntimeError) and "alloc" in str(error))


def move_from(
    files: Sequence[File], segments: Sequence[Segment], gpus: set[int], how: How
) -> list[int]:
    """Read segments. An error names the file and the tensor."""
    named = [(file.descriptor, file.name) for file in files]
    return move("read", named, segments, gpus, how)


def move(
    way: str,
    files: list[tuple[int, str]],
    segments: Sequence[Segment],
    gpus: set[int],
    how: How,
) -> list[int]:
    """Read or write segments of files (descriptor, name). Return checksums if they are
    requested.
    """
    total = sum(segment[2] for segment in segments)

    def told(done: int) -> None:
        if how.progress is not None:
            how.progress(done, total)

    report = None if how.progress is None else told
    if gpus:
        transfer = getattr(load_driver(), f"{way}_segments")
        found = transfer(files, segments, how.threads, how.checksums, report, *how.ring)
    else:
        transfer = getattr(load_core(), f"{way}_segments")
        found = transfer(files, segments, how.threads, how.checksums, report)
    return list(found)
