"""Measures the locality of loads in programs on shared pages.

The figures say how many loads are remote, how much of a remote line these loads use, and how often
the L1 has a remote line. These figures decide whether finer transfers or a cache would help
(DualOpt, PACT 2022, Fig. 11).
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec
from msgspec import UnsetType

from interlace.base import workers
from interlace.base.native import load_core
from interlace.base.progress import progress
from interlace.base.turns import turn
from interlace.machine.compiled import to_core
from interlace.machine.schema import Machine
from interlace.model.remote_load_table import DIRECT
from interlace.model.results import Head, provenance
from interlace.model.run import RunFailure
from interlace.nodes.nodes import CudaNode
from interlace.workloads import unified

FORMAT = 1
MACHINE = "4x-r9nano"
# DualOpt's thresholds (Table 1): the share of remote loads, the used part of a line, the hit rate
THRESHOLDS = (0.02, 0.2, 0.4)
OWN_PAGES = "own"  # each array has its own placement
MEASURED_WARMUP, MEASURED_REPEATS = 2, 7
LOCAL, FINE, CACHED = "local", "cache-insensitive", "cache-friendly"
PUBLISHED = {  # DualOpt, Table 2
    **dict.fromkeys(("atax", "bfs", "bicg", "pr", "spmv"), FINE),
    **dict.fromkeys(("km", "mm", "mt", "st", "bs", "sc"), CACHED),
    **dict.fromkeys(("aes", "fir"), LOCAL),
}

# Output of MGPUSim's release of 2021 (24a2205) with inputs of the factor 1, by program and number
# of GPUs. The values are the accesses of the vector L1 caches, the remote reads (including reads of
# instructions and arguments), the remote writes, and the time in microseconds.
MGPUSIM: dict[tuple[str, int], tuple[int, int, int, float]] = {
    ("atax", 1): (319552, 0, 0, 2043.973),
    ("atax", 4): (319552, 211088, 24576, 12633.495),
    ("fir", 1): (339968, 0, 0, 29.764),
    ("fir", 4): (339968, 483, 0, 16.733),
    ("mm", 1): (69696, 0, 0, 116.175),
    ("mm", 4): (69696, 49574, 0, 231.345),
    ("mt", 1): (131072, 0, 0, 93.341),
    ("mt", 4): (131072, 49968, 49152, 163.315),
    ("spmv", 1): (454313, 0, 0, 103.147),
    ("spmv", 4): (454313, 233217, 256, 499.911),
}

# The speed of MGPUSim in these runs, on one thread of an EPYC processor: accesses of the vector L1
# caches per CPU second, and remote reads and writes per CPU second. MGPUSim also executes the
# machine code of the kernels.
MGPUSIM_SPEED: dict[tuple[str, int], tuple[float, float]] = {
    ("atax", 1): (6957.4, 0.0),
    ("atax", 4): (2756.7, 2033.0),
    ("fir", 1): (7689.8, 0.0),
    ("fir", 4): (5028.4, 7.1),
    ("mm", 1): (5487.9, 0.0),
    ("mm", 4): (4059.2, 2887.2),
    ("mt", 1): (3548.2, 0.0),
    ("mt", 4): (1727.6, 1306.4),
    ("spmv", 1): (10952.6, 0.0),
    ("spmv", 4): (5941.1, 3053.1),
}


class Loads(msgspec.Struct, frozen=True):
    """Counts of the loads and stores of a run.

    An access is one instruction of a warp and one cache line that the instruction touches.
    """

    vector_accesses: int
    scalar_accesses: int
    local_loads: int
    remote_loads: int
    remote_hits: int
    remote_useful_bytes: int
    local_stores: int
    remote_stores: int
    requests: int
    reply_bytes: int
    wire_bytes: int
    mean_latency_s: float
    bypassed: int
    mask_hits: int
    mask_misses: int
    coalesced_packets: int
    timeout_packets: int
    coalesced_pieces: int
    cache_hits: int
    cache_misses: int
    coalesced_pages: int
    cached_pages: int
    migrated_pages: int
    migrated_again: (
        int  # pages that moved more than once, or that moved after their own GPU had accessed them
    )
    delayed_touches: int
    migration_batches: int
    remote_by_words: list[
        int
    ]  # entry i is the number of loads that need i + 1 words (of 4 bytes) of the line
    l2_loads: int
    l2_hits: int
    mean_wait_s: float  # the mean time for which a load instruction waits
    mean_in_links_s: float  # the part of mean_latency_s that requests and replies spend in links
    # The counts of TLBs are 0 unless the machine translates addresses. `tlb_...` counts accesses of
    # L1 TLBs. `l2_tlb_...` counts requests of L1 TLBs to L2 TLBs.
    tlb_hits: int
    tlb_misses: int
    l2_tlb_hits: int
    l2_tlb_misses: int
    walks: int  # walks of the page table by the host
    walk_wire_bytes: int
    mean_walk_s: float  # the mean time from the request of a walk until its answer


class Decision(msgspec.Struct, frozen=True):
    """A decision of DualOpt's decision engine: its time, and the measurements that led to it.

    `made` is false if the run ended before the engine decided.
    """

    made: bool
    choice: str  # none, coalesced, rdma-cache
    when_s: float
    accesses: int
    remote: int
    loads: int  # the number of remote accesses that the engine observed
    remote_ratio: float
    block_utilisation: float
    hit_rate: float


class LocalityRow(msgspec.Struct, frozen=True):
    """A simulated run: a program, a number of GPUs, and a treatment of remote loads."""

    program: str
    sizes: str
    gpus: int
    mechanism: str
    time_s: float
    cpu_s: float
    speedup: float | None  # the speedup over one GPU; None if one GPU was not run
    # the speedup over `direct` on the same number of GPUs; None if `direct` was not run
    over_direct: float | None
    loads: Loads
    link_bytes: float  # the bytes of all traffic between GPUs
    remote_share: float  # the fraction of the vector accesses that are remote
    used_of_line: float  # the fraction of a line that remote loads use
    hit_rate: float  # the L1 hit rate of remote loads
    locality: str
    published: str  # the program's class in DualOpt's Table 2
    decisions: list[Decision]  # one decision with dualopt, any number with dualopt-adaptive
    mgpusim: dict[str, float] | None  # the figures of the same run in MGPUSim


class MeasuredProgram(msgspec.Struct, frozen=True):
    """A measured run: a program on a number of real GPUs. Its remote loads are plain loads."""

    program: str
    sizes: str
    gpus: int
    time_s: list[float]  # seconds of each repeat
    median_s: float
    speedup: float | None  # the speedup over one GPU; None if one GPU was not measured
    max_error: float


class Locality(Head, frozen=True):
    """The content of the file of `interlace locality --json`."""

    machine: str
    pages: str | None  # the placement of pages; None means that each array has its own placement
    blocks: str
    times: int
    rows: list[LocalityRow]
    driver: str | None  # the model of the real GPUs, if they were measured
    measured_on: str | None
    measured: list[MeasuredProgram]

    @property
    def comparable(self) -> bool:
        """Return whether MGPUSim's figures are for these sizes and placements."""
        own = self.pages in (None, OWN_PAGES)
        return self.times == 1 and own and self.blocks == "contiguous"


