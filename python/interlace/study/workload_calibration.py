"""Compares simulated and measured times of workloads on one GPU.

Both times are times of a warm iteration. The measured time is the difference of two runs with
different numbers of iterations, divided by the difference of these numbers, so it does not include
the launch of a graph. Both runs follow warm-ups. A simulated run simulates four iterations, and its
later iterations repeat the last two of these. The simulated time is the mean of the last two
simulated iterations. Both nodes choose the size of blocks by the number of threads that the GPU
holds. We chose the sizes of the data by the bytes that an iteration touches, before we compared any
times.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from interlace.base.errors import UserError
from interlace.base.native import load_core
from interlace.base.progress import progress
from interlace.machine.compiled import to_core
from interlace.machine.schema import Machine
from interlace.model.mechanisms import BASELINE
from interlace.model.results import Head, provenance
from interlace.model.run import Case, Outcome, RunFailure
from interlace.nodes.nodes import CudaNode, in_processes, real_node
from interlace.study.measured_file import Origin, origin, read_measured_file
from interlace.workloads import WORKLOADS, Workload, inputs_of

FORMAT = 1  # the format version of results files
MORE, FEWER = 12, 4  # the numbers of iterations of the two measured runs
SIMULATED = 5  # the iterations of a simulated run; only the first four are simulated
WARMUP = 2
REPEATS = 5
CASE = Case(1, BASELINE)
METHOD = (
    f"median of {REPEATS} runs after {WARMUP} warm-up runs; a warm iteration is the difference of "
    f"runs with {MORE} and {FEWER} iterations, divided by {MORE - FEWER}"
)

SMALL, MEDIUM, LARGE = "small", "medium", "large"
# The options of each workload at each size. Small data fit in an L2 cache of 50 to 60 MB. Medium
# data are about twice as large as the L2. Large data are the largest that a core can simulate in
# one or two minutes. For als and ct, the largest data are smaller than twice the L2. We therefore
# chose the sizes of als and ct by time.
SIZES: dict[str, dict[str, dict[str, Any]]] = {
    "pagerank": {SMALL: {"rmat": 17}, MEDIUM: {"rmat": 20}, LARGE: {"rmat": 21}},
    "sssp": {SMALL: {"rmat": 17}, MEDIUM: {"rmat": 19}, LARGE: {"rmat": 20}},
    "jacobi": {SMALL: {"rows": 1 << 18}, MEDIUM: {"rows": 3 << 19}, LARGE: {"rows": 1 << 23}},
    "als": {
        SMALL: {"users": 8192, "items": 2048, "ratings": 1 << 17},
        MEDIUM: {"users": 32768, "items": 8192, "ratings": 1 << 19},
        LARGE: {"users": 131072, "items": 32768, "ratings": 1 << 21},
    },
    "ct": {
        SMALL: {"size": 256, "angles": 128},
        MEDIUM: {"size": 512, "angles": 128},
        LARGE: {"size": 768, "angles": 128},
    },
    "diffusion": {SMALL: {"size": 128}, MEDIUM: {"size": 240}, LARGE: {"size": 256}},
    "eqwp": {SMALL: {"size": 64}, MEDIUM: {"size": 96}, LARGE: {"size": 160}},
    "hit": {SMALL: {"size": 64}, MEDIUM: {"size": 128}, LARGE: {"size": 160}},
}


class Key(NamedTuple):
    """A workload at one size."""

    workload: str
    size: str

    def __str__(self) -> str:
        return f"{self.workload}, {self.size}"


KEYS = tuple(Key(workload, size) for workload, sizes in SIZES.items() for size in sizes)


class MeasuredWorkload(msgspec.Struct, forbid_unknown_fields=True):
    """The measured time of a warm iteration of a workload at one size."""

    workload: str
    size: str
    iteration_s: float

    @property
    def key(self) -> Key:
        """Return the names of the workload and of its size."""
        return Key(self.workload, self.size)


class MeasuredWorkloads(Origin, forbid_unknown_fields=True, kw_only=True):
    """The content of a file of measured workloads."""

    benchmark: str
    rows: list[MeasuredWorkload]


class WorkloadRow(msgspec.Struct):
    """The simulated and the measured time of a warm iteration of a workload at one size.

    The row also says how the simulated time is spent.
    """

    workload: str
    size: str
    data: str
    options: dict[str, Any]
    measured_s: float
    simulated_s: float
    ratio: float  # the simulated time divided by the measured time
    kernel: float  # the share of the simulated time in which a kernel or a library call runs
    idle: float  # the share of the simulated time that launches and exchanges take
    issue: float  # the share of the issue slots that are used
    memory: float  # the share of the memory's bandwidth that is used
    accesses: int  # the number of accesses in the simulated iterations
    cpu_s: float  # the CPU seconds that the simulation took


class NotCompared(msgspec.Struct):
    """A workload at one size that has no row, and the reason."""

    workload: str
    size: str
    reason: str


class WorkloadCalibration(Head, frozen=True):
    """The content of a results file of `interlace calibrate --workloads`."""

    machine: str
    measured: dict[str, str]  # facts about the origin of the measured times
    mean_error: float  # the mean of the absolute values of the errors
    worst_error: float
    ratio: float  # the geometric mean of the ratios of all rows
    rows: list[WorkloadRow]
    not_compared: list[NotCompared]


def load(key: Key, cuda: Any | None = None) -> Workload:
    """Make or read the data of a workload, on the GPU if `cuda` is given."""
    given = {**SIZES[key.workload][key.size], "iterations": SIMULATED}
    return WORKLOADS[key.workload].load(inputs_of(key.workload, given), cuda)


# --- the measured column --------------------------------------------------------------------------


def read_measured(path: Path) -> MeasuredWorkloads:
    """Return the rows of a file. Raise UserError if the file is not a file of measured
    workloads.
    """
    return read_measured_file(
        path,
        MeasuredWorkloads,
        "measured workloads",
        KEYS,
        lambda row: (row.key, row.iteration_s, "the time of row"),
    )


def measure(node: CudaNode, workload: Workload) -> tuple[float, Outcome]:
    """Return the time of a warm iteration, and the unverified outcome of the shorter run."""
    few, many = (
        workload.measure(node.cuda, CASE, WARMUP, REPEATS, count) for count in (FEWER, MORE)
    )
    many.forget_values()
    iteration_s = (many.time_s - few.time_s) / (MORE - FEWER)
    if not iteration_s > 0:
        raise RunFailure(f"{MORE} iterations took no longer than {FEWER} iterations")
    return iteration_s, few


def measure_here(jobs: int) -> tuple[MeasuredWorkloads, dict[Key, str]]:
    """Measure all rows on this computer's first GPU. Also return why rows are missing.

    After the last measurement, the results are verified in other processes.
    """
    node = real_node(WARMUP, REPEATS, hint="give a file of measured workloads with --measured FILE")
    rows: dict[Key, MeasuredWorkload] = {}
    reasons: dict[Key, str] = {}
    checks: list[Callable[[], tuple[Key, str | None]]] = []
    with progress(f"workloads on {node.info['name']}", len(KEYS), "rows") as tick:
        for key in KEYS:
            try:
                workload = load(key, node.cuda)
                iteration_s, outcome = measure(node, workload)
                rows[key] = MeasuredWorkload(*key, iteration_s)
                checks.append(partial(_verified, key, workload, outcome))
            except (UserError, RunFailure) as failure:
                reasons[key] = f"failed: {failure}"
            tick()
    for key, wrong in in_processes(checks, list(rows), jobs):
        if wrong is not None:
            del rows[key]
            reasons[key] = f"failed: {wrong}"
    if not rows:
        raise UserError(f"no workload can be measured here: {next(iter(reasons.values()))}")
    measured = MeasuredWorkloads(
        **origin(),
        benchmark="workloads",
        machine=str(node.info["name"]),
        driver=str(node.info["driver"]),
        cuda=str(node.info["cuda"]),
        method=METHOD,
        rows=list(rows.values()),
    )
    return measured, reasons


def _verified(key: Key, workload: Workload, outcome: Outcome) -> tuple[Key, str | None]:
    """Return the key, and the reason if the result is wrong."""
    try:
        workload.verify(outcome)
    except RunFailure as failure:
        return key, str(failure)
    return key, None


# --- the simulated column -------------------------------------------------------------------------


def _simulated(machine: Machine, row: MeasuredWorkload) -> WorkloadRow | NotCompared:
    core = load_core()
    workload = load(row.key)
    found = workload.simulate(core, to_core(machine, core), CASE, whole=False, cut_like_gpus=True)
    workload.verify(found)
    if not found.warm_iteration_s:
        return NotCompared(*row.key, "its iterations have different amounts of work")
    assert found.inside is not None
    gpu = found.inside.gpus[0]
    return WorkloadRow(
        workload=row.workload,
        size=row.size,
        data=f"{workload.data_name} ({workload.size})",
        options=dict(SIZES[row.workload][row.size]),
        measured_s=row.iteration_s,
        simulated_s=found.warm_iteration_s,
        ratio=found.warm_iteration_s / row.iteration_s,
        kernel=gpu.kernel,
        idle=gpu.idle,
        issue=gpu.issue,
        memory=gpu.memory,
        accesses=found.accesses,
        cpu_s=found.cpu_s,
    )


def compare(
    machine: Machine,
    given: MeasuredWorkloads,
    reasons: Mapping[Key, str],
    jobs: int,
) -> WorkloadCalibration:
    """Simulate each measured row, and compare the simulated time with the measured time.

    `reasons` says why rows were not measured.
    """
    # The longest simulations start first, so that no long simulation runs alone at the end.
    order = sorted(given.rows, key=lambda row: -list(SIZES[row.workload]).index(row.size))
    work: list[Callable[[], WorkloadRow | NotCompared]] = [
        partial(_simulated, machine, row) for row in order
    ]
    found: dict[Key, WorkloadRow | NotCompared] = {}
    with progress(f"workloads on {machine.name}", len(work), "rows") as tick:
        for made in in_processes(work, [str(row.key) for row in order], jobs):
            found[Key(made.workload, made.size)] = made
            tick()
    rows = [row for key in KEYS if isinstance(row := found.get(key), WorkloadRow)]
    if not rows:
        raise RunFailure("no workload could be compared")
    return _results(machine, given, rows, [_missing(key, found, reasons) for key in KEYS])


def _missing(
    key: Key, found: Mapping[Key, WorkloadRow | NotCompared], reasons: Mapping[Key, str]
) -> NotCompared | None:
    row = found.get(key)
    if isinstance(row, WorkloadRow):
        return None
    return row or NotCompared(*key, reasons.get(key, "not measured"))


def _results(
    machine: Machine,
    given: MeasuredWorkloads,
    rows: Sequence[WorkloadRow],
    missing: Sequence[NotCompared | None],
) -> WorkloadCalibration:
    errors = [abs(row.ratio - 1) for row in rows]
    return WorkloadCalibration(
        format=FORMAT,
        **provenance(),
        machine=machine.name,
        measured=given.described(),
        mean_error=statistics.fmean(errors),
        worst_error=max(errors),
        ratio=statistics.geometric_mean(row.ratio for row in rows),
        rows=list(rows),
        not_compared=[it for it in missing if it is not None],
    )
