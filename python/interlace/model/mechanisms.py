"""The mechanisms that bring stores to other GPUs, and the configurations that studies try."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from interlace.model.mechanism_table import (
    AGENT_COPY,
    BULK_THREADS,
    COLLECTIVE,
    MEMORY_HINT,
    NCCL,
    ROWS,
    Mechanism,
    Parameter,
)

ROW_OF = {row.name: row for row in ROWS}


def _those(wanted: Callable[[Mechanism], bool]) -> tuple[str, ...]:
    """Return the names of the mechanisms for which `wanted` is true, in the order of the table."""
    return tuple(row.name for row in ROWS if wanted(row))


EVERY = tuple(ROW_OF)
(BASELINE,) = _those(lambda row: row.baseline)
(BOUND,) = _those(lambda row: row.bound)
# Libraries and drivers of other vendors. They are measured for comparison, only on real GPUs.
PEERS = _those(lambda row: row.peer)
MECHANISMS = _those(lambda row: row.not_on_sim is None)  # mechanisms that run on simulated machines
MEASURED = _those(lambda row: row.not_on_cuda is None)  # mechanisms that run on real GPUs
SIMULATED = _those(lambda row: row.not_on_cuda is not None)  # mechanisms that no real GPU runs
# The default mechanisms of a study.
DEFAULTS = _those(lambda row: row.by_default and not row.peer and not row.packs_updates)
# The mechanisms that partitioned arrays have. UPDATE_DEFAULTS are the mechanisms that a study of
# partitioned arrays runs by default.
OF_UPDATES = _those(
    lambda row: row.updates_owner or row.updates_partials or row.packs_updates or row.moves_packets
)
UPDATE_DEFAULTS = _those(lambda row: row.by_default and not row.peer and row.name in OF_UPDATES)
# Mechanisms that combine contributions. They cannot run updates that replace the old value.
COMBINING = _those(lambda row: row.updates_partials)
ONLY_UPDATES = _those(lambda row: row.packs_updates)  # mechanisms that regions do not have
QUEUED = _those(lambda row: row.queues_stores)  # mechanisms with a queue of remote stores
TRACKED = _those(lambda row: row.tracks_chunks)
# On real GPUs, the copies of these mechanisms start after the kernels end. The time of kernels and
# the time of copies are therefore known separately.
BEHIND_KERNELS = _those(lambda row: row.copies_after_kernels)
TUNED = _those(lambda row: row.tuned and row.not_on_cuda is None)
TUNED_SIMULATED = _those(lambda row: row.tuned and row.not_on_cuda is not None)
# The mechanisms of partitioned arrays that tuning tries.
TUNED_UPDATES = _those(
    lambda row: (
        row.by_default
        and row.not_on_cuda is None
        and (row.updates_owner or row.updates_partials or row.packs_updates)
    )
)
CONTROLS = _those(lambda row: row.control)
OF_REGIONS = _those(lambda row: row.of_regions)
# A recorded trace can be replayed with the mechanisms REPLAYED. A run can be recorded with the
# mechanisms RECORDED.
REPLAYED = _those(lambda row: row.stores_to_readers)
RECORDED = _those(
    lambda row: (
        row.not_on_sim is None
        and not row.tracks_chunks
        and not row.queues_stores
        and not row.packs_updates
    )
)

# The suffix of a mechanism's name in a run without transfers. Such a run does everything except the
# transfers. The run shows the cost of tracking chunks and of starting transfers. No run with
# transfers can reach its time.
WITHOUT_TRANSFERS = "-without-transfers"

NOT_AVAILABLE = ": not available: "  # text between the name of a library and the reason

# NCCL's collectives to try: COLLECTIVES if all GPUs receive all data, and RANGE_COLLECTIVES if only
# some GPUs receive all data.
COLLECTIVES = COLLECTIVE.tried
RANGE_COLLECTIVES = ("send-receive",)
# The collectives to try if one GPU owns all data. An all-gather is not tried, because it would pad
# the parts of all other GPUs.
OWNER_COLLECTIVES = ("broadcast", "send-receive")

BULK = AGENT_COPY.names[1]  # the way in which the agents with `bulk_threads` threads copy

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30
ELEMENT_BYTES = 4  # the size of a float32, which is the type of every region of a workload

# The real node refuses to wait for more than 256 chunks of a part. This limit is lower, because a
# part can have a few chunks more than its size suggests: the chunks at its ends can be smaller.
MOST_WAITS = 250


def size_text(size: int) -> str:
    """Return a number of bytes in the largest binary unit that gives a whole number."""
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} B"


def short_size(size: int) -> str:
    """Return a number of bytes in the form of an option: the number and one letter, as in 256K."""
    return size_text(size).replace(" ", "").removesuffix("B").removesuffix("i")


def powers_tried(parameter: Parameter) -> tuple[int, ...]:
    """Return the powers of 2 that a search tries."""
    first, last = parameter.tried
    return tuple(1 << k for k in range(first.bit_length() - 1, last.bit_length()))


def left_out_words() -> str:
    """Return the mechanisms that a study runs only if the user names them, as words of the help."""
    rows = [row for row in ROWS if not row.by_default]
    plain = ", ".join(row.name for row in rows if row.only_if_named is None)
    reasons = (f"{row.name}, which {row.only_if_named}" for row in rows if row.only_if_named)
    return f"{plain}; {', and '.join(reasons)}, only if they are named"


# The parameters of `packed`, and the two values of the parameter `combining`.
PACKING = ("packet_bytes", "queue_bytes", "update_windows", "combining", "unpack_blocks")
COMBINING_OFF, COMBINING_ON = 1, 2


class Config(NamedTuple):
    """The configuration of a mechanism. A field is None if the mechanism lacks this parameter."""

    ranges: int | None = None
    chunk_bytes: int | None = None
    agent_threads: int | None = None
    variant: str | None = None  # one of the mechanism's `Variants`
    bulk_threads: int | None = None  # used instead of agent_threads if the agents copy in bulk
    # The parameters of `packed`.
    packet_bytes: int | None = None
    queue_bytes: int | None = None  # the size of the queue between two devices
    update_windows: int | None = None
    combining: int | None = None  # 2 if updates of one element combine in a packet, otherwise 1
    unpack_blocks: int | None = None  # the largest number of blocks of the owner's kernel

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Config:
        """Return the configuration whose values are in `fields`, the fields of a row."""
        return cls(*(fields.get(name) for name in cls._fields))

    def given(self) -> dict[str, int | str]:
        """Return the values of the parameters that the mechanism has, by name."""
        return {name: value for name, value in self._asdict().items() if value is not None}

    def arguments(self) -> tuple[int, int, int, str]:
        """Return the arguments for compiled modules.

        If the mechanism does not have a parameter, the argument is still a valid value.
        """
        threads = self.bulk_threads or self.agent_threads or 32
        copy = BULK if self.bulk_threads is not None else ""
        return self.ranges or 1, self.chunk_bytes or MIB, threads, self.variant or copy

    def packing(self) -> dict[str, int]:
        """Return the parameters of `packed`, by name."""
        return {name: value for name in PACKING if (value := getattr(self, name)) is not None}

    def words(self, *, short: bool = False) -> str:
        """Return the configuration in words. The text is empty if there are no parameters."""
        found = []
        if self.ranges is not None:
            found.append(f"{self.ranges} ranges")
        if self.chunk_bytes is not None:
            found.append(short_size(self.chunk_bytes) if short else size_text(self.chunk_bytes))
        for count, how in ((self.agent_threads, ""), (self.bulk_threads, f", {BULK}")):
            if count is not None:
                found.append((short_size(count) if short else f"{count} threads") + how)
        sized = ((self.packet_bytes, "packets of"), (self.queue_bytes, "queues of"))
        for size, what in sized:
            if size is not None:
                found.append(f"{what} {short_size(size) if short else size_text(size)}")
        if self.update_windows is not None:
            windows = "window" if self.update_windows == 1 else "windows"
            found.append(f"{self.update_windows} {windows}")
        if self.combining is not None:
            found.append("combining" if self.combining == COMBINING_ON else "not combining")
        if self.unpack_blocks is not None:
            found.append(f"{self.unpack_blocks} blocks")
        if self.variant is not None:
            cut = short and self.variant in MEMORY_HINT.names
            found.append(self.variant.split("-")[0] if cut else self.variant)
        return ", ".join(found)


def label(mechanism: str, config: Config, *, short: bool = False) -> str:
    """Return a mechanism's name with its configuration."""
    words = config.words(short=short)
    return f"{mechanism} ({words})" if words else mechanism


