"""Compares copies over several paths with plain copies on this computer's GPUs."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

import msgspec

from interlace.base.errors import UserError
from interlace.base.progress import progress
from interlace.base.turns import turn
from interlace.model.copies import HOST, PLAIN
from interlace.model.mechanism_table import NCCL
from interlace.model.mechanisms import NOT_AVAILABLE, size_text
from interlace.model.results import BenchmarkFile
from interlace.model.run import core_errors
from interlace.nodes.nodes import CudaNode, measured_by

METHODS = (PLAIN, "auto", "streams", "graphs", NCCL)
DEFAULT_METHODS = (PLAIN, "auto", NCCL)


Pairs = list[tuple[int, int]]

PATTERNS = (
    "h2d",
    "d2h",
    "p2p",
    "both-ways",
    "h2d-and-d2h",
    "all-h2d",
    "all-d2h",
    "ring",
    "all-to-all",
)


def messages(pattern: str, gpus: int) -> Pairs:
    """Return the messages of a pattern as (source, destination). All messages are in flight at
    once.
    """
    every = range(gpus)
    if pattern == "all-h2d":
        return [(HOST, gpu) for gpu in every]
    if pattern == "all-d2h":
        return [(gpu, HOST) for gpu in every]
    if pattern == "ring":
        return [(gpu, (gpu + 1) % gpus) for gpu in every]
    if pattern == "all-to-all":
        return [(gpu, (gpu + turn) % gpus) for turn in range(1, gpus) for gpu in every]
    return {
        "h2d": [(HOST, 0)],
        "d2h": [(0, HOST)],
        "p2p": [(0, 1)],
        "both-ways": [(0, 1), (1, 0)],
        "h2d-and-d2h": [(HOST, 0), (0, HOST)],
    }[pattern]


def has_host(pattern: str) -> bool:
    """Return whether a pattern has messages from or to the host's memory."""
    return any(HOST in pair for pair in messages(pattern, 2))


class CopyRow(msgspec.Struct):
    """The measurements of one method with one pattern and one size.

    Each list has one number for each repeat.
    """

    pattern: str
    bytes: int  # the bytes of each message
    messages: int
    method: str
    time_s: list[float]  # the time from the first call until all bytes have arrived
    call_s: list[float]  # the time that the host spends in all calls
    wrong: int  # the number of wrong bytes
    median_s: float
    median_call_s: float
    gb_per_s: float  # the rate of all messages together, from the median of `time_s`
    speedup: float | None = None  # the speedup over memcpy


class CopyResults(BenchmarkFile):
    """The content of a results file of `interlace bench copy`."""

    warmup: int
    repeats: int
    window: int
    notes: list[str]
    rows: list[CopyRow]


def rows_of(pattern: str, size: int, count: int, found: Sequence[Any]) -> list[CopyRow]:
    """Return the rows of one measurement, one row for each method."""
    rows = []
    for method, time_s, call_s, wrong in found:
        median = statistics.median(time_s)
        rows.append(
            CopyRow(
                pattern=pattern,
                bytes=size,
                messages=count,
                method=method,
                time_s=list(time_s),
                call_s=list(call_s),
                wrong=wrong,
                median_s=median,
                median_call_s=statistics.median(call_s),
                gb_per_s=1e-9 * count * size / median,
            )
        )
    plain = [row.median_s for row in rows if row.method == PLAIN]
    for row in rows:
        if plain:
            row.speedup = plain[0] / row.median_s
    return rows


def methods_here(node: CudaNode, named: list[str] | None) -> tuple[list[str], str | None]:
    """Return the named methods, or the default methods if no method is named.

    If NCCL is missing and is not among the named methods, also return why it is missing.
    """
    by = list(DEFAULT_METHODS) if named is None else named
    left_out = node.why_not(NCCL) if NCCL in by else None
    if left_out is None:
        return by, None
    if named is not None:
        raise UserError(f"--methods {NCCL}{NOT_AVAILABLE}{left_out}")
    return [name for name in by if name != NCCL], left_out


DEFAULT_REPEATS = 20
DEFAULT_WARMUP = 4


NVLS_OFF = f"{NCCL} ran without multicast in the switches (NCCL_NVLS_ENABLE=0)."


def nccl_lines(rows: Sequence[CopyRow], left_out: str | None) -> list[str]:
    """Return a sentence that says how NCCL ran, or why it did not run."""
    if left_out is not None:
        return [f"{NCCL}{NOT_AVAILABLE}{left_out}."]
    return [NVLS_OFF] if any(row.method == NCCL for row in rows) else []


def patterns_of(wanted: Sequence[str] | None, window: int, *, osu: bool) -> list[tuple[str, int]]:
    """Return the patterns, each with the number of messages per pair of memories.

    This number is `window`. With `osu`, the result has the patterns of the OSU benchmarks. One of
    these patterns has only one message per pair.
    """
    if osu:
        return list(dict.fromkeys((("p2p", 1), ("p2p", window), ("both-ways", window))))
    return [(name, window) for name in (list(PATTERNS) if wanted is None else wanted)]


def measure(
    node: CudaNode, named: list[str] | None, patterns: Sequence[tuple[str, int]],
    sizes: Sequence[int], window: int, warmup: int, repeats: int,
) -> CopyResults:  # fmt: skip
    """Measure each pattern and size in turn, with the named methods or the default methods."""
    if node.gpus < 2:
        raise UserError(f"bench copy needs at least 2 GPUs; {node.machine_name} has 1")
    by, left_out = methods_here(node, named)
    rows: list[CopyRow] = []
    with progress(f"copies on {node.machine_name}", len(patterns) * len(sizes)) as tick:
        for name, outstanding in patterns:
            pairs = messages(name, node.gpus) * outstanding
            can = [method for method in by if method != NCCL or not has_host(name)]
            for size in sizes:
                with turn(), core_errors(f"{name} of {size_text(size)}"):
                    found = node.cuda.measure_copies(pairs, size, can, warmup, repeats)
                rows += rows_of(name, size, len(pairs), found)
                tick()
    return CopyResults(
        **measured_by("copy", node),
        warmup=warmup,
        repeats=repeats,
        window=window,
        notes=nccl_lines(rows, left_out),
        rows=rows,
    )
