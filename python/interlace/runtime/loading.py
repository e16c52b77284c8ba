"""Loads and saves checkpoints in safetensors files, with many threads and over all PCIe links.

tensors = interlace.load(["model-1.safetensors", "model-2.safetensors"], "cuda:0")
tensors = interlace.load("model", {"model.layers.0": "cuda:0", "": "cuda:1"})
interlace.save(tensors, "copy.safetensors")
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from interlace.base.errors import UserError
from interlace.base.files import whole_file
from interlace.runtime import reading, safetensors_header, tensor_memory
from interlace.runtime.checkpoint_files import File, Paths, close_files, open_files
from interlace.runtime.placement import Device, Devices
from interlace.runtime.read_errors import naming_tensors
from interlace.runtime.reading import (
    How,
    Progress,
    Wanted,
    most_device_of,
    most_host_of,
    ring_of,
    threads_of,
)

CHECKSUMS = "interlace.crc32c"  # the key of a file's metadata


def load(
    paths: Paths,
    device: Device | Mapping[str, Device] = "cpu",
    *,
    framework: str | None = None,
    threads: int | None = None,
    pin_memory: bool = False,
    verify: bool = False,
    progress: Progress | None = None,
    ring: tuple[int, int] | None = None,
    max_host_bytes: int | None = None,
    max_device_bytes: int | None = None,
    direct: bool = False,
) -> dict[str, Any]:
    """Load the tensors of safetensors files.

    Several threads read the files, from the page cache or from the disk. Bytes for GPUs go through
    slots of page-locked memory. Some of these bytes go over the links of other GPUs if this is
    faster. The call first waits for the current streams of the GPUs. It returns after all bytes
    have arrived.

    Args:
        paths: A file, several files, or a folder. If a folder has an index
            (`*.safetensors.index.json`), the call loads the files that the index names. Otherwise
            it loads all `*.safetensors`.
        device: "cpu", a GPU such as "cuda:1", or a mapping from prefixes of names to devices, such
            as {"model.layers.0": "cuda:0", "model": "cuda:1", "": "cpu"}. The longest prefix that
            matches a tensor's name determines the tensor's device.
        framework: "torch" (the default if it is installed), "cupy" (GPUs only) or "numpy" (host
            only). CuPy and NumPy have no BF16, F8 or F4.
        threads: The number of reading threads. The default is one thread for each core, but at
            most 32 threads.
        pin_memory: Page-lock the tensors in host memory (only with torch).
        verify: Compare the bytes with the checksums that `save` wrote.
        progress: A function with two arguments: the bytes that have been moved so far, and the
            bytes in all. The calling thread calls this function from time to time.
        ring: (slots, bytes of a slot): the number and the size of the slots of page-locked memory.
            The default suits the cores and the GPUs. The memory is kept for later calls.
        max_host_bytes: The largest number of bytes of page-locked memory that the call may use. It
            replaces `ring`. Threads wait if there is too little memory.
        max_device_bytes: The largest number of bytes of each GPU that the call may use in addition
            to the tensors: for their alignment, for the rounding of the framework's allocator, and
            for relayed copies. If fewer bytes than INTERLACE_COPY_STAGING are left for relayed
            copies, no copy is relayed.
        direct: Read bytes that are not in the page cache directly from the disk, and do not put
            them into the page cache (only for GPUs). A later load is then as slow as the first
            load. If direct reads are impossible, the call warns and uses the page cache.

    Returns:
        A dictionary from names to tensors. The tensors of a device are views of allocations of
        about 1 GiB. The allocations are made in the framework's current stream. An allocation is
        freed when its last tensor is freed.

    Raises:
        UserError: A file is damaged or missing; the message names the file and the tensor.
        DeviceError: A disk or a GPU failed.

    The first call makes contexts on the other GPUs, because copies can use the links of these GPUs.
    INTERLACE_COPY_RELAYS=none in the environment prevents these contexts.

    Example::

        import numpy

        interlace.save({"weight": numpy.ones((2, 3), numpy.float32)}, "model.safetensors")
        tensors = interlace.load("model.safetensors", framework="numpy")
        assert tensors["weight"].shape == (2, 3)
    """
    files = open_files(paths)
    try:
        devices = Devices(device, framework)
        if pin_memory and devices.framework != "torch":
            raise UserError("pin_memory=True needs torch")
        if ring is not None and max_host_bytes is not None:
            raise UserError("ring and max_host_bytes exclude each other; give one of them")
        most = most_host_of(max_host_bytes)
        how = How(
            threads_of(threads),
            verify,
            progress,
            ring_of(ring),
            most,
            direct,
            most_device_of(max_device_bytes),
        )
        return _read(files, devices, pin_memory, how)
    finally:
        close_files(files)


def _read(files: list[File], devices: Devices, pin_memory: bool, how: How) -> dict[str, Any]:
    stated = [_checksums(file) for file in files] if how.checksums else []
    wanted = [
        Wanted(number, entry, devices.of(file.name, entry.name))
        for number, file in enumerate(files)
        for entry in file.header.tensors
    ]
    reading.refuse_unknown(devices.framework, files, wanted)
    with naming_tensors(files):
        tensors, found = reading.read(files, wanted, devices.framework, how, pin_memory=pin_memory)
    names = [one.entry.name for one in wanted]
    if how.checksums:
        _compare(files, stated, dict(zip(names, found, strict=True)))
    return dict(zip(names, tensors, strict=True))


def _checksums(file: File) -> dict[str, str]:
    """Return the checksum of each tensor by the tensor's name, from the metadata of the file."""
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
    raise UserError(
        f"{file.name}: in its metadata, {CHECKSUMS} is not a checksum for each tensor; save the "
        "file again"
    )