@dataclass(frozen=True)
class Tuning:
    """The values to try for each mechanism, in ascending order."""

    ranges: tuple[int, ...]
    chunks: tuple[int, ...]
    threads: tuple[int, ...]
    # The smallest chunk size to try for `copy-engine`, whose streams wait for each chunk. If all
    # sizes of `chunks` are smaller, only the largest of them is tried.
    least_copied: int = 256 * KIB
    most_waits: int | None = MOST_WAITS
    collectives: tuple[str, ...] = COLLECTIVES
    bulk_agents: bool = False  # whether to also try agents of `polling` that copy in bulk

    def space(self, mechanisms: Sequence[str], part_bytes: int, peers: int = 1) -> Any:
        """Return the candidates for the compiled search. `part_bytes` is the size of the largest
        part.
        """
        from interlace.base.native import load_core

        return load_core().tune_space(
            part_bytes=part_bytes,
            element_bytes=ELEMENT_BYTES,
            peers=peers,
            mechanisms=list(mechanisms),
            ranges=self.ranges,
            chunk_bytes=self.chunks,
            agent_threads=self.threads,
            bulk_threads=[n for n in self.threads if self.bulk_agents and n <= BULK_THREADS.most],
            least_copied_bytes=self.least_copied,
            most_waits=self.most_waits,
        )

    def configs(self, mechanism: str, part_bytes: int) -> list[Config]:
        """Return the configurations to try. `part_bytes` is the size of the largest part."""
        if mechanism == NCCL:
            return [Config(variant=name) for name in self.collectives]
        variants = ROW_OF[mechanism].variants
        if variants is not None and variants.tried:
            return [Config(variant=name) for name in variants.tried]
        axes = [dict(family.axes) for family in self.space([mechanism], part_bytes).families]
        return [
            Config(**dict(zip(names, point, strict=True)))
            for names in axes
            for point in itertools.product(*names.values())
        ]
