"""A program that parks memory in pools of stand-ins for PyTorch and CuPy.

Host memory stands for the memory of GPUs. The program runs with the stand-in libcuda.so.1 of
tests/cpp/preload. It prints one line of JSON with the values that test_parking.py checks.
"""

from __future__ import annotations

import ctypes
import importlib.machinery
import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import ModuleType, SimpleNamespace
from typing import Any

import interlace
from interlace.base.errors import DeviceError, UserError
from interlace.runtime import parking

driver: Any = ctypes.CDLL("libcuda.so.1")
MIB = 1 << 20
current = 0  # the current GPU
capturing = False


class Allocator:
    """A stand-in for PyTorch's pluggable allocator."""

    def __init__(self, library: str, allocate: str, free: str) -> None:
        loaded = ctypes.CDLL(library)
        self.allocate = getattr(loaded, allocate)
        self.allocate.argtypes = [ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]
        self.allocate.restype = ctypes.c_void_p
        self.free = getattr(loaded, free)
        self.free.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]

    def allocator(self) -> Allocator:
        return self


class Pool:
    """A stand-in for PyTorch's pool. Each tensor has its own segment, and freed segments stay in
    the pool.
    """

    def __init__(self, allocator: Allocator) -> None:
        self.allocator = allocator
        self.segments: dict[int, dict[str, int]] = {}

    def snapshot(self) -> list[dict[str, int]]:
        return list(self.segments.values())

    def make(self, size: int) -> Tensor:
        address = self.allocator.allocate(size, current, None)
        if not address:
            raise MemoryError("CUDA out of memory")
        self.segments[address] = {"address": address, "active_size": size, "size": size}
        return Tensor(self, address, size)

    def empty_cache(self) -> None:
        for address, segment in list(self.segments.items()):
            if segment["active_size"] == 0:
                self.allocator.free(address, segment["size"], current, None)
                del self.segments[address]


class Tensor:
    def __init__(self, pool: Pool, address: int, size: int) -> None:
        self.pool, self.address, self.size = pool, address, size

    def data_ptr(self) -> int:
        return self.address

    def fill(self, value: int) -> Tensor:
        ctypes.memset(self.address, value, self.size)
        return self

    def is_all(self, value: int) -> bool:
        return ctypes.string_at(self.address, self.size) == bytes([value]) * self.size

    def drop(self) -> None:
        self.pool.segments[self.address]["active_size"] = 0


stack: list[Pool] = []


@contextmanager
def use_mem_pool(pool: Pool, device: int) -> Iterator[None]:
    global current
    before, current = current, device
    stack.append(pool)
    try:
        yield
    finally:
        stack.pop()
        current = before


@contextmanager
def device(gpu: int) -> Iterator[None]:
    global current
    before, current = current, gpu
    try:
        yield
    finally:
        current = before


def make_torch() -> Any:
    torch: Any = ModuleType("torch")
    torch.__spec__ = importlib.machinery.ModuleSpec("torch", None)
    torch.cuda = SimpleNamespace(
        memory=SimpleNamespace(CUDAPluggableAllocator=Allocator),
        MemPool=Pool,
        use_mem_pool=use_mem_pool,
        device=device,
        current_device=lambda: current,
        is_current_stream_capturing=lambda: capturing,
    )
    return torch


def tensor(size: int, value: int) -> Tensor:
    return stack[-1].make(size).fill(value)


def refusal(call: Any, *arguments: Any, **named: Any) -> str:
    try:
        call(*arguments, **named)
    except (UserError, DeviceError, MemoryError) as error:
        return f"{type(error).__name__}: {error}"
    return "no error"