# A case: a program, the number of GPUs, and a treatment of remote loads.
Case = tuple[unified.Problem, int, str]


def classify(
    remote_share: float, used: float, hits: float, thresholds: tuple[float, float, float]
) -> str:
    """Return the class of a program. The paper's flow chart defines the classes."""
    remote, block, hit = thresholds
    if remote_share < remote or remote_share == 0:
        return LOCAL
    return FINE if used < block and hits < hit else CACHED


def share_of(some: int, of_all: int) -> float:
    return some / of_all if of_all else 0.0


def _thresholds(machine: Machine) -> tuple[float, float, float]:
    found = machine.gpu.dualopt
    if isinstance(found, UnsetType):
        return THRESHOLDS
    return found.remote_threshold, found.block_threshold, found.hit_threshold


def _row(
    case: Case, found: dict[str, Any], one_s: float | None, direct_s: float | None,
    machine: Machine, *, comparable: bool,
) -> LocalityRow:  # fmt: skip
    it, gpus, mechanism = case
    loads = Loads(**found["loads"])
    accesses = loads.local_loads + loads.remote_loads + loads.local_stores + loads.remote_stores
    remote = loads.remote_loads + loads.remote_stores
    share = share_of(remote, accesses)
    line = machine.gpu.l1.line_bytes
    used = share_of(loads.remote_useful_bytes, line * loads.remote_loads)
    hits = share_of(loads.remote_hits, loads.remote_loads)
    printed = MGPUSIM.get((it.name, gpus)) if comparable and mechanism == DIRECT else None
    names = ("vector_accesses", "remote_reads", "remote_writes", "kernel_us")
    return LocalityRow(
        program=it.name,
        sizes=it.sizes,
        gpus=gpus,
        mechanism=mechanism,
        time_s=found["time_s"],
        cpu_s=found["cpu_s"],
        speedup=None if one_s is None else one_s / found["time_s"],
        over_direct=None if direct_s is None else direct_s / found["time_s"],
        loads=loads,
        link_bytes=found["link_bytes"],
        remote_share=share,
        used_of_line=used,
        hit_rate=hits,
        locality=classify(share, used, hits, _thresholds(machine)),
        published=PUBLISHED[it.name],
        decisions=[Decision(**decision) for decision in found["decisions"]],
        mgpusim=None if printed is None else dict(zip(names, map(float, printed), strict=True)),
    )


