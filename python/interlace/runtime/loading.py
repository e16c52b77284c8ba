"""Checkpoints in safetensors files: loaded into tensors by many threads and all PCIe links, saved.

    tensors = interlace.load(["model-1.safetensors", "model-2.safetensors"], "cuda:0")
    tensors = interlace.load("model", {"model.layers.0": "cuda:0", "": "cuda:1"})
    interlace.save(tensors, "copy.safetensors")

Threads read a file, from the page cache or the disk, into a ring of page-locked memory, from which
the copy engine (interlace/copy.hpp) brings it to the GPUs, also through the links of others. What
belongs into the host's memory they read straight to its place.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, NamedTuple

from interlace.base.errors import UserError
from interlace.base.files import whole_file
from interlace.base.native import load_core, load_driver
from interlace.runtime import safetensors_header, tensor_memory
from interlace.runtime.safetensors_header import BITS, Entry, Header

Progress = Callable[[int, int], None]
Device = Any  # "cpu", "cuda", "cuda:1", 1, torch.device, cupy.cuda.Device

MOST_THREADS = 32  # by default: more do not read faster than the links move
MOST_NAMED_THREADS = 1024
ALIGNMENT = 256  # of a tensor, or its size where that is less
RING = (8, 16 << 20)  # slots of page-locked memory, and the bytes of each
LEAST_SLOT, MOST_RING = 4096, 1 << 40  # bytes of a slot, of all slots
CHECKSUMS = "interlace.crc32c"  # the key of a file's metadata


class _File(NamedTuple):
    descriptor: int
    name: str
    header: Header


def load(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    device: Device | Mapping[str, Device] = "cpu",
    *,
    framework: str | None = None,
    threads: int | None = None,
    pin_memory: bool = False,
    verify: bool = False,
    progress: Progress | None = None,
    ring: tuple[int, int] = RING,
) -> dict[str, Any]:
    """Load the tensors of safetensors files.

    Several threads read the files, from the page cache or the disk. Bytes for GPUs go through a
    ring of page-locked memory, and over the links of other GPUs where that is faster. The call
    waits for the GPUs' current streams first, and returns when all bytes have arrived. Calls of
    several threads that use GPUs take turns.

    Args:
        paths: A file, several files, or a folder, from which all `*.safetensors` are loaded.
        device: "cpu", "cuda:1" or the like, or a mapping from prefixes of names to devices, such as
            {"model.layers.0": "cuda:0", "model": "cuda:1", "": "cpu"}. The longest matching prefix
            counts.
        framework: "torch" (the default if it is installed), "cupy" (GPUs only) or "numpy" (host
            only). CuPy and NumPy have no BF16, F8 and F4.
        threads: The number of reading threads. By default one for each core, 32 at most.
        pin_memory: Page-lock the tensors in host memory (torch only).
        verify: Compare the bytes with the checksums that `save` wrote.
        progress: A function that this thread calls now and then with (bytes so far, bytes in all).
        ring: The number of slots of page-locked memory, and the bytes of a slot. The ring is kept
            for later calls.

    Returns:
        A dictionary from names to tensors. The tensors of one file on one device are views of one
        allocation in the framework's current stream. The last of them frees it.

    Raises:
        UserError: A file is damaged or missing; the message names the file and the tensor.
        DeviceError: A disk or a GPU failed.

    The first call makes contexts on the other GPUs, to use their links. INTERLACE_COPY_RELAYS=none
    in the environment prevents this.

    Example::

        import numpy

        interlace.save({"weight": numpy.ones((2, 3), numpy.float32)}, "model.safetensors")
        tensors = interlace.load("model.safetensors", framework="numpy")
        assert tensors["weight"].shape == (2, 3)
    """
    with ExitStack() as opened:
        files = [_open(path, opened) for path in _files(paths)]
        _check_names(files)
        devices = _Devices(device, framework)
        if pin_memory and devices.framework != "torch":
            raise UserError("pin_memory=True needs torch")
        how = _How(threads_of(threads), verify, progress, _ring(ring))
        return _read(files, devices, pin_memory, how)


def _files(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
) -> list[Path]:
    several = isinstance(paths, Iterable) and not isinstance(paths, (str, bytes, os.PathLike))
    given: list[Any] = list(paths) if several else [paths]  # type: ignore[arg-type]
    for path in given:
        if not isinstance(path, (str, os.PathLike)):
            raise UserError(
                f"load takes the path of a file or a folder, or a list of them, not {path!r}"
            )
    found: list[Path] = []
    for path in map(Path, given):
        if path.is_dir():
            inside = sorted(path.glob("*.safetensors"))
            if not inside:
                raise UserError(f"there is no *.safetensors in the folder {path}")
            found += inside
        else:
            found.append(path)
    if not found:
        raise UserError("no file to load was given")
    return found


def _open(path: Path, opened: ExitStack) -> _File:
    try:
        # opening a pipe to which nobody writes would wait
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        opened.callback(os.close, descriptor)
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise UserError(f"{path} is not a regular file")
        prefix = _pread(descriptor, safetensors_header.PREFIX, 0)
        length = safetensors_header.header_bytes_of(str(path), prefix, status.st_size)
        text = _pread(descriptor, length, safetensors_header.PREFIX)
        with suppress(OSError):  # several threads read one file: the kernel reads further ahead
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_SEQUENTIAL)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError as error:  # a zero byte in the name
        raise UserError(f"{str(path)!r} cannot be read: {error}") from None
    return _File(descriptor, str(path), safetensors_header.parse(str(path), text, status.st_size))


def _pread(descriptor: int, size: int, offset: int) -> bytes:
    found = b""
    while len(found) < size:
        more = os.pread(descriptor, size - len(found), offset + len(found))
        if not more:
            break
        found += more
    return found


def _check_names(files: list[_File]) -> None:
    where: dict[str, str] = {}
    for file in files:
        for entry in file.header.tensors:
            if (other := where.setdefault(entry.name, file.name)) != file.name:
                raise UserError(f"tensor {entry.name!r} is in {other} and in {file.name}")
    names = [file.name for file in files]
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise UserError(f"{twice} is given twice")


def threads_of(asked: int | None) -> int:
    """Return the number of reading threads: `asked`, or one for each core."""
    if asked is None:
        return min(len(os.sched_getaffinity(0)), MOST_THREADS)
    most = MOST_NAMED_THREADS
    if isinstance(asked, bool) or not isinstance(asked, int) or not 1 <= asked <= most:
        raise UserError(f"threads={asked!r}: give a number from 1 to {most}")
    return asked


def _ring(asked: tuple[int, int]) -> tuple[int, int]:
    slots, size = asked
    if slots < 1:
        raise UserError(f"ring={asked!r}: give at least 1 slot")
    if size < LEAST_SLOT:
        raise UserError(f"ring={asked!r}: give slots of at least {LEAST_SLOT} bytes")
    if slots * size > MOST_RING:
        raise UserError(f"ring={asked!r}: give slots of at most 1 TiB in all")
    return slots, size


class _How(NamedTuple):
    """The settings of a transfer."""

    threads: int
    checksums: bool
    progress: Progress | None
    ring: tuple[int, int]


class _Devices:
    """Which device a tensor belongs on."""

    def __init__(self, device: Device | Mapping[str, Device], framework: str | None) -> None:
        by_prefix = dict(device) if isinstance(device, Mapping) else {"": device}
        if not by_prefix:
            raise UserError("the mapping from names to devices is empty")
        gpus = {prefix: tensor_memory.gpu_of(one) for prefix, one in by_prefix.items()}
        any_gpu = any(gpu is not None for gpu in gpus.values())
        mixed = any_gpu and None in gpus.values()
        self.framework = tensor_memory.framework_named(
            "torch" if mixed and framework is None else framework, gpu=any_gpu
        )
        if mixed and self.framework != "torch":
            raise UserError("tensors on the host and on GPUs at once need torch")
        count = tensor_memory.count_gpus(self.framework) if any_gpu else 0
        for prefix, gpu in gpus.items():
            if gpu == -1 and count:
                gpus[prefix] = tensor_memory.current_gpu(self.framework)
            elif gpu is not None and not 0 <= gpu < count:
                are = "is 1 GPU" if count == 1 else f"are {count} GPUs" if count else "is no GPU"
                raise UserError(f"{by_prefix[prefix]!r} is not there: there {are} here")
        self._gpus = gpus

    def of(self, file: str, name: str) -> int | None:
        prefix = name
        while prefix not in self._gpus:
            if not prefix:
                raise UserError(
                    f"{file}: the mapping has no device for tensor {name!r}; add one for it, or "
                    "for '', which is all others"
                )
            prefix = prefix.rpartition(".")[0]
        return self._gpus[prefix]


class _Place(NamedTuple):
    """A tensor, and where it will be in the memory of its file and device."""

    entry: Entry
    offset: int


def _placed(entries: Iterable[Entry]) -> tuple[list[_Place], int]:
    """The tensors in the order of the file, each aligned, and the bytes of all."""
    places = []
    end = 0
    for entry in entries:
        size = entry.end - entry.begin
        element = max(1, BITS[entry.dtype] // 8)
        own = min(ALIGNMENT, 1 << max(size - 1, 0).bit_length())
        aligned = max(own, element)
        begin = -(-end // aligned) * aligned
        places.append(_Place(entry, begin))
        end = begin + size
    return places, end


def _read(files: list[_File], devices: _Devices, pin_memory: bool, how: _How) -> dict[str, Any]:
    wanted = [_checksums(file) for file in files] if how.checksums else []
    memories: dict[tuple[int, int | None], tuple[list[_Place], int]] = {}
    for number, file in enumerate(files):
        by_gpu: dict[int | None, list[Entry]] = {}
        for entry in file.header.tensors:
            reason = tensor_memory.why_not(devices.framework, entry.dtype, entry.shape)
            if reason is not None:
                raise UserError(f"{file.name}: tensor {entry.name!r}: {reason}")
            by_gpu.setdefault(devices.of(file.name, entry.name), []).append(entry)
        for gpu, entries in by_gpu.items():
            memories[number, gpu] = _placed(entries)
    segments: list[tuple[int, int, int, int, int, int]] = []
    tensors: dict[str, Any] = {}
    for (number, gpu), (places, total) in memories.items():
        memory = tensor_memory.Memory(
            devices.framework, total, gpu, pinned=pin_memory and gpu is None
        )
        place = -1 if gpu is None else gpu
        for entry, offset in places:
            where = files[number].header.data_begin + entry.begin
            size = entry.end - entry.begin
            address = memory.address + offset
            segments.append((number, where, size, address, place, len(tensors)))
            tensors[entry.name] = memory.tensor(offset, size, entry.dtype, entry.shape)
    gpus = {gpu for _, gpu in memories if gpu is not None}
    for gpu in gpus:
        tensor_memory.synchronize(devices.framework, gpu)
    named = [(file.descriptor, file.name) for file in files]
    found = _move("read", named, segments, gpus, how)
    if how.checksums:
        _compare(files, wanted, dict(zip(tensors, found, strict=True)))
    return _in_file_order(files, tensors)


def _in_file_order(files: list[_File], tensors: dict[str, Any]) -> dict[str, Any]:
    return {entry.name: tensors[entry.name] for file in files for entry in file.header.tensors}


def _move(
    way: str,
    files: list[tuple[int, str]],
    segments: list[tuple[int, int, int, int, int, int]],
    gpus: set[int],
    how: _How,
) -> list[int]:
    total = sum(segment[2] for segment in segments)

    def told(done: int) -> None:
        if how.progress is not None:
            how.progress(done, total)

    report = None if how.progress is None else told
    if gpus:
        move = getattr(load_driver(), f"{way}_segments")
        found = move(files, segments, how.threads, how.checksums, report, *how.ring)
    else:
        move = getattr(load_core(), f"{way}_segments")
        found = move(files, segments, how.threads, how.checksums, report)
    return list(found)


def _checksums(file: _File) -> dict[str, str]:
    """Return the checksums of the tensors that the file states."""
    text = file.header.metadata.get(CHECKSUMS)
    if text is None:
        raise UserError(
            f"{file.name} has no checksums to verify; interlace.save writes them with "
            "checksums=True"
        )
    with suppress(ValueError, RecursionError):
        found = json.loads(text)
        names = {entry.name for entry in file.header.tensors}
        if isinstance(found, dict) and set(found) == names:
            return found
    raise UserError(f"{file.name}: its metadata, {CHECKSUMS}, is not a checksum for each tensor")


def _compare(files: list[_File], wanted: list[dict[str, str]], found: dict[str, int]) -> None:
    for file, stated in zip(files, wanted, strict=True):
        for entry in file.header.tensors:
            if stated[entry.name] != f"{found[entry.name]:08x}":
                raise UserError(
                    f"{file.name}: tensor {entry.name!r} is damaged: its CRC-32C is "
                    f"{found[entry.name]:08x}, and {stated[entry.name]} was saved"
                )


def save(
    tensors: Mapping[str, Any],
    path: str | os.PathLike[str],
    *,
    metadata: Mapping[str, str] | None = None,
    checksums: bool = False,
    threads: int | None = None,
    progress: Progress | None = None,
    ring: tuple[int, int] = RING,
) -> None:
    """Save tensors of PyTorch, CuPy or NumPy to a safetensors file.

    The file appears at once, complete and on the disk, or not at all. The call waits for the
    current streams of the tensors' GPUs first.

    Args:
        tensors: A mapping from names to contiguous tensors, which may be on several GPUs. A tensor
            that shares memory with another one is saved as a tensor of its own.
        path: The file to write. An existing file is replaced.
        metadata: Additional strings for the file's metadata.
        checksums: Put the CRC-32C of each tensor's bytes into the metadata, for
            `load(verify=True)`.
        threads: As for `load`.
        progress: As for `load`.
        ring: As for `load`.

    Raises:
        UserError: A tensor has a dtype or layout that a file cannot hold, or the file cannot be
            written.
        DeviceError: A disk or a GPU failed.

    Example::

        import numpy

        interlace.save({"bias": numpy.zeros(4)}, "bias.safetensors", checksums=True)
        bias = interlace.load("bias.safetensors", framework="numpy", verify=True)["bias"]
        assert bias.sum() == 0
    """
    if not isinstance(tensors, Mapping):
        kind = type(tensors).__name__
        raise UserError(f'save takes tensors by name, such as {{"weight": tensor}}, not a {kind}')
    texts = _metadata(metadata)
    sources: dict[str, tensor_memory.Bytes] = {}
    for name, tensor in tensors.items():
        if not isinstance(name, str) or name == safetensors_header.METADATA:
            raise UserError(f"a tensor cannot have the name {name!r}")
        _check_text("the name of a tensor", name)
        sources[name] = tensor_memory.bytes_of(name, tensor)
    if checksums:
        texts[CHECKSUMS] = json.dumps(dict.fromkeys(sources, "00000000"))
    specs = {name: (source.dtype, source.shape) for name, source in sources.items()}
    head, entries = safetensors_header.lay_out(specs, texts)
    if len(head) - safetensors_header.PREFIX > safetensors_header.MOST_BYTES:
        raise UserError(
            f"the header of {path} would be {len(head)} bytes long; "
            f"{safetensors_header.MOST_BYTES} are allowed"
        )
    gpus = {(source.framework, source.gpu) for source in sources.values() if source.gpu is not None}
    segments = []
    for number, entry in enumerate(entries):
        source = sources[entry.name]
        gpu = -1 if source.gpu is None else source.gpu
        where = len(head) + entry.begin
        segments.append((0, where, source.size, source.address, gpu, number))
    how = _How(threads_of(threads), checksums, progress, _ring(ring))
    for framework, gpu in gpus:
        tensor_memory.synchronize(framework, gpu)

    def fill(descriptor: int, name: str) -> None:
        used = {gpu for _, gpu in gpus}
        found = _move("write", [(descriptor, name)], segments, used, how)
        final = head
        if checksums:
            named = {entry.name: f"{sum_:08x}" for entry, sum_ in zip(entries, found, strict=True)}
            texts[CHECKSUMS] = json.dumps({name: named[name] for name in sources})
            final, _ = safetensors_header.lay_out(specs, texts)
            assert len(final) == len(head)
        _pwrite(descriptor, final)

    _write(Path(path), len(head) + (entries[-1].end if entries else 0), fill)


def _pwrite(descriptor: int, data: bytes) -> None:
    """Write all data to the beginning of a file, although one call may take only a part."""
    done = 0
    while done < len(data):
        written = os.pwrite(descriptor, data[done:], done)
        if not written:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        done += written


def _metadata(metadata: Mapping[str, str] | None) -> dict[str, str]:
    if not isinstance(metadata or {}, Mapping):
        raise UserError(f"metadata is a {type(metadata).__name__}; give texts by name")
    texts = dict(metadata or {})
    for key, text in texts.items():
        if not isinstance(key, str) or not isinstance(text, str):
            raise UserError(f"metadata {key!r} is not a text with a text")
        _check_text("metadata", key)
        _check_text(f"metadata {key!r}", text)
    if CHECKSUMS in texts:
        raise UserError(f"metadata {CHECKSUMS!r} is what checksums=True writes")
    return texts


def _check_text(what: str, text: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise UserError(f"{what}, {text!r}, has half a surrogate pair") from None


def _write(path: Path, size: int, fill: Callable[[int, str], None]) -> None:
    """Make a file of `size` bytes that `fill` writes: afterwards it is complete or absent."""
    if path.is_dir():
        raise UserError(f"{path} is a folder; give the name of a file")
    with suppress(OSError, ValueError):  # where that is not known, writing finds out
        folder = Path(os.path.realpath(path)).parent
        room = os.statvfs(folder)
        if room.f_frsize * room.f_bavail < size:
            raise UserError(
                f"{path} cannot be written: it takes {size} bytes, and "
                f"{room.f_frsize * room.f_bavail} are free in {folder}"
            )
    with whole_file(path) as descriptor:
        os.ftruncate(descriptor, size)
        fill(descriptor, str(path))
