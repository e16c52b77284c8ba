"""The operations that a block of a kernel makes, on NumPy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

int32, int64, float32 = np.int32, np.int64, np.float32
constexpr = object
program = 0  # the number of the block that runs now


class pointer_type:  # noqa: N801  (Triton's name)
    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype


class Value(np.ndarray):  # type: ignore[type-arg]
    """Numbers with the conversions of Triton."""

    def to(self, dtype: Any) -> Any:
        if isinstance(dtype, pointer_type):
            from torch import array_at

            array = array_at(int(self))
            assert array.dtype == dtype.dtype
            return Pointer(array, 0)
        return self.astype(dtype)


def _value(numbers: Any) -> Value:
    return np.asarray(numbers).view(Value)


class Pointer:
    def __init__(self, array: Any, offset: Any) -> None:
        self.array = array
        self.offset = offset

    def __add__(self, more: Any) -> Pointer:
        return Pointer(self.array, self.offset + more)


def program_id(axis: int) -> Value:
    assert axis == 0
    return _value(program)


def arange(begin: int, end: int) -> Value:
    assert (end - begin).bit_count() == 1, "a power of two"
    return _value(np.arange(begin, end))


def zeros(shape: tuple[int], dtype: Any) -> Value:
    return _value(np.zeros(shape, dtype))


def full(shape: tuple[int], value: Any, dtype: Any) -> Value:
    return _value(np.full(shape, value, dtype))


def minimum(a: Any, b: Any) -> Value:
    return _value(np.minimum(a, b))


def maximum(a: Any, b: Any) -> Value:
    return _value(np.maximum(a, b))


def static_range(count: int) -> range:
    return range(count)


def debug_barrier() -> None:
    """Do nothing, because the operations of a block run in order."""


def _lanes(pointer: Pointer, mask: Any) -> tuple[Any, Any]:
    """Return the offsets, and which of them are enabled. Enabled offsets must be inside of the
    array.
    """
    offsets = np.atleast_1d(np.asarray(pointer.offset))
    lanes = np.broadcast_to(True if mask is None else np.asarray(mask), offsets.shape)
    inside = (offsets >= 0) & (offsets < pointer.array.size)
    assert inside[lanes].all(), "an address outside of the array"
    return offsets, lanes


def load(pointer: Pointer, mask: Any = None, other: Any = 0) -> Value:
    offsets, lanes = _lanes(pointer, mask)
    found = np.full(offsets.shape, other, pointer.array.dtype)
    found[lanes] = pointer.array[offsets[lanes]]
    return _value(found if np.ndim(pointer.offset) else found[0])


def store(pointer: Pointer, value: Any, mask: Any = None) -> None:
    offsets, lanes = _lanes(pointer, mask)
    pointer.array[offsets[lanes]] = np.asarray(value)[lanes]


def atomic_add(pointer: Pointer, value: Any, mask: Any, sem: str, scope: str) -> Value:
    assert (sem, scope) == ("acq_rel", "gpu")
    offsets, lanes = _lanes(pointer, mask)
    before = load(pointer, mask)
    np.add.at(pointer.array, offsets[lanes], np.asarray(value)[lanes])
    return before


def atomic_xchg(pointer: Pointer, value: Any, mask: Any, sem: str, scope: str) -> Value:
    assert (sem, scope) == ("release", "sys")
    before = load(pointer, mask)
    store(pointer, value, mask)
    return before
