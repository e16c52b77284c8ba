"""A stand-in for the parts of PyTorch that `interlace bench blocks` uses. It needs a fake driver.

Tensors are arrays of NumPy. The stand-in driver gives page-locked memory and a GPU's memory.
"""

from __future__ import annotations

import ctypes
import time
from types import SimpleNamespace
from typing import Any

import numpy as np

__version__ = "0"
uint8, int64, bfloat16 = np.dtype("uint8"), np.dtype("int64"), np.dtype("float16")
strided = "torch.strided"
driver: Any = ctypes.CDLL("libcuda.so.1")


def _check(result: int) -> None:
    if result != 0:
        raise RuntimeError(f"the driver gives {result}")


_context = ctypes.c_void_p()
_check(driver.cuInit(0))
_check(driver.cuDevicePrimaryCtxRetain(ctypes.byref(_context), 0))
_check(driver.cuCtxSetCurrent(_context))


class Tensor:
    layout = strided

    def __init__(self, values: Any, device: str) -> None:
        self.values, self.place = values, device
        self.device = SimpleNamespace(type=device, index=0)

    @property
    def dtype(self) -> Any:
        return self.values.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.values.shape)

    def data_ptr(self) -> int:
        return int(self.values.ctypes.data)

    def numel(self) -> int:
        return int(self.values.size)

    def element_size(self) -> int:
        return int(self.values.itemsize)

    def is_contiguous(self) -> bool:
        return bool(self.values.flags.c_contiguous)

    def is_conj(self) -> bool:
        return False

    is_neg = is_conj

    def numpy(self) -> Any:
        return self.values

    def view(self, *shape: Any) -> Tensor:
        if isinstance(shape[0], np.dtype):
            return Tensor(self.values.view(shape[0]), self.place)
        return Tensor(self.values.reshape(shape), self.place)

    def flip(self, axis: int) -> Tensor:
        made = empty(self.values.size, dtype=self.dtype, device="cuda")
        made.values[...] = np.flip(self.values, axis)
        return made

    def copy_(self, source: Tensor, *, non_blocking: bool = False) -> Tensor:
        del non_blocking  # a copy of this stand-in always returns after the copy has ended
        cuda.synchronize()
        self.values[...] = source.values
        return self

    def index_fill_(self, _axis: int, index: Tensor, value: int) -> None:
        self.values[index.values] = value

    def index_copy_(self, _axis: int, index: Tensor, source: Tensor) -> None:
        self.values[index.values] = source.values

    def to(self, device: Any) -> Tensor:
        return Tensor(np.array(self.values), str(device))

    def __getitem__(self, part: Any) -> Tensor:
        return Tensor(self.values[part], self.place)

    def __ne__(self, other: object) -> Any:
        assert isinstance(other, Tensor)
        return Tensor(self.values != other.values, self.place)

    __hash__ = None  # type: ignore[assignment]

    def any(self, *, dim: int) -> Any:
        return self.values.any(axis=dim)


def empty(size: int, *, dtype: Any, pin_memory: bool = False, device: Any = "cpu") -> Tensor:
    del device  # there is only one GPU
    address = ctypes.c_void_p()
    if pin_memory:
        _check(driver.cuMemHostAlloc(ctypes.byref(address), ctypes.c_size_t(size), 1))
    else:
        _check(driver.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size)))
    assert address.value is not None
    memory = (ctypes.c_ubyte * size).from_address(address.value)
    return Tensor(np.frombuffer(memory, dtype), "cpu" if pin_memory else "cuda")


def empty_like(tensor: Tensor) -> Tensor:
    return Tensor(np.empty_like(tensor.values), tensor.place)


def randn(*shape: int, device: Any, dtype: Any) -> Tensor:
    return Tensor(np.ones(shape, dtype), device)


def matmul(_left: Tensor, _right: Tensor, *, out: Tensor) -> Tensor:
    return out


def bitwise_not(source: Tensor, *, out: Tensor) -> Tensor:
    out.values[...] = ~source.values
    return out


def from_numpy(values: Any) -> Tensor:
    return Tensor(values, "cpu")


def index_select(source: Tensor, _axis: int, index: Tensor, *, out: Tensor | None = None) -> Tensor:
    cuda.synchronize()
    found = source.values[index.values]
    if out is None:
        return Tensor(found, source.place)
    out.values[...] = found
    return out


def device(name: str) -> str:
    return name.partition(":")[0]


class Stream:
    def __init__(self, _device: Any) -> None:
        self.made = ctypes.c_void_p()
        _check(driver.cuStreamCreate(ctypes.byref(self.made), 1))
        self.device = SimpleNamespace(index=0)

    @property
    def cuda_stream(self) -> int:
        return int(self.made.value or 0)

    def synchronize(self) -> None:
        _check(driver.cuStreamSynchronize(self.made))

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


class Event:
    def __init__(self, *, enable_timing: bool) -> None:
        self.timed, self.at = enable_timing, 0.0

    def record(self, _stream: Any = None) -> None:
        self.at = time.perf_counter()

    def synchronize(self) -> None:
        cuda.synchronize()

    def query(self) -> bool:
        return True

    def elapsed_time(self, other: Event) -> float:
        return max(1e3 * (other.at - self.at), 1e-3)


cuda = SimpleNamespace(
    Event=Event,
    Stream=Stream,
    device_count=lambda: 1,
    get_device_properties=lambda _: SimpleNamespace(name="Fake H200", multi_processor_count=132),
    is_available=lambda: True,
    is_initialized=lambda: True,
    stream=lambda stream: stream,
    synchronize=lambda _=None: _check(driver.cuCtxSynchronize()),
)