def in_torch() -> dict[str, Any]:
    global capturing
    found: dict[str, Any] = {}
    with interlace.parkable("weights"):
        one = tensor(3 * MIB, 1)
        with interlace.parkable("cache"):
            two = tensor(MIB, 2)
        three = tensor(100_000, 3)
    with interlace.parkable("weights", "cuda:1"):
        four = tensor(MIB, 4)
    found["pools"] = {name: state[:3] for name, state in interlace.parked_memory().items()}
    before = [one.address, two.address, three.address, four.address]

    found["empty prepared"] = refusal(interlace.prepare_park, "else")
    interlace.prepare_park("weights", wait=True)
    found["prepared"] = parking.idle_host_bytes()
    interlace.prepare_park([one, two])  # a thread locks memory for the second pool, too
    while parking.idle_host_bytes() == found["prepared"]:
        time.sleep(0.001)
    found["both prepared"] = parking.idle_host_bytes()
    report = interlace.park("weights")
    found["locked after preparing"] = report.locked_bytes
    found["prepare parked"] = refusal(interlace.prepare_park, "weights")
    found["parked"] = [report.bytes, report.gpu_bytes, interlace.parked_memory()["weights"].place]
    found["the other pool"] = two.is_all(2)
    found["double park"] = refusal(interlace.park, "weights")
    found["pool of a parked tensor"] = refusal(interlace.park, [two, three])
    found["undone"] = [two.is_all(2), interlace.parked_memory()["cache"].parked]
    with suppress(UserError), interlace.parkable("weights"):
        found["entered"] = True
    found["enter parked"] = refusal(interlace.parkable("weights").__enter__)
    back = interlace.resume("weights")
    found["resumed"] = [back.bytes, one.is_all(1), three.is_all(3), four.is_all(4)]
    found["same addresses"] = before == [one.address, two.address, three.address, four.address]
    found["double resume"] = refusal(interlace.resume, "weights")
    found["idle"] = parking.idle_host_bytes() > 0

    found["again"] = interlace.park([one, two, three]).locked_bytes
    found["both parked"] = [state.parked for state in interlace.parked_memory().values()]
    interlace.resume(two)
    interlace.resume(one)
    found["both resumed"] = [one.is_all(1), two.is_all(2), three.is_all(3), four.is_all(4)]
    interlace.park("cache", to="gpu:2")
    found["on a GPU"] = interlace.parked_memory()["cache"].place
    interlace.resume("cache")
    found["from a GPU"] = two.is_all(2)

    three.drop()
    found["without the free segment"] = interlace.park("weights", keep_pool=False).bytes
    three.pool.empty_cache()  # this frees parked memory
    interlace.resume("weights")
    found["without tensors"] = [one.is_all(1), parking.idle_host_bytes(), four.is_all(4)]
    found["dropped"] = [
        interlace.park("cache", to="drop").bytes,
        interlace.resume("cache").gpu_bytes,
    ]
    two.drop()
    two.pool.empty_cache()
    found["freed"] = interlace.parked_memory()["cache"][:2]

    ranges = [(one.address, one.size, 0), (four.address, four.size, 1)]
    kept = parking.Contents(ranges)
    interlace.park("weights", to="drop")
    interlace.resume("weights")
    lost = [one.is_all(1), four.is_all(4)]
    kept.restore([four.address])
    found["contents"] = [kept.report.bytes, lost, one.is_all(1), four.is_all(4)]
    kept.restore([one.address])
    found["no contents"] = refusal(kept.restore, [4096])
    kept.close()
    found["closed contents"] = refusal(kept.restore, [one.address])

    capturing = True
    found["capture"] = refusal(interlace.park, "weights")
    capturing = False
    found["no pool"] = refusal(interlace.park, "else")
    found["no name"] = refusal(interlace.park, "")
    found["control characters"] = refusal(interlace.park, "\x1b[2J")
    found["no place"] = refusal(interlace.park, "weights", to="disk")
    found["own GPU"] = refusal(interlace.park, "weights", to="gpu:1")
    found["no tensors"] = refusal(interlace.park, [])
    found["no tensor"] = refusal(interlace.park, 7)
    found["no memory"] = refusal(interlace.park, Tensor(two.pool, 4096, 1))
    found["no GPU"] = refusal(interlace.parkable("weights", "cpu").__enter__)
    found["too much"] = refusal(big)
    found["at last"] = [one.is_all(1), four.is_all(4)]
    return found


def big() -> None:
    with interlace.parkable("weights"):
        tensor(1 << 40, 0)


def in_cupy() -> dict[str, Any]:
    """Test CuPy's pool with an allocator that consists of Python functions."""
    functions: list[Any] = []

    class OutOfMemoryError(MemoryError):
        pass

    class PythonFunctionAllocator:
        def __init__(self, allocate: Any, free: Any) -> None:
            functions[:] = [allocate, free]
            self.malloc = None

    @contextmanager
    def using_allocator(_: Any) -> Iterator[None]:
        yield

    cupy: Any = ModuleType("cupy")
    cupy.__spec__ = importlib.machinery.ModuleSpec("cupy", None)
    cupy.cuda = SimpleNamespace(
        PythonFunctionAllocator=PythonFunctionAllocator,
        MemoryPool=lambda malloc: SimpleNamespace(malloc=malloc),
        using_allocator=using_allocator,
        memory=SimpleNamespace(OutOfMemoryError=OutOfMemoryError),
        Device=lambda: SimpleNamespace(id=1),
    )
    sys.modules["cupy"] = cupy
    with interlace.parkable("arrays", framework="cupy"):
        address = functions[0](5000, 1)
    ctypes.memset(address, 9, 5000)
    array = SimpleNamespace(__cuda_array_interface__={"data": (address, False)})
    interlace.park(array)
    interlace.resume("arrays")
    intact = ctypes.string_at(address, 5000) == bytes([9]) * 5000
    try:
        functions[0](1 << 40, 1)
        refused = False
    except OutOfMemoryError:
        refused = True
    functions[1](address, 1)
    return {
        "intact": intact,
        "refused": refused,
        "freed": interlace.parked_memory()["arrays"].allocations,
    }


if __name__ == "__main__":
    sys.modules["torch"] = make_torch()
    print(json.dumps({"torch": in_torch(), "cupy": in_cupy()}))