def _measure(
    node: CudaNode, problems: Sequence[unified.Problem], counts: Sequence[int], **placed: str
) -> list[MeasuredProgram]:
    """Run all programs on each number of real GPUs, one program at a time."""
    found: list[MeasuredProgram] = []
    with progress(f"programs on {node.machine_name}", len(problems) * len(counts)) as tick:
        for it in problems:
            alone: float | None = None
            for count in counts:
                with turn():
                    ran = unified.measure(
                        node.cuda, it, count, warmup=node.warmup, repeats=node.repeats, **placed
                    )
                median = statistics.median(ran["time_s"])
                alone = median if count == 1 else alone
                found.append(
                    MeasuredProgram(
                        program=it.name,
                        sizes=it.sizes,
                        gpus=count,
                        time_s=list(ran["time_s"]),
                        median_s=median,
                        speedup=None if alone is None else alone / median,
                        max_error=ran["max_error"],
                    )
                )
                tick()
    return found


def run(
    machine: Machine, problems: Sequence[unified.Problem], counts: Sequence[int],
    mechanisms: Sequence[str], jobs: int, *,
    times: int, pages: str | None, blocks: str,
    node: CudaNode | None, measured_counts: Sequence[int] | None,
) -> Locality:  # fmt: skip
    """Run every program on every number of GPUs with every treatment of remote loads.

    The measured runs come first. `measured_counts` are numbers of real GPUs. None means two
    numbers: one GPU and all GPUs.
    """
    core = load_core()
    made = to_core(machine, core)
    # With one GPU there are no remote loads, so one treatment is enough.
    cases = [
        (it, count, how)
        for it in problems
        for count in counts
        for how in (mechanisms if count > 1 else mechanisms[:1])
    ]
    work = [
        partial(unified.simulate, core, made, *case, pages=pages or "", blocks=blocks)
        for case in cases
    ]
    done: dict[int, dict[str, Any]] = {}
    real: list[MeasuredProgram] = []
    if node is not None:  # no simulation runs while real GPUs are measured
        here = sorted({1, node.gpus}) if measured_counts is None else measured_counts
        real = _measure(node, problems, here, pages=pages or "", blocks=blocks)
    try:
        done.update(workers.run_all(work, jobs))
    except workers.WorkerLost as lost:
        it, count, _ = cases[lost.index]
        raise RunFailure(f"{it.name} on {count} GPUs: {lost.reason}") from None
    alone = {it.name: done[i]["time_s"] for i, (it, count, _) in enumerate(cases) if count == 1}
    direct = {
        (it.name, count): done[i]["time_s"]
        for i, (it, count, how) in enumerate(cases)
        if how == DIRECT
    }
    comparable = times == 1 and pages in (None, OWN_PAGES) and blocks == "contiguous"
    return Locality(
        format=FORMAT,
        **provenance(),
        machine=machine.name,
        pages=pages,
        blocks=blocks,
        times=times,
        rows=[
            _row(
                case,
                done[i],
                alone.get(case[0].name),
                direct.get((case[0].name, case[1])),
                machine,
                comparable=comparable,
            )
            for i, case in enumerate(cases)
        ],
        driver=None if node is None else node.driver,
        measured_on=None if node is None else node.machine_name,
        measured=real,
    )
