"""The parts of PyTorch and interlace._cuda that docs/example/overlap_torch.py uses, on NumPy.

When this module is imported, it replaces the extension by a stand-in. The stand-in has two GPUs in
host memory. Its regions move exactly the elements that a mechanism moves. If an exchange does not
bring an element to a device, the element is NaN on that device. A program that forgets a store, a
publication or a flag therefore gives wrong results. Kernels run when they are launched, so the
stand-in cannot check the order on a stream.
"""

from __future__ import annotations

import contextlib
import itertools
import sys
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from interlace.model.mechanism_table import BULK_COPY, COPY_ENGINE, INLINE, POLLING

GPUS = 2
int64, int32, float32, float64 = np.int64, np.int32, np.float32, np.float64
_arrays: dict[int, Any] = {}  # maps an address to the array there


def _allocate(count: int, dtype: Any) -> Any:
    made = np.zeros(max(count, 1), dtype)
    _arrays[made.ctypes.data] = made
    return made


def array_at(address: int) -> Any:
    return _arrays[address]


# --- interlace._cuda ------------------------------------------------------------------------------


class Group:
    def __init__(self, ordinals: list[int]) -> None:
        self._ordinals = ordinals
        self.devices = len(ordinals)
        self.local_devices = list(range(self.devices))

    @classmethod
    def local(cls, ordinals: list[int] | None, deadline: float) -> Group:
        assert deadline > 0
        return cls(list(range(GPUS)) if ordinals is None else ordinals)

    def ordinal(self, device: int) -> int:
        assert 0 <= self._ordinals[device] < GPUS
        return self._ordinals[device]

    def synchronize(self, device: int, stream: int) -> None:
        assert stream != 0
        assert device in self.local_devices


