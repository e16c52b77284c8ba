"""The part of PyTorch that a tutorial and the README use, on the driver of tests/cpp/preload.

The programs of the tutorial and of the README import this module in place of PyTorch. It calls the
driver in the same way as the CUDA runtime, so the preload library sees its copies.
"""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

_driver = ctypes.CDLL("libcuda.so.1")
uint8 = "torch.uint8"


def _function(name: str, version: int, *types: Any) -> Any:
    found = ctypes.c_void_p()
    status = ctypes.c_int()
    look_up = _driver.cuGetProcAddress_v2
    look_up.argtypes = [
        ctypes.c_char_p,
        ctypes.POINTER(ctypes.c_void_p),
        ctypes.c_int,
        ctypes.c_uint64,
        ctypes.POINTER(ctypes.c_int),
    ]
    _check(look_up(name.encode(), found, version, 0, status))
    return ctypes.CFUNCTYPE(ctypes.c_int, *types)(found.value)


def _check(result: int) -> None:
    if result != 0:
        raise RuntimeError(f"the driver answers {result}")


_POINTER, _SIZE, _ADDRESS = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint64
_check(_driver.cuInit(0))
_context = ctypes.c_void_p()
_retain = _function("cuDevicePrimaryCtxRetain", 7000, ctypes.POINTER(ctypes.c_void_p), ctypes.c_int)
_check(_retain(_context, 0))
_check(_function("cuCtxSetCurrent", 4000, _POINTER)(_context))
_to_gpu = _function("cuMemcpyHtoDAsync", 3020, _ADDRESS, _POINTER, _SIZE, _POINTER)
_to_host = _function("cuMemcpyDtoHAsync", 3020, _POINTER, _ADDRESS, _SIZE, _POINTER)
_wait = _function("cuStreamSynchronize", 2000, _POINTER)


class Tensor:
    layout = "torch.strided"
    dtype = uint8

    def __init__(self, address: int, size: int, device: str) -> None:
        self._address = address
        self._size = size
        self._device = device
        self.device = SimpleNamespace(type=device.partition(":")[0], index=0)

    def data_ptr(self) -> int:
        return self._address

    def numel(self) -> int:
        return self._size

    def element_size(self) -> int:
        return 1

    def is_contiguous(self) -> bool:
        return True

    def is_conj(self) -> bool:
        return False

    def is_neg(self) -> bool:
        return False

    def copy_(self, source: Tensor, *, non_blocking: bool = False) -> Tensor:
        assert (self._device, source._device, non_blocking) == ("cuda:0", "cpu", True)
        _check(_to_gpu(self._address, source._address, self._size, None))
        return self

    def __getitem__(self, index: int) -> Tensor:
        return Tensor(self._address + range(self._size)[index], 1, self._device)

    def item(self) -> int:
        assert (self._device, self._size) == ("cuda:0", 1)
        value = ctypes.c_uint8()
        _check(_to_host(ctypes.addressof(value), self._address, 1, None))
        _check(_wait(None))
        return value.value


def empty(size: int, *, dtype: str, pin_memory: bool) -> Tensor:
    assert (dtype, pin_memory) == (uint8, True)
    found = ctypes.c_void_p()
    allocate = _function(
        "cuMemHostAlloc", 2020, ctypes.POINTER(ctypes.c_void_p), _SIZE, ctypes.c_uint
    )
    _check(allocate(found, size, 0))
    assert found.value is not None
    return Tensor(found.value, size, "cpu")


def full(shape: tuple[int], value: int, *, dtype: str, pin_memory: bool) -> Tensor:
    made = empty(shape[0], dtype=dtype, pin_memory=pin_memory)
    ctypes.memset(made.data_ptr(), value, shape[0])
    return made


def empty_like(tensor: Tensor, *, device: str) -> Tensor:
    found = ctypes.c_uint64()
    allocate = _function("cuMemAlloc", 3020, ctypes.POINTER(ctypes.c_uint64), _SIZE)
    _check(allocate(found, tensor._size))
    return Tensor(found.value, tensor._size, device)


cuda = SimpleNamespace(
    current_stream=lambda _: SimpleNamespace(cuda_stream=0),
    synchronize=_function("cuCtxSynchronize", 2000),
)
