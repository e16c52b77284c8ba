"""`interlace bench copy --beside-kernels`: what relaying a copy costs the GPUs that relay it."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import typer

from interlace.base.errors import UserError
from interlace.base.progress import progress
from interlace.base.turns import turn
from interlace.cli.failures import failure_ends
from interlace.model.mechanisms import size_text
from interlace.model.results import BenchmarkFile, json_text, measured_by
from interlace.model.run import core_errors
from interlace.nodes.nodes import CudaNode
from interlace.show import table

RECEIVER = 0  # the GPU that messages go to
WINDOW_S = 0.1  # of each figure of a repeat
LEAST_GPUS = 3


class Kernel(msgspec.Struct):
    """The kernel of a GPU; rates of bytes read and written, by repeat."""

    gpu: int
    relays: bool  # it may
    alone_bytes_per_s: list[float]
    beside_bytes_per_s: list[float]  # while messages follow each other
    slowdown_percent: float  # by the medians: how much longer the same work takes


class Row(msgspec.Struct):
    """A size of message; times are those of a message, by repeat."""

    bytes: int
    relayed: bool  # a message went over several paths
    message_alone_s: list[float]
    message_beside_s: list[float]  # while the kernels run
    slowdown_percent: float
    wrong: int  # bytes
    kernels: list[Kernel]


class Results(BenchmarkFile):
    """A file of results."""

    warmup: int
    repeats: int
    window_s: float
    rows: list[Row]


def longer_percent(alone: Sequence[float], beside: Sequence[float]) -> float:
    """How much longer the one takes beside the other than alone, by the medians of times."""
    return 100 * (statistics.median(beside) / statistics.median(alone) - 1)


def row_of(size: int, gpus: Sequence[int], relays: Sequence[int], found: dict[str, Any]) -> Row:
    """What one measurement gave."""
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
    return Row(
        bytes=size,
        relayed=bool(found["relayed"]),
        message_alone_s=list(found["message_alone_s"]),
        message_beside_s=list(found["message_beside_s"]),
        slowdown_percent=longer_percent(found["message_alone_s"], found["message_beside_s"]),
        wrong=int(found["wrong"]),
        kernels=kernels,
    )


def _print(results: Results) -> None:
    lines: list[tuple[int, str, float, float, float]] = []
    for row in results.rows:
        rates = [
            1e-9 * row.bytes / statistics.median(times)
            for times in (row.message_alone_s, row.message_beside_s)
        ]
        lines.append((row.bytes, "message", rates[0], rates[1], row.slowdown_percent))
        for kernel in row.kernels:
            alone, beside = (
                1e-9 * statistics.median(each)
                for each in (kernel.alone_bytes_per_s, kernel.beside_bytes_per_s)
            )
            role = "may relay" if kernel.relays else "does not relay"
            name = f"kernel, GPU {kernel.gpu} {role}"
            lines.append((row.bytes, name, alone, beside, kernel.slowdown_percent))
    columns = [
        table.Column("size", "", [size_text(line[0]) for line in lines]),
        table.Column("what", "", [line[1] for line in lines], number=False),
        table.Column("alone", "GB/s", [f"{line[2]:.1f}" for line in lines]),
        table.Column("together", "GB/s", [f"{line[3]:.1f}" for line in lines]),
        table.Column("slow-down", "%", [f"{line[4]:.1f}" for line in lines]),
    ]
    foot = [
        f"message: from the host to GPU {RECEIVER}, one after another; kernel: reads and writes "
        f"memory, both counted. Medians of {results.repeats}, of {results.window_s:g} s each.",
        "slow-down: how much longer the same takes while the other runs.",
    ]
    direct = [size_text(row.bytes) for row in results.rows if not row.relayed]
    if direct:
        foot.append(f"Not relayed, but one plain copy: messages of {', '.join(direct)}.")
    wrong = sum(row.wrong for row in results.rows)
    foot.append(f"{wrong} bytes wrong." if wrong else "All bytes right.")
    head = f"relayed copies beside kernels, measured on {results.machine['name']}"
    table.print_table(head, columns, [line[0] for line in lines], [""] * len(lines), foot)


def measure(
    node: CudaNode, sizes: Sequence[int], warmup: int, repeats: int, json_file: Path | None
) -> None:
    """Measures messages of these sizes, prints and writes the results."""
    from interlace.base import files

    if node.gpus < LEAST_GPUS:
        raise UserError(
            f"--beside-kernels needs at least {LEAST_GPUS} GPUs, one that receives, one that "
            f"relays and one that does not; {node.machine_name} has {node.gpus}"
        )
    kernels = [gpu for gpu in range(node.gpus) if gpu != RECEIVER]
    relays = kernels[:-1]
    places = ",".join(f"gpu{gpu}" for gpu in relays)
    method = f"INTERLACE_COPY=auto INTERLACE_COPY_RELAYS={places}"
    rows = []
    with (
        failure_ends(),
        progress(f"copies beside kernels on {node.machine_name}", len(sizes)) as tick,
    ):
        for size in sizes:
            with turn(), core_errors(f"messages of {size_text(size)}"):
                found = node.cuda.measure_relay_cost(
                    size, RECEIVER, method, kernels, WINDOW_S, warmup, repeats
                )
            rows.append(row_of(size, kernels, relays, found))
            tick()
    results = Results(
        **measured_by("relay-cost", node),
        warmup=warmup,
        repeats=repeats,
        window_s=WINDOW_S,
        rows=rows,
    )
    texts = {} if json_file is None else {json_file: partial(json_text, results)}
    files.show_and_write(partial(_print, results), texts)
    if any(row.wrong for row in rows):
        raise typer.Exit(1)
