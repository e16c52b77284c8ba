"""Measures block profiles: how long each way to move batches of blocks takes on this machine.

A process reads the profile before its first batch of blocks (src/cuda/transfer/block_profile_file).
The profile is used by `interlace.copy_blocks`, by `interlace run`, and by programs in C and C++.
"""

from __future__ import annotations

import ctypes
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np

from interlace.base.errors import DeviceError, UserError
from interlace.base.progress import progress
from interlace.base.turns import turn
from interlace.model.mechanisms import MIB
from interlace.model.results import Head, provenance
from interlace.runtime.blocks import copy_blocks
from interlace.tuning import profiles

FORMAT = 1  # the format version of block profiles
DIRECTIONS = ("host-to-gpu", "gpu-to-host")
WAYS = ("kernel", "driver-batch", "copies")
SIZES = (512, 2048, *(4096 << 2 * step for step in range(6)))  # 512 bytes to 4 MiB
MOST_BYTES = 128 * MIB  # the largest size of a batch
MOST_BLOCKS = 1024
SPREAD = 2  # the memory has room for this many times the blocks, so that the blocks are scattered
REPEATS = 15  # with fewer repeats, chance decides between a kernel and a driver batch


class Time(msgspec.Struct, frozen=True):
    """The time of a batch in ns: start_ns + (number of blocks) * block_ps / 1000."""

    start_ns: int
    block_ps: int


class Class(msgspec.Struct, frozen=True):
    """The time of each way to move blocks of one size."""

    bytes: int
    # Maps the name of a way to its time. A way that the driver does not have is missing.
    ways: dict[str, Time]


class On(msgspec.Struct, frozen=True):
    """The machine that was measured."""

    model: str


class BlockProfile(Head, frozen=True, tag_field="kind", tag="interlace block profile"):
    """The content of a block profile's file."""

    machine: On
    repeats: int
    directions: dict[str, list[Class]]  # maps a direction to its classes, sorted by bytes


def default_path(model: str) -> Path:
    """Return the file in which programs look for the block profile of GPUs of this model."""
    return profiles.folder() / f"blocks-{profiles.file_word(model)}.json"


def batch_sizes(size: int) -> tuple[int, int]:
    """Return the numbers of blocks of a small and of a large batch.

    The times of the two batches give the fixed cost of a batch and the cost of each block.
    """
    large = min(max(MOST_BYTES // size, 2), MOST_BLOCKS)
    return min(16, large // 2), large


def fitted(small: tuple[int, float], large: tuple[int, float]) -> Time:
    """Return the fitted times. `small` and `large` have the blocks and the seconds of a batch."""
    block = max(large[1] - small[1], 0.0) / (large[0] - small[0])
    start = max(small[1] - small[0] * block, 0.0)
    return Time(round(1e9 * start), round(1e12 * block))


class _Gpu:
    """GPU 0, with a stream, page-locked memory on the host and memory on the GPU.

    The driver alone provides all of these, without CUDA's runtime.
    """

    def __init__(self) -> None:
        try:
            self._driver: Any = ctypes.CDLL("libcuda.so.1")
        except OSError:
            raise UserError(
                "tune blocks measures a GPU, and this machine has no NVIDIA driver"
            ) from None
        self._call("cuInit", 0)
        count, context = ctypes.c_int(), ctypes.c_void_p()
        self._call("cuDeviceGetCount", ctypes.byref(count))
        if count.value == 0:
            raise UserError("tune blocks measures a GPU, and the driver finds none")
        name = ctypes.create_string_buffer(128)
        self._call("cuDeviceGetName", name, 127, 0)
        self.model = name.value.decode()
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self._call("cuCtxSetCurrent", context)

    def _call(self, name: str, *arguments: Any) -> None:
        if result := getattr(self._driver, name)(*arguments):
            raise DeviceError(f"{name} failed: error {result}")

    @contextmanager
    def memory(self, size: int) -> Iterator[tuple[int, int]]:
        """Yield the addresses of page-locked memory and of GPU memory."""
        host, gpu = ctypes.c_void_p(), ctypes.c_uint64()
        self._call("cuMemHostAlloc", ctypes.byref(host), ctypes.c_size_t(size), 1)
        self._call("cuMemAlloc_v2", ctypes.byref(gpu), ctypes.c_size_t(size))
        try:
            yield host.value or 0, gpu.value
        finally:
            self._call("cuMemFree_v2", gpu)
            self._call("cuMemFreeHost", host)

    @contextmanager
    def stream(self) -> Iterator[Any]:
        """Yield a stream that looks like a stream of PyTorch.

        The stream names its device, because copy_blocks needs the device.
        """
        made = ctypes.c_void_p()
        self._call("cuStreamCreate", ctypes.byref(made), 1)
        try:
            yield SimpleNamespace(device=SimpleNamespace(index=0), cuda_stream=made.value)
        finally:
            self._call("cuStreamDestroy_v2", made)

    def wait(self, stream: Any) -> None:
        self._call("cuStreamSynchronize", ctypes.c_void_p(stream.cuda_stream))


def _scattered(chance: np.random.Generator, end: int, size: int, count: int) -> Any:
    """Return addresses of `count` blocks at random places in memory. The memory begins at `end`."""
    return end + size * chance.permutation(SPREAD * MOST_BYTES // size)[:count]


def _times(
    gpu: _Gpu, lists: tuple[Any, Any], size: int, stream: Any, repeats: int
) -> dict[str, float]:
    """Return the median seconds of each way, from the call until all bytes have arrived."""
    found: dict[str, list[float]] = {}
    for way in WAYS:
        try:
            if copy_blocks(*lists, sizes=size, stream=stream, only=way) == way:
                found[way] = []
        except UserError:  # the driver is too old for this way
            continue
        finally:
            gpu.wait(stream)
    for _ in range(repeats):
        for way, seconds in found.items():
            begin = time.perf_counter()
            copy_blocks(*lists, sizes=size, stream=stream, only=way)
            gpu.wait(stream)
            seconds.append(time.perf_counter() - begin)
    return {way: statistics.median(seconds) for way, seconds in found.items()}


def tune_blocks(repeats: int = REPEATS) -> BlockProfile:
    """Measure all ways, sizes and directions on GPU 0."""
    gpu, chance = _Gpu(), np.random.default_rng(1)
    directions: dict[str, list[Class]] = {name: [] for name in DIRECTIONS}
    with (
        turn(),
        gpu.memory(SPREAD * MOST_BYTES) as ends,
        gpu.stream() as stream,
        progress("sizes of blocks", len(SIZES)) as tick,
    ):
        for size in SIZES:
            for name, (to, source) in zip(DIRECTIONS, (ends[::-1], ends), strict=True):
                measured = []
                for count in batch_sizes(size):
                    lists = (
                        _scattered(chance, to, size, count),
                        _scattered(chance, source, size, count),
                    )
                    measured.append((count, _times(gpu, lists, size, stream, repeats)))
                (few, small), (many, large) = measured
                ways = {
                    way: fitted((few, small[way]), (many, large[way]))
                    for way in WAYS
                    if way in small and way in large
                }
                directions[name].append(Class(size, ways))
            tick()
    return BlockProfile(
        format=FORMAT,
        **provenance(),
        machine=On(gpu.model),
        repeats=repeats,
        directions=directions,
    )
