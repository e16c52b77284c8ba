"""Measures the speed of the simulator on one core or on several cores.

Each workload runs on four GPUs with plain peer stores (`inline`). This mechanism has the most
remote transactions. Each run has its own process, and no two runs overlap. CPU seconds are the sum
over all threads of the simulation. They include the computation of the kernels' results, but not
the time for reading or generating the data. The result is the fastest of several runs, because
other work on the machine can only slow runs down.

Few accesses of these workloads are remote. A microbenchmark therefore measures remote transactions
alone: on four GPUs, each lane stores 4 bytes to all other GPUs. The addresses of consecutive stores
are not adjacent, so nearly every store is a packet of its own.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import msgspec

from interlace.base.errors import UserError
from interlace.base.native import load_core
from interlace.base.progress import progress
from interlace.machine.compiled import to_core
from interlace.machine.reading import load_machine
from interlace.model.mechanism_table import INLINE
from interlace.model.mechanisms import KIB
from interlace.model.results import BenchmarkHead, provenance
from interlace.model.run import Case, Outcome, core_errors
from interlace.nodes.nodes import in_processes
from interlace.workloads import Workload

FORMAT = 1  # the format version of results files
MACHINE = "4x-gv100-pcie4"
CASE = Case(4, INLINE)
LONG = "pagerank"  # the workload of the long run
LONG_ACCESSES = 100_000_000
STORED = 64 * KIB  # the number of elements of each GPU in the microbenchmark
STORED_BYTES = 4  # the bytes of an element
STORE_RUNS = 2  # the number of epochs of the microbenchmark; the first warms up caches


# Maps a name to a function that loads the workload. The process that runs the workload calls it.
Workloads = Mapping[str, Callable[[], Workload]]


class SpeedRow(msgspec.Struct):
    """The figures of a workload.

    The figures come from the fastest run. With one thread, the fastest run is the run with the
    fewest CPU seconds.
    """

    workload: str
    data: str
    iterations: int
    accesses: int  # pairs of a warp instruction and a cache line
    remote_transactions: int  # packets that carry kernels' accesses to other GPUs
    cpu_s: float
    seconds: float
    accesses_per_s: float  # accesses per CPU second
    remote_transactions_per_s: float
    peak_rss_mb: float  # the peak memory of the row's process; 1 MB is 1e6 bytes


class StoresAlone(msgspec.Struct):
    """The figures of the microbenchmark, which only stores to other GPUs.

    The figures come from the run with the fewest CPU seconds.
    """

    gpus: int
    elements: int  # the number of stores from each GPU to every other GPU
    element_bytes: int
    remote_transactions: int
    cpu_s: float
    remote_transactions_per_s: float


class SpeedResults(BenchmarkHead):
    """The content of a results file of `interlace bench simulator`."""

    machine: str
    gpus: int
    mechanism: str
    repeats: int
    threads: int  # the threads of each simulation
    accesses_per_s: float  # the geometric mean over the rows
    remote_transactions_per_s: float
    rows: list[SpeedRow]
    stores: StoresAlone
    long: SpeedRow | None  # the run with at least LONG_ACCESSES accesses, if it was requested


def _run(
    name: str, load: Callable[[], Workload], repeats: int, least_accesses: int, threads: int
) -> SpeedRow:
    core = load_core()
    machine = to_core(load_machine(MACHINE), core)
    workload = load()
    best: Outcome | None = None
    seconds = 0.0
    for _ in range(repeats):
        began = time.perf_counter()
        found = workload.simulate(core, machine, CASE, threads=threads)
        took = time.perf_counter() - began
        workload.verify(found)
        faster = found.cpu_s < best.cpu_s if best and threads == 1 else took < seconds
        if best is None or faster:
            best, seconds = found, took
    assert best is not None
    if best.accesses < least_accesses:  # every iteration has the same number of accesses
        workload.iterations = -(-least_accesses * best.iterations // best.accesses) + 1
        began = time.perf_counter()
        best = workload.simulate(core, machine, CASE, threads=threads)
        seconds = time.perf_counter() - began
    return SpeedRow(
        workload=name,
        data=workload.data_name,
        iterations=best.iterations,
        accesses=best.accesses,
        remote_transactions=best.remote_transactions,
        cpu_s=best.cpu_s,
        seconds=seconds,
        accesses_per_s=best.accesses / best.cpu_s,
        remote_transactions_per_s=best.remote_transactions / best.cpu_s,
        peak_rss_mb=best.peak_rss_mb,
    )


def _store(repeats: int) -> StoresAlone:
    core = load_core()
    machine = to_core(load_machine(MACHINE), core)
    best: StoresAlone | None = None
    for _ in range(repeats):
        begin = time.thread_time()
        with core_errors():
            *_, packets = core.simulate_stores(
                machine, CASE.gpus, CASE.gpus, STORED_BYTES, STORED, 1, 0, 0
            )
        cpu_s = time.thread_time() - begin
        if best is None or cpu_s < best.cpu_s:
            count = STORE_RUNS * int(packets)
            best = StoresAlone(CASE.gpus, STORED, STORED_BYTES, count, cpu_s, count / cpu_s)
    assert best is not None
    return best


def steps(workloads: Workloads, *, long: bool) -> int:
    """Return how many times `measure` calls `tick`."""
    return len(workloads) + 1 + long


def measure(
    workloads: Workloads, repeats: int, tick: Callable[[], None], threads: int, *, long: bool
) -> tuple[list[SpeedRow], StoresAlone, SpeedRow | None]:
    """Return a row for each workload, the figures of stores alone, and the long run."""
    names = list(workloads)
    work: list[Callable[[], SpeedRow | StoresAlone]] = [
        partial(_run, name, load, repeats, 0, threads) for name, load in workloads.items()
    ]
    work.append(partial(_store, repeats))
    if long:
        work.append(partial(_run, LONG, workloads[LONG], 1, LONG_ACCESSES, threads))
    found: dict[int, SpeedRow | StoresAlone] = {}
    numbered = [partial(_numbered, index, run) for index, run in enumerate(work)]
    for index, row in in_processes(numbered, [CASE] * len(work), 1):
        found[index] = row
        tick()
    every = [found[index] for index in range(len(work))]
    rows = [row for row in every[: len(names)] if isinstance(row, SpeedRow)]
    if any(not row.remote_transactions for row in rows):
        raise UserError("one of the workloads sends nothing on four GPUs; leave it out")
    stores, last = every[len(names)], every[-1]
    assert isinstance(stores, StoresAlone)
    return rows, stores, last if isinstance(last, SpeedRow) else None


def _numbered(
    index: int, run: Callable[[], SpeedRow | StoresAlone]
) -> tuple[int, SpeedRow | StoresAlone]:
    return index, run()


def results(
    rows: list[SpeedRow],
    stores: StoresAlone,
    long: SpeedRow | None,
    repeats: int,
    threads: int,
    **made: Any,
) -> SpeedResults:
    """Return the content of the results file."""
    return SpeedResults(
        format=FORMAT,
        benchmark="simulator",
        **made,
        machine=MACHINE,
        gpus=CASE.gpus,
        mechanism=CASE.mechanism,
        repeats=repeats,
        threads=threads,
        accesses_per_s=statistics.geometric_mean(row.accesses_per_s for row in rows),
        remote_transactions_per_s=statistics.geometric_mean(
            row.remote_transactions_per_s for row in rows
        ),
        rows=rows,
        stores=stores,
        long=long,
    )


def run(workloads: Workloads, repeats: int, threads: int, *, long: bool) -> SpeedResults:
    """Measure all workloads, with a progress bar."""
    with progress("simulator", steps(workloads, long=long)) as tick:
        rows, stores, long_run = measure(workloads, repeats, tick, threads, long=long)
    return results(rows, stores, long_run, repeats, threads, **provenance())