def _compare(files: list[File], wanted: list[dict[str, str]], found: dict[str, int]) -> None:
    for file, stated in zip(files, wanted, strict=True):
        for entry in file.header.tensors:
            if stated[entry.name] != f"{found[entry.name]:08x}":
                raise UserError(
                    f"{file.name}: tensor {entry.name!r} is damaged; the CRC-32C of its bytes is "
                    f"{found[entry.name]:08x}, but {stated[entry.name]} was saved"
                )


def save(
    tensors: Mapping[str, Any],
    path: str | os.PathLike[str],
    *,
    metadata: Mapping[str, str] | None = None,
    checksums: bool = False,
    threads: int | None = None,
    progress: Progress | None = None,
    ring: tuple[int, int] | None = None,
) -> None:
    """Save tensors of PyTorch, CuPy or NumPy to a safetensors file.

    The call first waits for the current streams of the tensors' GPUs. The file appears under its
    name only when it is complete and on the disk. If the call fails, an older file at `path` stays
    as it was.

    Args:
        tensors: A mapping from names to contiguous tensors, which may be on several GPUs. If
            tensors share memory, the file holds a complete copy of each of them.
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
            f"the header of {path} would have {len(head)} bytes, and at most "
            f"{safetensors_header.MOST_BYTES} are allowed; save fewer tensors in one file"
        )
    gpus = {(source.framework, source.gpu) for source in sources.values() if source.gpu is not None}
    segments = []
    for number, entry in enumerate(entries):
        source = sources[entry.name]
        gpu = -1 if source.gpu is None else source.gpu
        where = len(head) + entry.begin
        segments.append((0, where, source.size, source.address, gpu, number))
    how = How(threads_of(threads), checksums, progress, ring_of(ring))
    for framework, gpu in gpus:
        tensor_memory.synchronize(framework, gpu)

    def fill(descriptor: int, name: str) -> None:
        used = {gpu for _, gpu in gpus}
        found = reading.move("write", [(descriptor, name)], segments, used, how)
        final = head
        if checksums:
            named = {entry.name: f"{sum_:08x}" for entry, sum_ in zip(entries, found, strict=True)}
            texts[CHECKSUMS] = json.dumps({name: named[name] for name in sources})
            final, _ = safetensors_header.lay_out(specs, texts)
            assert len(final) == len(head)
        _pwrite(descriptor, final)

    _write(Path(path), len(head) + (entries[-1].end if entries else 0), fill)


def _pwrite(descriptor: int, data: bytes) -> None:
    """Write all data to the beginning of a file, in several calls if necessary."""
    done = 0
    while done < len(data):
        written = os.pwrite(descriptor, data[done:], done)
        if not written:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        done += written


def _metadata(metadata: Mapping[str, str] | None) -> dict[str, str]:
    if not isinstance(metadata or {}, Mapping):
        raise UserError(
            f"metadata is a {type(metadata).__name__}; give a mapping from names to texts"
        )
    texts = dict(metadata or {})
    for key, text in texts.items():
        if not isinstance(key, str) or not isinstance(text, str):
            raise UserError(
                f"metadata {key!r}: the name or the value is not a text; give texts for both"
            )
        _check_text("metadata", key)
        _check_text(f"metadata {key!r}", text)
    if CHECKSUMS in texts:
        raise UserError(f"metadata {CHECKSUMS!r} is reserved for checksums=True; give another name")
    return texts


def _check_text(what: str, text: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise UserError(
            f"{what}, {text!r}, has half a surrogate pair; write valid Unicode"
        ) from None


def _write(path: Path, size: int, fill: Callable[[int, str], None]) -> None:
    """Make a file of `size` bytes at `path`. The function `fill` writes the bytes.

    After the call, the file is complete, or there is no new file.
    """
    if path.is_dir():
        raise UserError(f"{path} is a folder; give the name of a file")
    with suppress(
        OSError, ValueError
    ):  # if the free space is unknown, `fill` fails when the disk is full
        folder = Path(os.path.realpath(path)).parent
        room = os.statvfs(folder)
        if room.f_frsize * room.f_bavail < size:
            raise UserError(
                f"{path} cannot be written: it needs {size} bytes, and "
                f"{room.f_frsize * room.f_bavail} bytes are free in {folder}"
            )
    with whole_file(path) as descriptor:
        os.ftruncate(descriptor, size)
        fill(descriptor, str(path))