class Region:
    def __init__(self, group: Group, *asked: Any) -> None:
        (_, elements, size, bounds, subscribers, how, chunk_bytes, _, _, checks, memory) = asked
        assert (size, bounds, subscribers, checks, memory) == (4, [], [], False, [])
        assert how in (BULK_COPY, INLINE, POLLING, COPY_ENGINE)
        self._how = how
        self._devices = group.local_devices
        count = len(self._devices)
        edges = [elements * d // count for d in range(count + 1)]
        self._parts = list(itertools.pairwise(edges))
        self._buffers = [[_allocate(elements, float32) for _ in range(2)] for _ in self._devices]
        for pair in self._buffers:
            for buffer in pair:
                buffer[:] = np.nan
        self._epoch = 0
        self._begun: set[int] = set()
        self._ended: set[int] = set()
        step = chunk_bytes // size
        self._tables = []
        for begin, end in self._parts:
            starts = range(begin, end, step) if self._tracked else ()
            chunks = [(at, min(at + step, end)) for at in starts]
            table = {"chunks": _allocate(3 * len(chunks), int64)}
            table["chunks"][: 3 * len(chunks)] = [n for a, b in chunks for n in (a, b, -1)]
            table["counters"] = _allocate(len(chunks), int64)
            table["flags"] = _allocate(len(chunks), int32)
            table["launches"] = _allocate(1, int64)
            self._tables.append((chunks, table))

    @property
    def _tracked(self) -> bool:
        return self._how in (POLLING, COPY_ENGINE)

    def _parity(self, device: int) -> int:
        return (self._epoch + (device in self._ended)) % 2

    def part(self, device: int) -> tuple[int, int]:
        return self._parts[device]

    def front(self, device: int) -> int:
        return int(self._buffers[device][self._parity(device)].ctypes.data)

    def back(self, device: int) -> int:
        return int(self._buffers[device][1 - self._parity(device)].ctypes.data)

    def backs(self, device: int) -> list[int]:
        parity = self._parity(device)
        return [int(pair[1 - parity].ctypes.data) for pair in self._buffers]

    def chunks(self, device: int) -> list[tuple[int, int]]:
        return list(self._tables[device][0])

    def table(self, device: int) -> dict[str, int]:
        return {name: int(array.ctypes.data) for name, array in self._tables[device][1].items()}

    def begin(self, device: int, stream: int) -> None:
        assert stream != 0
        assert device not in self._begun, "exchange first"
        assert device not in self._ended, "the others come first"
        self._begun.add(device)

    def exchange(self, device: int, stream: int) -> None:
        assert stream != 0
        self._begun.remove(device)
        self._ended.add(device)
        if len(self._ended) < len(self._devices):
            return
        new = 1 - self._epoch % 2
        for owner in self._devices:
            self._deliver(owner, new)
        for pair in self._buffers:
            pair[1 - new][:] = np.nan
        self._epoch += 1
        self._ended.clear()

    def _deliver(self, owner: int, new: int) -> None:
        begin, end = self._parts[owner]
        chunks, table = self._tables[owner]
        pieces = [(begin, end)] if self._how == BULK_COPY else []
        if self._tracked:
            published = table["counters"][: len(chunks)]
            wanted = [(self._epoch + 1) * (b - a) for a, b in chunks]
            assert published.tolist() == wanted, "a kernel announced wrongly"
            pieces = chunks
            assert table["flags"].any() == (self._how == COPY_ENGINE), "flags"
            if self._how == COPY_ENGINE:
                pieces = [c for c, flag in zip(chunks, table["flags"], strict=True) if flag == 1]
                table["flags"][:] = 0
            table["launches"][0] += 1
        for other in self._devices:
            for first, last in pieces:
                self._buffers[other][new][first:last] = self._buffers[owner][new][first:last]

    def close(self) -> None:
        assert not self._begun


_extension = ModuleType("interlace._cuda")
_extension.Group = Group  # type: ignore[attr-defined]
_extension.Region = Region  # type: ignore[attr-defined]
sys.modules["interlace._cuda"] = _extension


# --- torch ----------------------------------------------------------------------------------------


class Tensor:
    def __init__(self, array: Any) -> None:
        self.array = array

    def __getitem__(self, index: Any) -> Tensor:
        return Tensor(self.array[index])

    def __mod__(self, other: Any) -> Tensor:
        return Tensor(self.array % other)

    def __sub__(self, other: Tensor) -> Tensor:
        return Tensor(self.array - other.array)

    def __truediv__(self, other: float) -> Tensor:
        return Tensor(self.array / other)

    def copy_(self, other: Tensor) -> Tensor:
        self.array[:] = other.array
        return self

    def cpu(self) -> Tensor:
        return Tensor(self.array.copy())

    def double(self) -> Tensor:
        return Tensor(self.array.astype(float64))

    def cumsum(self, dim: int) -> Tensor:
        return Tensor(self.array.cumsum(dim))

    def abs(self) -> Tensor:
        return Tensor(np.abs(self.array))

    def max(self) -> Tensor:
        return Tensor(self.array.max())

    def item(self) -> float:
        return float(self.array)


def tensor(values: Sequence[int], *, dtype: Any, device: str) -> Tensor:
    assert device in [f"cuda:{gpu}" for gpu in range(GPUS)]
    made = _allocate(len(values), dtype)
    made[:] = values
    return Tensor(made)


def arange(count: int, *, dtype: Any) -> Tensor:
    return Tensor(np.arange(count, dtype=dtype))


def zeros(count: int, *, dtype: Any) -> Tensor:
    return Tensor(np.zeros(count, dtype))


def cat(tensors: Sequence[Tensor]) -> Tensor:
    return Tensor(np.concatenate([one.array for one in tensors]))


def from_dlpack(array: Any) -> Tensor:
    count = int(np.prod(array.shape))
    return Tensor(array_at(array.pointer)[:count].reshape(array.shape))


class _Cuda(ModuleType):
    class Stream:
        def __init__(self, ordinal: int) -> None:
            self.cuda_stream = 100 + ordinal

    @staticmethod
    @contextlib.contextmanager
    def device(ordinal: int) -> Iterator[None]:
        assert 0 <= ordinal < GPUS
        yield

    @staticmethod
    @contextlib.contextmanager
    def stream(stream: _Cuda.Stream) -> Iterator[None]:
        assert stream.cuda_stream >= 100
        yield

    @staticmethod
    def synchronize(ordinal: int) -> None:
        assert 0 <= ordinal < GPUS


cuda = _Cuda("torch.cuda")
