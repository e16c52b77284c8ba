"""A program that copies, saves and loads, and compares every byte.

Host memory stands for the memory of GPUs.

The program runs with the stand-in libcuda.so.1 and libnvidia-ml.so.1 of tests/cpp/preload, and has
a stand-in for CuPy that uses this driver. It prints one line of JSON. If a call is refused, this
line has the message.
"""

from __future__ import annotations

import ctypes
import importlib.machinery
import json
import math
import os
import sys
import weakref
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, Self

import numpy as np

import interlace
from interlace.base.errors import UserError
from interlace.runtime import copying

driver: Any = ctypes.CDLL("libcuda.so.1")
GPUS = int(os.environ.get("FAKE_GPUS", "4"))
OUT_OF_MEMORY = 2


def check(result: int) -> None:
    if result != 0:
        raise RuntimeError(f"the driver gives {result}")


class Device:
    """A stand-in for CuPy's device. Inside a `with` block, this device is the current GPU."""

    current = 0

    def __init__(self, gpu: int | None = None) -> None:
        self.id = Device.current if gpu is None else gpu

    def __enter__(self) -> Self:
        self.before, Device.current = Device.current, self.id
        context = ctypes.c_void_p()
        check(driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), self.id))
        check(driver.cuCtxSetCurrent(context))
        return self

    def __exit__(self, *_: object) -> None:
        Device.current = self.before


# Maps the first address of each array to the end of the array and the array's GPU.
ranges: dict[int, tuple[int, int]] = {}


class Array(np.ndarray[Any, Any]):
    """A stand-in for CuPy's array."""

    @property
    def data(self) -> Any:
        return SimpleNamespace(ptr=self.__array_interface__["data"][0])

    @property
    def device(self) -> Any:
        at = self.data.ptr
        found = (gpu for begin, (end, gpu) in ranges.items() if begin <= at < end)
        return SimpleNamespace(id=next(found))

    def exported(self) -> Any:
        """Return a view of the array that copies do not recognise as an array of CuPy."""
        return SimpleNamespace(__cuda_array_interface__=dict(self.__array_interface__))


def free(address: int) -> None:
    del ranges[address]
    check(driver.cuMemFree_v2(ctypes.c_ulonglong(address)))


class OutOfMemoryError(MemoryError):
    """A stand-in for CuPy's error of this name."""


def empty(shape: int | tuple[int, ...], dtype: str = "float64") -> Array:
    size = shape if isinstance(shape, int) else math.prod(shape)
    if size == 0:
        return np.empty(shape, dtype).view(Array)
    address, width = ctypes.c_ulonglong(), np.dtype(dtype).itemsize
    with Device():
        wanted = ctypes.c_size_t(size * width)
        if (result := driver.cuMemAlloc_v2(ctypes.byref(address), wanted)) == OUT_OF_MEMORY:
            raise OutOfMemoryError(f"Out of memory allocating {wanted.value:,} bytes")
        check(result)
    memory = (ctypes.c_ubyte * (size * width)).from_address(address.value)
    ranges[address.value] = address.value + size * width, Device.current
    weakref.finalize(memory, free, address.value)
    return np.frombuffer(memory, dtype).view(Array).reshape(shape)


def on_gpu(values: Any, gpu: int) -> Array:
    with Device(gpu):
        made = empty(values.size, str(values.dtype)).reshape(values.shape)
    made[...] = values
    return made


def synchronize() -> None:
    for gpu in range(GPUS):
        with Device(gpu):
            check(driver.cuCtxSynchronize())


def stand_in() -> None:
    made: Any = ModuleType("cupy")
    made.__spec__ = importlib.machinery.ModuleSpec("cupy", None)
    made.ndarray, made.empty = Array, empty
    stream = SimpleNamespace(ptr=0, synchronize=synchronize)
    made.cuda = SimpleNamespace(
        Device=Device,
        get_current_stream=lambda: stream,
        runtime=SimpleNamespace(getDeviceCount=lambda: GPUS),
    )
    sys.modules["cupy"] = made


def work(file: Path) -> dict[str, Any]:
    random = np.random.default_rng(3)
    host = {
        f"layer.{k}": random.integers(0, 256, (3 + k, 70_001), np.uint8) for k in range(2 * GPUS)
    }
    tensors = {name: on_gpu(values, k % GPUS) for k, (name, values) in enumerate(host.items())}
    interlace.save(tensors, file, checksums=True, ring=(3, 1 << 17))
    places = {f"layer.{k}": f"cuda:{(k + 1) % GPUS}" for k in range(2 * GPUS)}
    read = interlace.load(file, places, framework="cupy", verify=True, ring=(3, 1 << 17))
    for name, values in host.items():
        if read[name].device.id != int(places[name][-1]) or np.any(read[name] != values):
            raise RuntimeError(f"{name} is wrong")
    small = interlace.load(file, places, framework="cupy", max_host_bytes=1 << 18)
    if any(np.any(small[name] != values) for name, values in host.items()):
        raise RuntimeError("a load with a small ring gave wrong bytes")
    tight = interlace.load(file, places, framework="cupy", max_device_bytes=1 << 22)  # no relays
    if any(np.any(tight[name] != values) for name, values in host.items()):
        raise RuntimeError("a load without relays gave wrong bytes")
    streamed = stream_in_little_memory(file.with_name("many.safetensors"))
    last = host[f"layer.{2 * GPUS - 1}"]
    source, target = on_gpu(last, 0), on_gpu(np.zeros_like(last), GPUS - 1)
    interlace.copy(target.exported(), source.exported())
    synchronize()
    if np.any(target != last):
        raise RuntimeError("the copy is wrong")
    library, counted = copying._library(), copying._Statistics()
    size = ctypes.sizeof(counted)
    copying.check(library, library.interlace_copier_statistics(None, ctypes.byref(counted), size))
    return {
        # The process has only one engine. This engine copies the array and, if paths are given,
        # saves and loads it.
        "bytes": counted.bytes,
        "wanted": (GPUS > 1) * (3 * sum(values.nbytes for values in host.values()) + streamed)
        + last.nbytes,
        "runtime": "interlace._cuda" in sys.modules,
    }


def stream_in_little_memory(file: Path) -> int:
    """Stream more bytes than fit on the GPUs. Reading must wait until tensors are dropped."""
    size, ahead = 10_000, 100_000
    many = {f"{k:02}": np.full(size, k, np.uint8) for k in range(64)}
    interlace.save(many, file)
    driver.fake_bytes.restype = ctypes.c_uint64
    driver.fake_limit_memory(ctypes.c_uint64(driver.fake_bytes(1) + ahead + size))
    seen = 0
    for name, tensor in interlace.stream(file, "cuda:0", framework="cupy", ahead=ahead):
        seen += int(np.all(tensor == many[name]))
    driver.fake_limit_memory(ctypes.c_uint64(0))
    if seen != len(many):
        raise RuntimeError(f"{seen} streamed tensors are right")
    return size * seen


def main() -> None:
    stand_in()
    try:
        found = work(Path(sys.argv[1]))
    except UserError as error:
        found = {"refused": str(error)}
    print(json.dumps(found))


if __name__ == "__main__":
    check(driver.cuInit(0))
    main()
