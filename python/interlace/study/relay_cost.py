"""Measures how much relayed copies slow down the GPUs that relay them."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

import msgspec

from interlace.base.errors import UserError
from interlace.base.progress import progress
from interlace.base.turns import turn
from interlace.model.mechanisms import size_text
from interlace.model.results import BenchmarkFile
from interlace.model.run import core_errors
from interlace.nodes.nodes import CudaNode, measured_by

RECEIVER = 0  # the GPU that receives the messages
WINDOW_S = 0.1  # in each repeat, each figure is measured for this many seconds
LEAST_GPUS = 3


class Kernel(msgspec.Struct):
    """The kernel on one GPU. Each list has the rate of its reads and writes in each repeat."""

    gpu: int
    relays: bool  # whether this GPU may relay messages
    alone_bytes_per_s: list[float]
    beside_bytes_per_s: list[float]  # the rate while messages follow each other without a gap
    slowdown_percent: float  # how much longer the kernel's work takes, from the median rates


class RelayRow(msgspec.Struct):
    """The measurements for one message size. Each list has the time of a message in each repeat."""

    bytes: int
    relayed: bool  # whether a message took more than one path
    message_alone_s: list[float]
    message_beside_s: list[float]  # the time of a message while the kernels run
    slowdown_percent: float
    wrong: int  # the number of wrong bytes
    kernels: list[Kernel]


class RelayResults(BenchmarkFile):
    """The content of a results file of `interlace bench copy --beside-kernels`."""

    warmup: int
    repeats: int
    window_s: float
    rows: list[RelayRow]


def longer_percent(alone: Sequence[float], beside: Sequence[float]) -> float:
    """Return how much the median of `beside` exceeds the median of `alone`, in percent."""
    return 100 * (statistics.median(beside) / statistics.median(alone) - 1)


def row_of(
    size: int, gpus: Sequence[int], relays: Sequence[int], found: dict[str, Any]
) -> RelayRow:
    """Return the row of one message size."""
    kernels = []
    for gpu, alone, beside in zip(
        gpus, found["alone_bytes_per_s"], found["beside_bytes_per_s"], strict=True
    ):
        kernels.append(
            Kernel(
                gpu=gpu,
                relays=gpu in relays,
                alone_bytes_per_s=list(alone),
                beside_bytes_per_s=list(beside),
                slowdown_percent=longer_percent(
                    [1 / rate for rate in alone], [1 / rate for rate in beside]
                ),
            )
        )
    return RelayRow(
        bytes=size,
        relayed=bool(found["relayed"]),
        message_alone_s=list(found["message_alone_s"]),
        message_beside_s=list(found["message_beside_s"]),
        slowdown_percent=longer_percent(found["message_alone_s"], found["message_beside_s"]),
        wrong=int(found["wrong"]),
        kernels=kernels,
    )


def measure(node: CudaNode, sizes: Sequence[int], warmup: int, repeats: int) -> RelayResults:
    """Measure messages of these sizes."""
    if node.gpus < LEAST_GPUS:
        raise UserError(
            f"--beside-kernels needs at least {LEAST_GPUS} GPUs: one receives, one relays, and one "
            f"only computes; {node.machine_name} has only {node.gpus}"
        )
    kernels = [gpu for gpu in range(node.gpus) if gpu != RECEIVER]
    relays = kernels[:-1]
    places = ",".join(f"gpu{gpu}" for gpu in relays)
    method = f"INTERLACE_COPY=auto INTERLACE_COPY_RELAYS={places}"
    rows = []
    with progress(f"copies beside kernels on {node.machine_name}", len(sizes)) as tick:
        for size in sizes:
            with turn(), core_errors(f"messages of {size_text(size)}"):
                found = node.cuda.measure_relay_cost(
                    size, RECEIVER, method, kernels, WINDOW_S, warmup, repeats
                )
            rows.append(row_of(size, kernels, relays, found))
            tick()
    return RelayResults(
        **measured_by("relay-cost", node),
        warmup=warmup,
        repeats=repeats,
        window_s=WINDOW_S,
        rows=rows,
    )
