"""How stores reach the other GPUs: the mechanisms, and the configurations that are worth a try."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

MECHANISMS = (
    "bulk-copy",
    "split",
    "inline",
    "polling",
    "device-launch",
    "copy-engine",
    "proact-hardware",
    "serial-copy",
    "write-combining",
    "finepack",
    "config-packet",
    "gps",
    "infinite-bandwidth",
)
BASELINE = "bulk-copy"
BOUND = "infinite-bandwidth"
SERIAL = "serial-copy"  # the bulk copies of the PROACT paper; no way that anybody should choose
HARDWARE = "proact-hardware"
QUEUED = ("write-combining", "finepack", "config-packet", "gps")  # a queue of remote stores
SIMULATED = (HARDWARE, SERIAL, *QUEUED, BOUND)  # what no real GPU runs
DEFAULTS = tuple(name for name in MECHANISMS if name not in (SERIAL, *QUEUED))  # of a study
TRACKED = ("polling", "device-launch", "copy-engine")  # what tracks chunks on real GPUs
# Behind a mechanism that tracks chunks: everything is done but for the transfers. It says what
# tracking and starting transfers cost, and nothing about what could be reached.
WITHOUT_TRANSFERS = "-without-transfers"

# What others offer, measured beside on real GPUs only.
PEERS = ("nccl", "nvshmem", "unified-memory")
MULTI_PROCESS = "nvshmem"  # takes a process for each GPU
# The bulk copies of all GPUs as one batch of the copy engine; measured, and run if it is named.
MULTI_PATH = "multi-path"
EVERY = (BASELINE, MULTI_PATH, *MECHANISMS[1:-1], *PEERS, BOUND)
# Measured: copies begin when the kernels in front of them are done, so that both times are known.
BEHIND_KERNELS = (BASELINE, MULTI_PATH, "nccl")

NOT_AVAILABLE = ": not available: "  # between a peer and the reason

# How NCCL may deliver what everybody receives, and what others than everybody receive.
COLLECTIVES = ("all-gather", "broadcast", "send-receive")
RANGE_COLLECTIVES = ("send-receive",)
# What one owner has: an all-gather would send every other part padded to the same length.
OWNER_COLLECTIVES = ("broadcast", "send-receive")
# What the driver may be told about unified memory.
HINTS = ("none", "read-mostly", "preferred-location", "accessed-by")

# How the agent of `polling` may copy, if not by its threads' loads and stores. It takes shared
# memory, of which more threads leave too little to kernels.
BULK = "bulk"
MOST_BULK_THREADS = 8192

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30
ELEMENT_BYTES = 4  # float32, of every region of a workload

# The real node refuses to wait for more than 256 chunks of a part. The chunks at its ends are
# smaller than the others, which makes a few more of them.
MOST_WAITS = 250


def size_text(size: int) -> str:
    """A number of bytes in the largest binary unit that leaves it whole."""
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} B"


def _short(size: int) -> str:
    """As size_text, without a space and the end of the unit: 256K."""
    return size_text(size).replace(" ", "").removesuffix("B").removesuffix("i")


class Config(NamedTuple):
    """How a mechanism moves data; None: not something that it has."""

    ranges: int | None = None  # of `split`
    chunk_bytes: int | None = None  # of what tracks chunks
    agent_threads: int | None = None  # of `polling`, and of each kernel of `device-launch`
    variant: str | None = None  # a collective of `nccl`, a hint of `unified-memory`
    bulk_threads: int | None = None  # of `polling`, in place of agent_threads: they copy in bulk

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Config:
        """The configuration that a row states among other things."""
        return cls(*(fields.get(name) for name in cls._fields))

    def given(self) -> dict[str, int | str]:
        """What the mechanism has, by name."""
        return {name: value for name, value in self._asdict().items() if value is not None}

    def arguments(self) -> tuple[int, int, int, str]:
        """As compiled modules take it; what a mechanism does not have must still be valid."""
        threads = self.bulk_threads or self.agent_threads or 32
        copy = BULK if self.bulk_threads is not None else ""
        return self.ranges or 1, self.chunk_bytes or MIB, threads, self.variant or copy

    def words(self, *, short: bool = False) -> str:
        """For people; nothing where there is nothing to say."""
        found = []
        if self.ranges is not None:
            found.append(f"{self.ranges} ranges")
        if self.chunk_bytes is not None:
            found.append(_short(self.chunk_bytes) if short else size_text(self.chunk_bytes))
        for count, how in ((self.agent_threads, ""), (self.bulk_threads, f", {BULK}")):
            if count is not None:
                found.append((_short(count) if short else f"{count} threads") + how)
        if self.variant is not None:
            cut = short and self.variant in HINTS
            found.append(self.variant.split("-")[0] if cut else self.variant)
        return ", ".join(found)


def label(mechanism: str, config: Config, *, short: bool = False) -> str:
    """A mechanism with its configuration."""
    words = config.words(short=short)
    return f"{mechanism} ({words})" if words else mechanism


@dataclass(frozen=True)
class Tuning:
    """What to try of each mechanism; all ascending."""

    ranges: tuple[int, ...]
    chunks: tuple[int, ...]
    threads: tuple[int, ...]
    # Of `copy-engine`, which pays for each wait: it tries the others only if there are no such.
    least_copied: int = 256 * KIB
    most_waits: int | None = MOST_WAITS
    collectives: tuple[str, ...] = COLLECTIVES
    bulk_agents: bool = False  # whether agents of `polling` also copy in bulk

    def space(self, mechanisms: Sequence[str], part_bytes: int, peers: int = 1) -> Any:
        """The candidates of the compiled search where the largest part has so many bytes."""
        from interlace.base.native import load_core

        return load_core().tune_space(
            part_bytes=part_bytes,
            element_bytes=ELEMENT_BYTES,
            peers=peers,
            mechanisms=list(mechanisms),
            ranges=self.ranges,
            chunk_bytes=self.chunks,
            agent_threads=self.threads,
            bulk_threads=[n for n in self.threads if n <= MOST_BULK_THREADS and self.bulk_agents],
            least_copied_bytes=self.least_copied,
            most_waits=self.most_waits,
        )

    def configs(self, mechanism: str, part_bytes: int) -> list[Config]:
        """The configurations to try where the largest part of a device has so many bytes."""
        if mechanism == "nccl":
            return [Config(variant=name) for name in self.collectives]
        if mechanism == "unified-memory":
            return [Config(variant=name) for name in HINTS]
        if mechanism == MULTI_PROCESS:
            return [Config()]
        axes = [dict(family.axes) for family in self.space([mechanism], part_bytes).families]
        return [
            Config(**dict(zip(names, point, strict=True)))
            for names in axes
            for point in itertools.product(*names.values())
        ]
