"""The rows of a calibration. Each row has a measurement on GPUs and a simulation of the same work.

Keys of a machine file may be fitted to two kinds of rows: rows with one pair of memories and one
stream, and rows that measure one property of a GPU. One key was also fitted to a row with several
pairs (group FITTED_TO_ALL). The rates of host memory in a machine file are measured rates. All
other rows are predictions.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from interlace.base.errors import UserError
from interlace.machine.schema import Machine
from interlace.model.copies import HOST
from interlace.model.mechanism_table import COPY_ENGINE, INLINE, POLLING
from interlace.model.mechanisms import BASELINE, BOUND, GIB, KIB, MIB, Config, size_text
from interlace.study.calibration_gpus import Copies, Gpus, Stores
from interlace.study.calibration_row import FITTED, FITTED_TO_ALL, PREDICTED, STATED, Definition
from interlace.study.copy_bench import Pairs
from interlace.study.multiprocessor_rows import multiprocessor_rows
from interlace.study.plan import Message, make

GPUS = 4  # the rows with the most GPUs have this many GPUs
PROBE_ROUNDS = 4096  # a kernel with this many rounds of computation shows how long a round takes
OVERLAP_BYTES = 256 * MIB
SMALL_CHUNKS_BYTES = 240 * MIB  # chunks of 1 MiB; a real node waits for at most 256 chunks
STORED_TO_ALL = MIB  # the number of elements, 16 bytes each, that a GPU stores to all other GPUs
LOADED = MIB  # the number of elements that a GPU loads from a peer
COPIED_BYTES = 16 * MIB  # the number of bytes that a copy kernel moves
AGENT_THREADS = 32 * 1024  # 32 blocks of 1024 threads


# --- copies by copy engines -----------------------------------------------------------------------


def _copies_rate(copies: Copies, senders: int, core: Any, machine: Any, _: Machine) -> float:
    sent = sum(size for _, _, size, _ in copies)
    return 1e-9 * sent / senders / float(core.simulate_copies(machine, copies, False))


def _copies(
    key: str, family: str, group: str, copies: Copies, gpus: int = 2, senders: int = 1
) -> Definition:
    return Definition(
        key, family, "GB/s", group, gpus, partial(_copies_rate, copies, senders),
        partial(Gpus.copies_rate, copies=copies, senders=senders),
    )  # fmt: skip


def _copy_us(size: int, core: Any, machine: Any, _: Machine) -> float:
    return 1e6 * float(core.simulate_copies(machine, [(0, 1, size, 0)], True))


def _links() -> list[Definition]:
    sizes = (64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB, 256 * MIB)
    large = 256 * MIB
    both = [(0, 1, large, 0), (1, 0, large, 1)]
    ring = [(gpu, (gpu + 1) % GPUS, large, gpu) for gpu in range(GPUS)]
    found = [
        _copies(f"copy of {size_text(size)} to a peer", "links", FITTED, [(0, 1, size, 0)])
        for size in sizes
    ]
    found += [
        _copies("copies both ways at once, sum", "links", PREDICTED, both),
        _copies("copies round a ring of 4, each", "links", PREDICTED, ring, GPUS, GPUS),
    ]
    found += [
        Definition(
            f"copy kernel, {blocks} blocks of 512 threads", "links", "GB/s", FITTED, 2,
            partial(_copy_kernel_rate, blocks),
            partial(Gpus.copy_kernel_rate, size=COPIED_BYTES, blocks=blocks),
        )
        for blocks in (1, 2, 4, 8, 64, 132)
    ]  # fmt: skip
    return found


def _copy_kernel_rate(blocks: int, core: Any, machine: Any, _: Machine) -> float:
    time_s, payload, _wire = core.simulate_copy_kernel(machine, COPIED_BYTES, blocks)
    return 1e-9 * float(payload) / float(time_s)


def _all_to_all() -> list[Definition]:
    size = 64 * MIB
    others = range(1, GPUS)
    naive = [(a, b, size, a) for a in range(GPUS) for b in range(GPUS) if a != b]
    rotated = [(a, (a + step) % GPUS, size, a) for a in range(GPUS) for step in others]
    family = "all-to-all"
    return [
        _copies("all-to-all of 4 by copies, naive order", family, PREDICTED, naive, GPUS, GPUS),
        _copies("all-to-all of 4 by copies, rotated", family, PREDICTED, rotated, GPUS, GPUS),
        _stores_of(
            "all-to-all of 4 by stores", family, PREDICTED, Stores(16, STORED_TO_ALL, 0), GPUS, GPUS
        ),
        _stores_of(
            "all-to-all of 4 by 16 B scattered stores", family, FITTED_TO_ALL,
            Stores(16, STORED_TO_ALL // 2, 1), GPUS, GPUS,
        ),
    ]  # fmt: skip


# --- stores and loads of kernels ------------------------------------------------------------------


def _store_rate(
    gpus: int, senders: int, stores: Stores, core: Any, machine: Any, _: Machine
) -> float:
    time_s, payload, _wire, _packets = core.simulate_stores(machine, gpus, senders, *stores)
    return 1e-9 * float(payload) / senders / float(time_s)


def _stores_of(
    key: str, family: str, group: str, stores: Stores, gpus: int = 2, senders: int = 1
) -> Definition:
    return Definition(
        key, family, "GB/s", group, gpus, partial(_store_rate, gpus, senders, stores),
        partial(Gpus.store_rate, gpus=gpus, senders=senders, stores=stores),
    )  # fmt: skip


def _raw_bytes(stores: Stores, core: Any, machine: Any, _: Machine) -> float:
    _time, payload, wire, _packets = core.simulate_stores(machine, 2, 1, *stores)
    return float(wire) / float(payload)


def _load_rate(element: int, core: Any, machine: Any, _: Machine) -> float:
    time_s, payload, _wire = core.simulate_loads(machine, element, LOADED)
    return 1e-9 * float(payload) / float(time_s)


STORES = {
    "4 B scattered stores": Stores(4, MIB, 1),
    "8 B scattered stores, 2 lanes": Stores(4, MIB, 2),
    "16 B scattered stores, one lane": Stores(16, 2 * MIB, 1),
    "16 B scattered stores, 4 lanes": Stores(4, 2 * MIB, 4),
    "32 B scattered stores, 8 lanes": Stores(4, 4 * MIB, 8),
    "64 B scattered stores, 16 lanes": Stores(4, 4 * MIB, 16),
    "128 B scattered stores, 32 lanes": Stores(4, 4 * MIB, 32),
    "contiguous stores, 16 B a lane": Stores(16, 4 * MIB, 0),
}
# Stores that do not fill sectors of 32 bytes.
PIECES = {
    "12 B scattered stores, at a multiple of 16 B": Stores(4, 4 * MIB, 4, lanes=3),
    "48 B scattered stores, at a multiple of 128 B": Stores(4, 8 * MIB, 32, lanes=12),
    "32 B scattered stores, 16 B after a multiple of 32 B": Stores(4, 4 * MIB, 8, shift=4),
    "16 B scattered stores, 8 B after a multiple of 16 B": Stores(4, 2 * MIB, 4, shift=2),
}
BOTH_WAYS = {
    "4 B scattered stores both ways at once, rate of each GPU": Stores(4, MIB // 2, 1),
    "16 B scattered stores both ways at once, rate of each GPU": Stores(16, MIB, 1),
    "128 B scattered stores both ways at once, rate of each GPU": Stores(4, 2 * MIB, 32),
    "contiguous stores both ways at once, rate of each GPU": Stores(16, 2 * MIB, 0),
}
# The number of bytes on the wire is the same in every run, so a few stores are enough to count.
COUNTED = 256 * KIB


def _stores() -> list[Definition]:
    family = "stores and loads"
    return [
        *(_stores_of(name, family, FITTED, stores) for name, stores in STORES.items()),
        *(
            Definition(
                f"{size} B scattered loads", family, "GB/s", FITTED, 2,
                partial(_load_rate, size), partial(Gpus.load_rate, element=size, elements=LOADED),
            )
            for size in (4, 16)
        ),
        *(
            Definition(
                f"{name}: raw bytes a payload byte", "wire bytes", "", FITTED, 2,
                partial(_raw_bytes, stores.but(COUNTED)),
                partial(Gpus.raw_bytes, stores=stores.but(COUNTED)),
            )
            for name, stores in STORES.items()
        ),
        *(_stores_of(name, family, FITTED, stores) for name, stores in PIECES.items()),
        *(
            Definition(
                f"{name}: raw bytes a payload byte", "wire bytes", "", PREDICTED, 2,
                partial(_raw_bytes, stores.but(COUNTED)),
                partial(Gpus.raw_bytes, stores=stores.but(COUNTED)),
            )
            for name, stores in PIECES.items()
        ),
        *(_stores_of(name, family, PREDICTED, stores, 2, 2) for name, stores in BOTH_WAYS.items()),
    ]  # fmt: skip


# --- the host's memory, by the planner ------------------------------------------------------------


def _planned_rate(messages: list[Message], paths: str | None, _core: Any, _machine: Any,
                  described: Machine) -> float:  # fmt: skip
    planned = make(described, messages, paths=paths)
    return 1e-9 * sum(m.bytes for m in messages) / float(planned.plan.predicted_s)


def _host() -> list[Definition]:
    def messages(pairs: Pairs, size: int) -> list[Message]:
        def name(place: int) -> str:
            return "host" if place == HOST else f"gpu{place}"

        return [Message(name(a), name(b), size) for a, b in pairs]

    def to(count: int) -> Pairs:
        return [(HOST, k) for k in range(count)]

    def back(count: int) -> Pairs:
        return [(k, HOST) for k in range(count)]

    large = 512 * MIB

    def direct(key: str, group: str, pairs: Pairs) -> Definition:
        copies = [(a, b, large, stream) for stream, (a, b) in enumerate(pairs)]
        return Definition(
            key, "host", "GB/s", group, max(2, *(max(pair) + 1 for pair in pairs)),
            partial(_planned_rate, messages(pairs, large), "direct"),
            partial(Gpus.copies_rate, copies=copies, senders=1),
        )  # fmt: skip

    def relayed(key: str, pairs: Pairs, size: int) -> Definition:
        return Definition(
            key, "host", "GB/s", PREDICTED, GPUS,
            partial(_planned_rate, messages(pairs, size), None),
            partial(Gpus.message_rate, pairs=pairs, size=size),
        )  # fmt: skip

    return [
        direct("host to GPU", FITTED, to(1)),
        direct("GPU to host", FITTED, back(1)),
        direct("host and GPU both ways, sum", STATED, [*to(1), *back(1)]),
        direct("host to 2 GPUs", PREDICTED, to(2)),
        direct("host to 3 GPUs", PREDICTED, to(3)),
        direct("host to 4 GPUs", STATED, to(4)),
        direct("2 GPUs to host", PREDICTED, back(2)),
        direct("3 GPUs to host", PREDICTED, back(3)),
        direct("4 GPUs to host", STATED, back(4)),
        relayed("512 MiB from host, relayed by 4 GPUs", to(1), large),
        *(
            relayed(f"{size} MiB from host, relayed by 4 GPUs", to(1), size * MIB)
            for size in (2, 4, 8, 16, 64, 256)
        ),
        relayed("512 MiB to host, relayed by 4 GPUs", back(1), large),
    ]


# --- overlap --------------------------------------------------------------------------------------


def _gain(
    peers: int, size: int, mechanism: str, config: Config, core: Any, machine: Any, _: Machine
) -> float:
    """Return a mechanism's speedup over bulk-copy.

    The kernel takes as long as the transfer.
    """

    def run(name: str, how: Config, rounds: int) -> float:
        _ranges, chunk_bytes, threads, _variant = how.arguments()
        return float(
            core.simulate_overlap(machine, peers, size, name, chunk_bytes, threads, rounds)
        )

    stored = run(BOUND, Config(), 0)
    long = run(BOUND, Config(), PROBE_ROUNDS)
    copied = run(BASELINE, Config(), 0)
    rounds = max(1, round(PROBE_ROUNDS * (copied - stored) / long))
    return run(BASELINE, Config(), rounds) / run(mechanism, config, rounds)


def _overlap() -> list[Definition]:
    large = OVERLAP_BYTES
    agent = Config(chunk_bytes=MIB, agent_threads=AGENT_THREADS)
    kinds = [
        ("inline stores", large, INLINE, Config(), (1,)),
        ("polling agent", large, POLLING, agent, (1, 3)),
        *(
            (f"copies behind waits, {chunk} MiB chunks", size, COPY_ENGINE,
             Config(chunk_bytes=chunk * MIB), (1, 3))
            for chunk, size in ((16, large), (4, large), (1, SMALL_CHUNKS_BYTES))
        ),
    ]  # fmt: skip
    return [
        Definition(
            f"{name}, {peers} peer{'s' if peers > 1 else ''}", "overlap", "x", PREDICTED, peers + 1,
            partial(_gain, peers, size, mechanism, config),
            partial(Gpus.gain, peers=peers, size=size, mechanism=mechanism, config=config),
        )
        for name, size, mechanism, config, counts in kinds
        for peers in counts
    ]  # fmt: skip


def _launches() -> list[Definition]:
    return [
        Definition(
            f"{size_text(size)} copy, from the host and back", "launches", "us", FITTED, 2,
            partial(_copy_us, size), partial(Gpus.copy_us, size=size),
        )
        for size in (4, MIB)
    ]  # fmt: skip


def definitions() -> list[Definition]:
    """Return all rows, family by family."""
    return [
        *_links(),
        *_host(),
        *_stores(),
        *_all_to_all(),
        *_overlap(),
        *_launches(),
        *multiprocessor_rows(),
    ]


def check_machine(machine: Machine) -> None:
    """Raise UserError if the machine cannot run the calibration."""
    if machine.gpu.count < GPUS:
        raise UserError(f"{machine.name} has {machine.gpu.count} GPUs; a calibration needs {GPUS}")
    if machine.gpu.dram.capacity_GiB * GIB < 4 * OVERLAP_BYTES:
        raise UserError(f"the GPUs of {machine.name} have less memory than a calibration needs")
