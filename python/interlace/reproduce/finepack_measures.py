"""Functions that compute the figures of `interlace reproduce finepack` from results."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from typing import Any

from interlace.base.statistics import geometric_mean
from interlace.model.inside import Activity
from interlace.model.mechanism_table import FINEPACK, GPS, INLINE
from interlace.model.mechanisms import BASELINE, BOUND
from interlace.model.run import Case
from interlace.reproduce.runs import Results

MACHINE = "4x-gv100-pcie4"
SIXTEEN = "16x-gv100-pcie6"

FIG_9 = (BOUND, INLINE, BASELINE, FINEPACK)

FOUR = 4
SINGLE = Case(1, BASELINE)
UNDER_32 = 5  # the first five entries of `sizes` are about stores of fewer than 32 bytes
LINE_BYTES = 128  # the size of a line in Table III

Measure = Callable[[Results], float]


def mean(results: Mapping[str, Results], of: Measure) -> float | None:
    """Return the geometric mean over the workloads."""
    return geometric_mean(of(r) for r in results.values())


def speedup(gpus: int, mechanism: str) -> Measure:
    """Return the function that computes a mechanism's speedup over one GPU."""
    return lambda r: r.speedup(Case(gpus, mechanism))


def gain(gpus: int, mechanism: str, over: str) -> Measure:
    """Return the function that computes the speedup of `mechanism` over the mechanism `over`."""
    return lambda r: r.time(Case(gpus, over)) / r.time(Case(gpus, mechanism))


def all_bytes(r: Results, mechanism: str) -> float:
    """Return the number of bytes on the links, of all kinds."""
    wire = r.outcomes[Case(FOUR, mechanism)].wire
    return float((wire.useful or 0) + (wire.protocol or 0) + (wire.wasted or 0))


def fewer(mechanism: str) -> Measure:
    """Return the function that divides a mechanism's bytes on the links by FinePack's bytes."""
    return lambda r: all_bytes(r, mechanism) / all_bytes(r, FINEPACK)


def wasted_share(mechanism: str) -> Measure:
    """Return the function that computes the share of a mechanism's bytes that nobody reads."""

    def share(r: Results) -> float:
        wasted = r.outcomes[Case(FOUR, mechanism)].wire.wasted or 0
        return wasted / all_bytes(r, mechanism)

    return share


def stores(r: Results, mechanism: str) -> dict[str, Any]:
    """Return the counts of a mechanism's stores to other GPUs."""
    return r.outcomes[Case(FOUR, mechanism)].stores


def small_share(r: Results) -> float:
    """Return the share of the stores to other GPUs that are smaller than 32 bytes."""
    sizes = stores(r, INLINE)["sizes"]
    return float(sum(sizes[:UNDER_32]) / sum(sizes))


def packed(r: Results) -> float:
    """Return the average number of stores in a FinePack packet, or 0 without packets."""
    counted = stores(r, FINEPACK)
    packets = counted.get("packets", 0)
    return float(counted["stores"]) / packets if packets else 0.0


def flushed_for(reason: str, mechanism: str) -> Measure:
    """Return the function that computes the share of flushes with this reason.

    The share is 0 if there are no flushes.
    """

    def share(r: Results) -> float:
        counted = stores(r, mechanism)
        return float(counted["reasons"][reason]) / counted["flushes"] if counted["flushes"] else 0.0

    return share


def line_filled(r: Results) -> float:
    """Return the share of a line that stores filled, for lines that GPS sends; 0 without lines."""
    counted = stores(r, GPS)
    sent = counted["flushes"] * LINE_BYTES
    return float(counted["bytes"] - counted["overwritten_bytes"]) / sent if sent else 0.0


def _of_gpus(r: Results, case: Case, part: Callable[[Activity], float]) -> float:
    """Return the mean of `part` over the GPUs of a run."""
    inside = r.outcomes[case].inside
    return 0.0 if inside is None else statistics.fmean(part(gpu) for gpu in inside.gpus)


def issue_used(r: Results) -> float:
    """Return the share of a GPU's issue slots that the workload uses on one GPU alone."""
    return _of_gpus(r, SINGLE, lambda gpu: gpu.issue)


def memory_used(r: Results) -> float:
    """Return the share of a GPU's memory bandwidth that the workload uses on one GPU alone."""
    return _of_gpus(r, SINGLE, lambda gpu: gpu.memory)


def waits_for_others(r: Results) -> float:
    """Return the share of time in which a GPU waits for other GPUs, with infinite bandwidth."""
    return _of_gpus(r, Case(FOUR, BOUND), lambda gpu: gpu.idle_while_others_compute)
