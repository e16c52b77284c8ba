"""Reads tensors of open files into the host's memory and onto GPUs.

Threads read a file, from the page cache or from the disk, into slots of page-locked memory (the
ring). The copy engine (interlace/copy.hpp) copies the bytes from the slots to the GPUs, and can use
the links of other GPUs. Bytes for the host's memory are read directly into the tensors.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from interlace.base.cores import allowed_cores
from interlace.base.errors import DeviceError, UserError
from interlace.base.native import load_core, load_driver
from interlace.runtime import tensor_memory
from interlace.runtime.checkpoint_files import File
from interlace.runtime.safetensors_header import BITS, Entry

Progress = Callable[[int, int], None]
# A segment: file, offset in the file, bytes, address, GPU (-1 for the host), number of the tensor.
Segment = tuple[int, int, int, int, int, int]

MOST_THREADS = 32  # the largest default number of threads; more threads are not faster
MOST_NAMED_THREADS = 1024
ALIGNMENT = 256  # the alignment of a tensor in bytes; a smaller tensor is aligned to its size
# The approximate bytes of an allocation. Threads read into an allocation while the driver makes the
# next one. On an H200, an allocation takes 0.4 ms plus 0.5 ms per GiB, so many small allocations
# would take longer.
BLOCK = 1 << 30
# This many allocations are made before they are needed. Copies from the ring continue while the
# driver makes one allocation, but stop while the driver makes many allocations.
LEAD = 2
# the smallest size of a slot, and the largest size of all slots together
LEAST_SLOT, MOST_RING = 4096, 1 << 40


class How(NamedTuple):
    """The settings of a transfer."""

    threads: int
    checksums: bool = False
    progress: Progress | None = None
    ring: tuple[int, int] | None = None  # (slots, bytes); None means a ring that suits the machine
    most_host: int | None = None  # the ring has at most this many bytes; None means no limit
    # for GPUs: read bytes that are not in the page cache without putting them there
    direct: bool = False
    # the call uses at most this many bytes of each GPU in addition to the tensors; None means no
    # limit
    most_device: int | None = None


def threads_of(asked: int | None) -> int:
    """Return the number of reading threads: `asked`, or one for each core."""
    if asked is None:
        return min(allowed_cores(), MOST_THREADS)
    most = MOST_NAMED_THREADS
    if isinstance(asked, bool) or not isinstance(asked, int) or not 1 <= asked <= most:
        raise UserError(f"threads={asked!r}: give a number from 1 to {most}")
    return asked


def ring_of(asked: tuple[int, int] | None) -> tuple[int, int] | None:
    """Check `asked`, and return `asked` or raise UserError.

    `asked` is the number of slots of a ring and the bytes of a slot. None means a ring that suits
    the machine.
    """
    if asked is None:
        return None
    if not _are_two_numbers(asked):
        raise UserError(f"ring={asked!r}: give the number of slots and the bytes of a slot")
    slots, size = asked
    if slots < 1:
        raise UserError(f"ring={asked!r}: give at least 1 slot")
    if size < LEAST_SLOT:
        raise UserError(f"ring={asked!r}: give slots of at least {LEAST_SLOT} bytes")
    if slots * size > MOST_RING:
        raise UserError(f"ring={asked!r}: give slots of at most 1 TiB in all")
    return slots, size


def _are_two_numbers(asked: object) -> bool:
    return (
        isinstance(asked, (tuple, list))
        and len(asked) == 2
        and all(isinstance(one, int) for one in asked)
    )


def default_ring(threads: int, gpus: int) -> tuple[int, int]:
    """Return the ring for a number of threads, on a computer with `gpus` visible GPUs.

    A few threads read slower than a link copies, so they need few slots. With slots of 1 MiB, the
    calls of the driver would take a tenth of the threads' time. Up to eight threads are fastest
    with eight slots of 8 MiB. More than eight threads read faster than a link copies. They have
    large slots for two reasons. A link is idle for 2 to 3 us between two copies. The driver delays
    new copies while memory is allocated, and a copy of 32 MiB that already runs takes longer than
    most of these delays. If there are several GPUs, the GPUs relay copies, but only large copies.
    """
    if gpus > 1:
        return 8, 16 << 20
    if threads <= 4:
        return max(threads, 3), 4 << 20
    return (8, 8 << 20) if threads <= 8 else (4, 32 << 20)


def bounded_ring(ring: tuple[int, int], most: int | None) -> tuple[int, int]:
    """Return a ring of at most `most` bytes.

    The ring has fewer slots than `ring`. If not even two of these slots fit, the slots are smaller.
    """
    if most is None:
        return ring
    slots, size = ring
    slots = max(min(slots, most // size), min(slots, 2))
    return slots, min(size, most // slots // LEAST_SLOT * LEAST_SLOT)


def most_host_of(asked: int | None) -> int | None:
    """Check `asked`, and return `asked` or raise UserError.

    `asked` limits the bytes of page-locked memory. None means no limit.
    """
    if asked is None:
        return None
    least = 2 * LEAST_SLOT
    if isinstance(asked, bool) or not isinstance(asked, int) or asked < least:
        raise UserError(f"max_host_bytes={asked!r}: give a number of at least {least}")
    return asked


def most_device_of(asked: int | None) -> int | None:
    """Check `asked`, and return `asked` or raise UserError.

    `asked` limits the bytes that a call may use on each GPU in addition to the tensors. None means
    no limit.
    """
    if asked is not None and (isinstance(asked, bool) or not isinstance(asked, int) or asked < 0):
        raise UserError(f"max_device_bytes={asked!r}: give 0 or more bytes")
    return asked


class Wanted(NamedTuple):
    """A tensor, or some of its rows, and the device to load it to."""

    file: int  # the index of the tensor's file in the list of files
    entry: Entry
    gpu: int | None


def _placed(entries: Iterable[Entry]) -> tuple[list[int], int]:
    """Return an aligned offset for each tensor in one memory, and the bytes of this memory."""
    places = []
    end = 0
    for entry in entries:
        size = entry.end - entry.begin
        element = max(1, BITS[entry.dtype] // 8)
        own = min(ALIGNMENT, 1 << max(size - 1, 0).bit_length())
        aligned = max(own, element)
        begin = -(-end // aligned) * aligned
        places.append(begin)
        end = begin + size
    return places, end


def refuse_unknown(framework: str, files: Sequence[File], wanted: Iterable[Wanted]) -> None:
    """Raise UserError for the first tensor whose dtype or shape the framework does not have."""
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
    """Read tensors. Return the tensors, and their checksums if `how` asks for checksums.

    The tensors of a device are views of allocations of `BLOCK` bytes, or of more bytes if a tensor
    is larger. The allocations are made in the framework's current stream. The call returns after
    all bytes have arrived. It raises UserError if a file has changed, and DeviceError if a disk or
    a GPU failed. Both errors name the file and the tensor.
    """
    tensors: list[Any] = [None] * len(wanted)
    checksums = [0] * len(wanted)
    batches, how = _bounded(_batches(wanted, BLOCK), wanted, framework, how)
    reader = reader_of(files, wanted, how)
    try:
        for place, batch in enumerate(batches):
            if place >= LEAD:
                reader.wait(place - LEAD)
            own = [one for _, one in batch]
            begun = begin(reader, files, own, framework, pin_memory=pin_memory)
            for (number, _), tensor in zip(batch, begun, strict=True):
                tensors[number] = tensor
        for place, batch in enumerate(batches):
            for (number, _), checksum in zip(batch, reader.wait(place), strict=how.checksums):
                checksums[number] = checksum
        if how.direct:
            _warn(reader.direct_problem())
    finally:
        reader.close()  # the reader may write to the memory until it is closed
    return tensors, checksums if how.checksums else []


Numbered = tuple[int, Wanted]  # a tensor with its index in the caller's list


def _batches(wanted: Sequence[Wanted], block: int) -> list[list[Numbered]]:
    """Return the batches in the order in which they are read.

    The tensors of each device come in the order of the files. Every batch has the same share of the
    tensors of each device, so all devices are complete at about the same time. The device with the
    most bytes has about `block` bytes in each batch.
    """
    totals: dict[int | None, int] = {}
    for one in wanted:
        totals[one.gpu] = totals.get(one.gpu, 0) + one.entry.end - one.entry.begin
    count = max(1, *(-(-total // block) for total in totals.values())) if totals else 0
    batches: list[list[Numbered]] = [[] for _ in range(count)]
    done = dict.fromkeys(totals, 0)
    for number, one in sorted(enumerate(wanted), key=lambda n: (n[1].file, n[1].entry.begin)):
        batch = batches[min(count * done[one.gpu] // max(totals[one.gpu], 1), count - 1)]
        batch.append((number, one))
        done[one.gpu] += one.entry.end - one.entry.begin
    return [batch for batch in batches if batch]


def _bounded(
    batches: list[list[Numbered]], wanted: Sequence[Wanted], framework: str, how: How
) -> tuple[list[list[Numbered]], How]:
    """Return batches whose allocations need at most `how.most_device` bytes beyond the tensors.

    If necessary, allocations become larger and fewer. Also return `how` with the number of bytes
    that relayed copies may use on each GPU. Raise UserError if even one allocation on each GPU
    needs too many bytes.
    """
    most = how.most_device
    if most is None:
        return batches, how
    over = _beyond(batches, framework)
    if max(over.values(), default=0) > most:
        batches = _batches(wanted, sum(one.entry.end - one.entry.begin for one in wanted) or 1)
        over = _beyond(batches, framework)
    for gpu, least in over.items():
        if least > most:
            raise UserError(
                f"max_device_bytes={most}: the tensors on GPU {gpu} need {least} more bytes for "
                "their alignment and for the allocator's unit; give at least this many"
            )
    return batches, how._replace(most_device=most - max(over.values(), default=0))


def _beyond(batches: Iterable[Sequence[Numbered]], framework: str) -> dict[int, int]:
    """Return the bytes of the batches' allocations beyond the tensors, for each GPU."""
    found: dict[int, int] = {}
    for batch in batches:
        by_gpu: dict[int, list[Entry]] = {}
        for _, one in batch:
            if one.gpu is not None:
                by_gpu.setdefault(one.gpu, []).append(one.entry)
        for gpu, entries in by_gpu.items():
            taken = tensor_memory.taken_by(framework, _placed(entries)[1])
            own = sum(entry.end - entry.begin for entry in entries)
            found[gpu] = found.get(gpu, 0) + taken - own
    return found


