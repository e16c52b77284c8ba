"""`interlace bench simulator`: how fast the simulator is, on one core.

Every workload runs on four GPUs with plain peer stores, the mechanism of most remote transactions,
one run after another in a process each. CPU seconds are those of the thread that simulates: the
kernels' results are computed in them as well, reading or generating the data is not. Of several
runs the fastest counts, for others on the machine only slow a run down.

Kernels are those of `reproduce finepack`, but for ALS, which solves its equations as `study` does:
few of its instructions reach memory. Its gradient steps by lane would be the fastest row of all.

Of the workloads' accesses few are remote. How many remote transactions a CPU second has where there
is nothing else, a microbenchmark says: four GPUs store 4 bytes a lane to all others, in an order
without neighbours, so that nearly each is a packet.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

import msgspec
import typer

from interlace.base import files
from interlace.base.errors import UserError
from interlace.base.native import load_core
from interlace.base.progress import progress
from interlace.cli.failures import failure_ends
from interlace.cli.shared_options import ResultsFile, count_option
from interlace.machine.machines import load_machine, to_core
from interlace.model.mechanisms import KIB
from interlace.model.options import whole
from interlace.model.results import BenchmarkHead, json_text, provenance
from interlace.model.run import Case, Outcome, core_errors
from interlace.nodes.nodes import in_processes
from interlace.reproduce.finepack import LOADED
from interlace.reproduce.finepack_inputs import (
    ITERATIONS,
    QUICK_FOUR_GPUS,
    RANK,
    SEED,
    SUBSCRIBE,
    Sizes,
)
from interlace.show import table
from interlace.workloads import Workload
from interlace.workloads.als import Als, AlsInputs

FORMAT = 1  # of the file of results
MACHINE = "4x-gv100-pcie4"
CASE = Case(4, "inline")
DEFAULT_REPEATS = 3
LONG = "pagerank"  # the workload of the long run
LONG_ACCESSES = 100_000_000
STORED = 64 * KIB  # elements of each GPU in the microbenchmark
STORED_BYTES = 4  # of an element
STORE_RUNS = 2  # of the microbenchmark: one warms caches up


def _equations(sizes: Sizes) -> Workload:
    inputs = AlsInputs(
        seed=SEED, iterations=ITERATIONS, subscribe=SUBSCRIBE, rgg=sizes.als_vertices, rank=RANK
    )
    return Als.load(inputs, None)


WORKLOADS: dict[str, Callable[[Sizes], Workload]] = {**LOADED, "als": _equations}


class Row(msgspec.Struct):
    """A workload; of several runs, the one of the fewest CPU seconds."""

    workload: str
    data: str
    iterations: int
    accesses: int  # (warp instruction, line) pairs
    remote_transactions: int  # packets of kernels' accesses to other GPUs
    cpu_s: float
    accesses_per_s: float
    remote_transactions_per_s: float
    peak_rss_mb: float  # of its process, MB = 1e6 bytes


class Stores(msgspec.Struct):
    """Stores to other GPUs alone; of several runs, the one of the fewest CPU seconds."""

    gpus: int
    elements: int  # that each GPU stores to each other one
    element_bytes: int
    remote_transactions: int
    cpu_s: float
    remote_transactions_per_s: float


class Results(BenchmarkHead):
    """A file of results."""

    machine: str
    gpus: int
    mechanism: str
    repeats: int
    accesses_per_s: float  # geometric means of the rows
    remote_transactions_per_s: float
    rows: list[Row]
    stores: Stores
    long: Row | None  # of at least so many accesses as LONG_ACCESSES


def _run(name: str, repeats: int, least_accesses: int) -> Row:
    core = load_core()
    machine = to_core(load_machine(MACHINE), core)
    workload = WORKLOADS[name](QUICK_FOUR_GPUS)
    best: Outcome | None = None
    for _ in range(repeats):
        found = workload.simulate(core, machine, CASE)
        workload.verify(found)
        if best is None or found.cpu_s < best.cpu_s:
            best = found
    assert best is not None
    if best.accesses < least_accesses:  # every iteration makes as many
        workload.iterations = -(-least_accesses * best.iterations // best.accesses) + 1
        best = workload.simulate(core, machine, CASE)
    return Row(
        workload=name,
        data=workload.data_name,
        iterations=best.iterations,
        accesses=best.accesses,
        remote_transactions=best.remote_transactions,
        cpu_s=best.cpu_s,
        accesses_per_s=best.accesses / best.cpu_s,
        remote_transactions_per_s=best.remote_transactions / best.cpu_s,
        peak_rss_mb=best.peak_rss_mb,
    )


def _store(repeats: int) -> Stores:
    core = load_core()
    machine = to_core(load_machine(MACHINE), core)
    best: Stores | None = None
    for _ in range(repeats):
        begin = time.thread_time()
        with core_errors():
            *_, packets = core.simulate_stores(
                machine, CASE.gpus, CASE.gpus, STORED_BYTES, STORED, 1
            )
        cpu_s = time.thread_time() - begin
        if best is None or cpu_s < best.cpu_s:
            count = STORE_RUNS * int(packets)
            best = Stores(CASE.gpus, STORED, STORED_BYTES, count, cpu_s, count / cpu_s)
    assert best is not None
    return best


def steps(*, long: bool) -> int:
    """How often `measure` calls `tick`."""
    return len(WORKLOADS) + 1 + long


def measure(
    repeats: int, tick: Callable[[], None], *, long: bool
) -> tuple[list[Row], Stores, Row | None]:
    """A row for each workload, stores alone, and the long run."""
    names = list(WORKLOADS)
    work: list[Callable[[], Row | Stores]] = [partial(_run, name, repeats, 0) for name in names]
    work.append(partial(_store, repeats))
    if long:
        work.append(partial(_run, LONG, 1, LONG_ACCESSES))
    found: dict[int, Row | Stores] = {}
    numbered = [partial(_numbered, index, run) for index, run in enumerate(work)]
    for index, row in in_processes(numbered, [CASE] * len(work), 1):
        found[index] = row
        tick()
    every = [found[index] for index in range(len(work))]
    rows = [row for row in every[: len(names)] if isinstance(row, Row)]
    if any(not row.remote_transactions for row in rows):
        raise UserError("a workload sends nothing on four GPUs")
    stores, last = every[len(names)], every[-1]
    assert isinstance(stores, Stores)
    return rows, stores, last if isinstance(last, Row) else None


def _numbered(index: int, run: Callable[[], Row | Stores]) -> tuple[int, Row | Stores]:
    return index, run()


def results(
    rows: list[Row], stores: Stores, long: Row | None, repeats: int, **made: Any
) -> Results:
    """The file of results."""
    return Results(
        format=FORMAT,
        benchmark="simulator",
        **made,
        machine=MACHINE,
        gpus=CASE.gpus,
        mechanism=CASE.mechanism,
        repeats=repeats,
        accesses_per_s=statistics.geometric_mean(row.accesses_per_s for row in rows),
        remote_transactions_per_s=statistics.geometric_mean(
            row.remote_transactions_per_s for row in rows
        ),
        rows=rows,
        stores=stores,
        long=long,
    )


def show(of: Results) -> None:
    """Prints the table."""
    rows = [*of.rows, *([of.long] if of.long else [])]
    names = [row.workload for row in of.rows] + (["long run"] if of.long else [])
    columns = [
        table.Column("workload", "", names, number=False),
        table.Column("accesses", "M", [f"{row.accesses / 1e6:.2f}" for row in rows]),
        table.Column("remote", "M", [f"{row.remote_transactions / 1e6:.3f}" for row in rows]),
        table.Column("CPU", "s", [f"{row.cpu_s:.2f}" for row in rows]),
        table.Column("accesses", "M/s", [f"{row.accesses_per_s / 1e6:.2f}" for row in rows]),
        table.Column(
            "remote", "M/s", [f"{row.remote_transactions_per_s / 1e6:.3f}" for row in rows]
        ),
        table.Column("peak", "MB", [f"{row.peak_rss_mb:.0f}" for row in rows]),
    ]
    head = (
        f"simulator, one core: {of.mechanism} on {of.gpus} GPUs of {of.machine}; the fastest of "
        f"{of.repeats} runs"
    )
    least = min(of.rows, key=lambda row: row.accesses_per_s)
    foot = [
        f"Geometric means: {of.accesses_per_s / 1e6:.2f} M accesses and "
        f"{of.remote_transactions_per_s / 1e6:.3f} M remote transactions a CPU second; the fewest "
        f"accesses, {least.accesses_per_s / 1e6:.2f} M, are those of {least.workload}.",
        "An access is one instruction of a warp and one line; few of these workloads' accesses are "
        "remote, and the remote transactions are counted over the CPU time of all.",
        f"Stores alone, {of.stores.element_bytes} bytes a lane and nearly each a packet: "
        f"{of.stores.remote_transactions_per_s / 1e6:.3f} M remote transactions a CPU second.",
    ]
    table.print_table(
        head, columns, [0] * len(of.rows) + [1] * (of.long is not None), [""] * len(rows), foot
    )


def simulator_command(
    repeats: Annotated[
        str | None,
        count_option("--repeats", "Runs, of which the fastest.", DEFAULT_REPEATS),
    ] = None,
    long: Annotated[bool, typer.Option("--long", help="Also a run of 10^8 accesses.")] = False,
    json_file: ResultsFile = None,
) -> None:
    """Accesses and remote transactions a CPU second of the simulator, for every workload."""
    runs = whole("--repeats", repeats, 1) or DEFAULT_REPEATS
    if json_file is not None:
        files.check_writable(json_file, "--json")
    with failure_ends(), progress("simulator", steps(long=long)) as tick:
        rows, stores, long_run = measure(runs, tick, long=long)
    found = results(rows, stores, long_run, runs, **provenance())
    texts = {} if json_file is None else {json_file: partial(json_text, found)}
    files.show_and_write(partial(show, found), texts)
