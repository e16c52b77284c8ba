"""Computes the shortest possible time of a run's kernels.

This time is the number of bytes divided by the rate of the memory, or the number of operations
divided by the rate of operations, whichever is longer. The reference node counts the bytes and
operations of each launch. A measurement on the GPU gives the rates of the memory and of the
multiprocessors. A kernel can be faster only if data of an earlier launch is still in the L2. The
order of a kernel's memory accesses cannot make the kernel faster.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

OPERATIONS = ("fp32", "fp64", "integer", "special")
MEMORY = "memory"
TOGETHER = "together"


class Rates(msgspec.Struct, frozen=True):
    """The measured rates of a GPU. An operation is an instruction of one lane."""

    read_bytes_per_s: float  # bytes per second that kernels read from the GPU's own memory
    write_bytes_per_s: float
    fp32_per_s: float
    fp64_per_s: float
    integer_per_s: float
    together_per_s: float  # operations of all kinds per second, if kernels mix the kinds
    cache_bytes: int  # size of the L2


class Work(NamedTuple):
    """The bytes and operations of launches.

    The numbers of bytes include only launches that touch more bytes than the L2 holds. Memory does
    not limit the other launches, because the L2 may hold all their data.
    """

    launches: int = 0
    cached_launches: int = 0  # the number of all other launches
    loaded_bytes: int = 0
    stored_bytes: int = 0
    fp32: int = 0
    fp64: int = 0
    integer: int = 0
    special: int = 0

    def plus(self, other: Work) -> Work:
        """Return the sum of this work and `other`."""
        return Work(*(a + b for a, b in zip(self, other, strict=True)))

    def after(self, earlier: Work, more: int) -> Work:
        """Return the work of a longer run: `self`, plus `more` times (`self` minus `earlier`)."""
        return Work(*(b + more * (b - a) for a, b in zip(earlier, self, strict=True)))

    def memory_s(self, rates: Rates) -> float:
        """Return the seconds that the memory needs for the bytes."""
        read = self.loaded_bytes / rates.read_bytes_per_s
        return read + self.stored_bytes / rates.write_bytes_per_s

    def operations_s(self, rates: Rates) -> tuple[float, str]:
        """Return the seconds that the operations need, and the kind of operations that limits them.

        Each kind of operation has its own units, and all kinds share the issue slots. If the issue
        slots limit the operations, the kind is TOGETHER. Special operations use units with
        different rates, so this function adds them only to the operations of the issue slots.
        """
        every = self.fp32 + self.fp64 + self.integer + self.special
        needs = {
            "fp32": self.fp32 / rates.fp32_per_s,
            "fp64": self.fp64 / rates.fp64_per_s,
            "integer": self.integer / rates.integer_per_s,
            TOGETHER: every / rates.together_per_s,
        }
        kind = max(needs, key=needs.__getitem__)
        return needs[kind], kind


Works = Mapping[str, Work]  # maps the name of a kernel or of a library call to its work


def work_of(launches: Iterable[Mapping[str, Any]], cache_bytes: int) -> dict[str, Work]:
    """Return the work of each kernel, summed over all launches and devices.

    `launches` are the counts of the compiled module.
    """
    found: dict[str, Work] = {}
    for one in launches:
        cached = one["touched_bytes"] <= cache_bytes
        moved = (0, 0) if cached else (int(one["loaded_bytes"]), int(one["stored_bytes"]))
        counts = (int(one[kind]) for kind in OPERATIONS)
        work = Work(1, int(cached), *moved, *counts)
        found[one["name"]] = found.get(one["name"], Work()).plus(work)
    return found


class KernelLimit(msgspec.Struct, frozen=True):
    """The bytes and operations of all launches of one kernel, or of all calls of one library."""

    name: str
    launches: int
    cached_launches: int
    loaded_bytes: int  # the bytes of the launches whose data do not fit in the L2
    stored_bytes: int
    operations: dict[str, int]
    memory_s: float
    operations_s: float
    by: str  # what limits the kernel: MEMORY, a kind of operations, or TOGETHER

    @property
    def time_s(self) -> float:
        """Return the time for the memory or the time for the operations, whichever is longer."""
        return max(self.memory_s, self.operations_s)


class Limit(msgspec.Struct, frozen=True):
    """The shortest possible time of a run's kernels on one GPU.

    `reached` is this time as a fraction of the run's time.
    """

    time_s: float  # the sum of `KernelLimit.time_s` over all kernels
    reached: float  # time_s as a fraction of the run's time
    memory_s: float
    operations_s: float
    kernels: list[KernelLimit]

    @property
    def by(self) -> str:
        """Return what limits the kernels for most of the time."""
        needs: dict[str, float] = {}
        for kernel in self.kernels:
            needs[kernel.by] = needs.get(kernel.by, 0.0) + kernel.time_s
        return max(needs, key=needs.__getitem__)


def limit_of(works: Works, rates: Rates, time_s: float) -> Limit | None:
    """Return the limit of a run that takes `time_s` seconds, or None for a run without kernels."""
    kernels = []
    for name, work in works.items():
        memory = work.memory_s(rates)
        operations, kind = work.operations_s(rates)
        kernels.append(
            KernelLimit(
                name,
                work.launches,
                work.cached_launches,
                work.loaded_bytes,
                work.stored_bytes,
                {kind: getattr(work, kind) for kind in OPERATIONS},
                memory,
                operations,
                MEMORY if memory >= operations else kind,
            )
        )
    if not kernels:
        return None
    least = sum(kernel.time_s for kernel in kernels)
    return Limit(
        least,
        least / time_s,
        sum(kernel.memory_s for kernel in kernels),
        sum(kernel.operations_s for kernel in kernels),
        kernels,
    )


def exchange_memory_s(works: Works, gpus: int, received_bytes: float, rates: Rates) -> float:
    """Return the shortest time for which an exchange keeps a GPU's memory busy, in seconds.

    All GPUs are assumed to move the same number of bytes. The function counts the bytes of the
    GPU's kernels, and the bytes that the GPU receives and stores. It does not count sent bytes,
    because they may come from the L2. The time is 0 if the L2 holds all data that the launches
    touch.
    """
    if all(work.cached_launches == work.launches for work in works.values()):
        return 0.0
    kernels = sum(work.memory_s(rates) for work in works.values()) / gpus
    return kernels + received_bytes / gpus / rates.write_bytes_per_s
