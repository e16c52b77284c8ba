"""The rows of a calibration: what is measured on a node of H200s, and how its simulated twin does
the same.

A row with one pair of memories and one stream may be fitted: parameters of the machine file come
from such rows, and from no others. All other rows are predictions, but for those of host memory
whose rates the machine file states as they were measured.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from interlace.errors import UserError
from interlace.machines import Machine
from interlace.mechanisms import BASELINE, BOUND, GIB, KIB, MIB, Config, size_text
from interlace.plan import Message, make

GPUS = 4  # that the rows take
PROBE_ROUNDS = 4096  # of computation, to see how long a round takes
OVERLAP_BYTES = 256 * MIB
AGENT_THREADS = 32 * 1024  # 32 blocks of 1024

FITTED = "one pair, one stream"
STATED = "stated by the machine file"
PREDICTED = "predicted"

# Simulates a row on a machine: the compiled module, the machine in its form and in ours.
Simulation = Callable[[Any, Any, Machine], float]


class Definition(NamedTuple):
    """A row: what is measured, and how it is simulated."""

    key: str  # as in a file of measured rows
    family: str
    unit: str
    group: str
    simulate: Simulation


# --- copies by copy engines -----------------------------------------------------------------------

Copies = list[tuple[int, int, int, int]]  # from, to, bytes, stream


def _copies_rate(copies: Copies, senders: int, core: Any, machine: Any, _: Machine) -> float:
    sent = sum(size for _, _, size, _ in copies)
    return 1e-9 * sent / senders / float(core.simulate_copies(machine, copies, False))


def _copy_us(size: int, core: Any, machine: Any, _: Machine) -> float:
    return 1e6 * float(core.simulate_copies(machine, [(0, 1, size, 0)], True))


def _links() -> list[Definition]:
    def row(key: str, group: str, copies: Copies, senders: int = 1) -> Definition:
        return Definition(key, "links", "GB/s", group, partial(_copies_rate, copies, senders))

    sizes = (64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB, 256 * MIB)
    large = 256 * MIB
    found = [
        row(f"copy of {size_text(size)} to a peer", FITTED, [(0, 1, size, 0)]) for size in sizes
    ]
    found += [
        row("copies both ways at once, sum", PREDICTED, [(0, 1, large, 0), (1, 0, large, 1)]),
        row(
            "copies round a ring of 4, each", PREDICTED,
            [(gpu, (gpu + 1) % GPUS, large, gpu) for gpu in range(GPUS)], GPUS,
        ),
    ]  # fmt: skip
    found += [
        Definition(
            f"copy kernel, {blocks} blocks of 512 threads", "links", "GB/s", FITTED,
            partial(_copy_kernel_rate, blocks),
        )
        for blocks in (1, 2, 4, 8, 64, 132)
    ]  # fmt: skip
    return found


def _copy_kernel_rate(blocks: int, core: Any, machine: Any, _: Machine) -> float:
    time_s, payload, _wire = core.simulate_copy_kernel(machine, 16 * MIB, blocks)
    return 1e-9 * float(payload) / float(time_s)


def _all_to_all() -> list[Definition]:
    size = 64 * MIB
    others = range(1, GPUS)
    naive = [(a, b, size, a) for a in range(GPUS) for b in range(GPUS) if a != b]
    rotated = [(a, (a + step) % GPUS, size, a) for a in range(GPUS) for step in others]
    family, unit = "all-to-all", "GB/s"
    return [
        Definition(
            "all-to-all of 4 by copies, naive order", family, unit, PREDICTED,
            partial(_copies_rate, naive, GPUS),
        ),
        Definition(
            "all-to-all of 4 by copies, rotated", family, unit, PREDICTED,
            partial(_copies_rate, rotated, GPUS),
        ),
        Definition("all-to-all of 4 by stores", family, unit, PREDICTED, _all_store),
    ]  # fmt: skip


# --- stores and loads of kernels ------------------------------------------------------------------


def _all_store(core: Any, machine: Any, _: Machine) -> float:
    time_s, payload, _wire, _packets = core.simulate_stores(machine, GPUS, GPUS, 16, MIB, 0)
    return 1e-9 * float(payload) / GPUS / float(time_s)


def _store_rate(
    element: int, elements: int, together: int, core: Any, machine: Any, _: Machine
) -> float:
    time_s, payload, _wire, _packets = core.simulate_stores(
        machine, 2, 1, element, elements, together
    )
    return 1e-9 * float(payload) / float(time_s)


def _raw_bytes(
    element: int, elements: int, together: int, core: Any, machine: Any, _: Machine
) -> float:
    _time, payload, wire, _packets = core.simulate_stores(
        machine, 2, 1, element, elements, together
    )
    return float(wire) / float(payload)


def _load_rate(element: int, core: Any, machine: Any, _: Machine) -> float:
    time_s, payload, _wire = core.simulate_loads(machine, element, MIB)
    return 1e-9 * float(payload) / float(time_s)


def _stores() -> list[Definition]:
    kinds = {  # bytes of a lane, number of them, lanes side by side
        "4 B scattered stores": (4, MIB, 1),
        "8 B scattered stores, 2 lanes": (4, MIB, 2),
        "16 B scattered stores, one lane": (16, 2 * MIB, 1),
        "16 B scattered stores, 4 lanes": (4, 2 * MIB, 4),
        "32 B scattered stores, 8 lanes": (4, 4 * MIB, 8),
        "64 B scattered stores, 16 lanes": (4, 4 * MIB, 16),
        "128 B scattered stores, 32 lanes": (4, 4 * MIB, 32),
        "contiguous stores, 16 B a lane": (16, 4 * MIB, 0),
    }
    # Bytes on the wire are counted of fewer stores: they are the same each time.
    few = 256 * KIB
    return [
        *(
            Definition(name, "stores and loads", "GB/s", FITTED, partial(_store_rate, *how))
            for name, how in kinds.items()
        ),
        *(
            Definition(
                f"{size} B scattered loads", "stores and loads", "GB/s", FITTED,
                partial(_load_rate, size),
            )
            for size in (4, 16)
        ),
        *(
            Definition(
                f"{name}: raw bytes a payload byte", "wire bytes", "", FITTED,
                partial(_raw_bytes, how[0], few, how[2]),
            )
            for name, how in kinds.items()
        ),
    ]  # fmt: skip


# --- the host's memory, by the planner ------------------------------------------------------------


def _planned_rate(messages: list[Message], paths: str | None, _core: Any, _machine: Any,
                  described: Machine) -> float:  # fmt: skip
    planned = make(described, messages, paths=paths)
    return 1e-9 * sum(m.bytes for m in messages) / float(planned.plan.predicted_s)


def _host() -> list[Definition]:
    def row(
        key: str, group: str, pairs: list[tuple[str, str]], size: int, paths: str | None = "direct"
    ) -> Definition:
        messages = [Message(a, b, size) for a, b in pairs]
        return Definition(key, "host", "GB/s", group, partial(_planned_rate, messages, paths))

    def to(count: int) -> list[tuple[str, str]]:
        return [("host", f"gpu{k}") for k in range(count)]

    def back(count: int) -> list[tuple[str, str]]:
        return [(f"gpu{k}", "host") for k in range(count)]

    large = 512 * MIB
    return [
        row("host to GPU", FITTED, to(1), large),
        row("GPU to host", FITTED, back(1), large),
        row("host and GPU both ways, sum", STATED, [*to(1), *back(1)], large),
        row("host to 2 GPUs", PREDICTED, to(2), large),
        row("host to 3 GPUs", PREDICTED, to(3), large),
        row("host to 4 GPUs", STATED, to(4), large),
        row("2 GPUs to host", PREDICTED, back(2), large),
        row("3 GPUs to host", PREDICTED, back(3), large),
        row("4 GPUs to host", STATED, back(4), large),
        row("512 MiB from host, relayed by 4 GPUs", PREDICTED, to(1), large, None),
        *(
            row(f"{size} MiB from host, relayed by 4 GPUs", PREDICTED, to(1), size * MIB, None)
            for size in (2, 4, 8, 16, 64, 256)
        ),
        row("512 MiB to host, relayed by 4 GPUs", PREDICTED, back(1), large, None),
    ]


# --- overlap --------------------------------------------------------------------------------------


def _gain(peers: int, mechanism: str, config: Config, core: Any, machine: Any, _: Machine) -> float:
    """Of a mechanism over bulk-copy, with a kernel as long as the transfer."""

    def run(name: str, how: Config, rounds: int) -> float:
        _ranges, chunk_bytes, threads, _variant = how.arguments()
        return float(
            core.simulate_overlap(machine, peers, OVERLAP_BYTES, name, chunk_bytes, threads, rounds)
        )

    stored = run(BOUND, Config(), 0)
    long = run(BOUND, Config(), PROBE_ROUNDS)
    copied = run(BASELINE, Config(), 0)
    rounds = max(1, round(PROBE_ROUNDS * (copied - stored) / long))
    return run(BASELINE, Config(), rounds) / run(mechanism, config, rounds)


def _overlap() -> list[Definition]:
    kinds = [
        ("inline stores", "inline", Config(), (1,)),
        ("polling agent", "polling", Config(chunk_bytes=MIB, agent_threads=AGENT_THREADS), (1, 3)),
        ("copies behind waits, 16 MiB chunks", "copy-engine", Config(chunk_bytes=16 * MIB), (1, 3)),
        ("copies behind waits, 4 MiB chunks", "copy-engine", Config(chunk_bytes=4 * MIB), (1, 3)),
        ("copies behind waits, 1 MiB chunks", "copy-engine", Config(chunk_bytes=MIB), (1, 3)),
    ]
    return [
        Definition(
            f"{name}, {peers} peer{'s' if peers > 1 else ''}", "overlap", "x", PREDICTED,
            partial(_gain, peers, mechanism, config),
        )
        for name, mechanism, config, counts in kinds
        for peers in counts
    ]  # fmt: skip


def _launches() -> list[Definition]:
    return [
        Definition("4 B copy, from the host and back", "launches", "us", FITTED,
                   partial(_copy_us, 4)),
        Definition("1 MiB copy, from the host and back", "launches", "us", FITTED,
                   partial(_copy_us, MIB)),
    ]  # fmt: skip


def definitions() -> list[Definition]:
    """All rows, family by family."""
    return [*_links(), *_host(), *_stores(), *_all_to_all(), *_overlap(), *_launches()]


def check_machine(machine: Machine) -> None:
    """Raise UserError for a machine that the rows cannot run on."""
    if machine.gpu.count < GPUS:
        raise UserError(f"{machine.name} has {machine.gpu.count} GPUs; a calibration takes {GPUS}")
    if machine.gpu.dram.capacity_GiB * GIB < 4 * OVERLAP_BYTES:
        raise UserError(f"the GPUs of {machine.name} have less memory than a calibration takes")