def reader_of(files: Sequence[File], wanted: Sequence[Wanted], how: How) -> Any:
    """Return a reader of the engine that reads the wanted tensors."""
    report = _report(how, sum(one.entry.end - one.entry.begin for one in wanted))
    named = [(file.descriptor, file.name) for file in files]
    if all(one.gpu is None for one in wanted):
        if how.direct:
            raise UserError("direct=True works only for tensors on GPUs")
        return load_core().Reader(named, how.threads, how.checksums, report)
    return load_driver().Reader(
        named,
        how.threads,
        how.checksums,
        report,
        *_ring(how),
        direct=how.direct,
        most_staging=how.most_device,
    )


def _warn(problem: str) -> None:
    """Warn that reads went through the page cache although the caller asked for direct reads."""
    if problem:
        warnings.warn(
            f"files could not be read directly from the disk ({problem}); the page cache was used",
            RuntimeWarning,
            stacklevel=5,
        )


def begin(
    reader: Any,
    files: Sequence[File],
    batch: Sequence[Wanted],
    framework: str,
    *,
    pin_memory: bool = False,
) -> list[Any]:
    """Begin to read a batch, and return its tensors. They are complete after the batch has arrived.

    The tensors of a device are views of one allocation in the framework's current stream.
    """
    by_gpu: dict[int | None, list[int]] = {}
    for number, one in enumerate(batch):
        by_gpu.setdefault(one.gpu, []).append(number)
    segments: list[Segment] = []
    tensors: list[Any] = [None] * len(batch)
    for gpu, numbers in by_gpu.items():
        offsets, total = _placed([batch[number].entry for number in numbers])
        first = batch[numbers[0]]
        pinned = pin_memory and gpu is None
        name = files[first.file].name
        memory = allocated(framework, total, gpu, name, first.entry, pinned=pinned)
        for number, offset in zip(numbers, offsets, strict=True):
            file, entry, _ = batch[number]
            size = entry.end - entry.begin
            where = files[file].header.data_begin + entry.begin
            place = -1 if gpu is None else gpu
            segments.append((file, where, size, memory.address + offset, place, number))
            tensors[number] = memory.tensor(offset, size, entry.dtype, entry.shape)
        if gpu is not None:  # earlier work of the stream may still use this memory
            tensor_memory.synchronize(framework, gpu)
    reader.add(segments)
    return tensors


def allocated(
    framework: str, size: int, gpu: int | None, file: str, first: Entry, *, pinned: bool = False
) -> tensor_memory.Memory:
    """Allocate memory for `first` and for the tensors after `first` in a file.

    Raises DeviceError if the device has too little memory.
    """
    try:
        return tensor_memory.Memory(framework, size, gpu, pinned=pinned)
    except Exception as error:
        if not _is_out_of_memory(error):
            raise
        where = "the host's memory" if gpu is None else f"the memory of GPU {gpu}"
        raise DeviceError(
            f"{file}: tensor {first.name!r} and the tensors after it need {size} bytes, which "
            f"{where} does not have: {str(error).splitlines()[0] if str(error) else 'it is full'}"
        ) from None


def _is_out_of_memory(error: Exception) -> bool:
    # PyTorch raises a RuntimeError if the host's memory is full
    named = isinstance(error, MemoryError) or "OutOfMemory" in type(error).__name__
    return named or (isinstance(error, RuntimeError) and "alloc" in str(error))


def move_from(
    files: Sequence[File], segments: Sequence[Segment], gpus: set[int], how: How
) -> list[int]:
    """Read segments into memory. An error names the file and the tensor."""
    named = [(file.descriptor, file.name) for file in files]
    return move("read", named, segments, gpus, how)


def move(
    way: str,
    files: list[tuple[int, str]],
    segments: Sequence[Segment],
    gpus: set[int],
    how: How,
) -> list[int]:
    """Read or write segments of files. `files` are pairs (descriptor, name).

    Return the checksums that `how` asks for.
    """
    report = _report(how, sum(segment[2] for segment in segments))
    if gpus:
        transfer = getattr(load_driver(), f"{way}_segments")
        found = transfer(files, segments, how.threads, how.checksums, report, *_ring(how))
    else:
        transfer = getattr(load_core(), f"{way}_segments")
        found = transfer(files, segments, how.threads, how.checksums, report)
    return list(found)


def _report(how: How, total: int) -> Callable[[int], None] | None:
    progress = how.progress
    return None if progress is None else lambda done: progress(done, total)


def _ring(how: How) -> tuple[int, int]:
    usual = default_ring(how.threads, load_driver().visible_gpus())
    return how.ring or bounded_ring(usual, how.most_host)
