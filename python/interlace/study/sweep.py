"""`interlace sweep`: a workload over a design space of machines, resumable, on all cores."""

from __future__ import annotations

import csv
import io
import itertools
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import msgspec
import typer

from interlace.base.errors import UserError
from interlace.base.progress import progress
from interlace.cli.failures import failure_ends
from interlace.cli.shared_options import Jobs, ResultsFile, simulations_at_a_time
from interlace.model.mechanisms import BOUND, Config, label
from interlace.model.results import Head, WireRow, json_text, provenance
from interlace.model.run import Outcome, RunFailure
from interlace.nodes.clusters import Job, core_build, named, run_on_cluster, simulate
from interlace.study.design_space import (
    DesignSpace,
    Point,
    at_point,
    file_hash,
    load_design_space,
    options_text,
)
from interlace.study.evaluation import Plan
from interlace.study.sweep_file import KIND, Run, SweepFile, opened, run_key
from interlace.workloads import WORKLOADS, Workload

if TYPE_CHECKING:
    from interlace.show.table import Column

FORMAT = 1
SHOWN = 20  # points in the table


class SweepRow(msgspec.Struct, frozen=True):
    """A run of a sweep; the speedup is over one GPU of the same point."""

    point: Point
    gpus: int
    mechanism: str
    config: dict[str, Any]
    iterations: int
    time_s: float
    speedup: float
    opportunity: float | None
    captured: float | None
    max_error: float
    wire: WireRow
    accesses: int
    remote_transactions: int
    cpu_s: float


class SweepResult(Head, frozen=True, tag_field="kind", tag="interlace sweep"):
    """A file of results."""

    title: str
    machine: str
    workload: str
    data: dict[str, Any]
    axes: list[dict[str, list[Any]]]
    rows: list[SweepRow]  # by point, then as in a study


class _Work:
    """Every run of a sweep, and which of them are the same."""

    def __init__(self, space: DesignSpace, workload: Workload) -> None:
        self.space, self.workload = space, workload
        plan = Plan(space.gpus, space.mechanisms, space.tuning)
        self.cases = plan.cases(lambda _: True, workload.largest_part)
        build = core_build()
        inputs = options_text(space.inputs)
        inputs |= {
            name: file_hash(path)
            for name in space.inputs.given()
            if isinstance(path := getattr(space.inputs, name), Path)
        }
        self.keys: list[list[str]] = [
            [run_key(build, machine, space.workload, inputs, case) for case in self.cases]
            for machine in space.machines
        ]

    def missing(self, known: Mapping[str, Run]) -> dict[str, Job]:
        """What is left to run, by key."""
        points = map(at_point, self.space.points())
        return {
            key: Job(machine, case, point)
            for point, machine, keys in zip(points, self.space.machines, self.keys, strict=True)
            for key, case in zip(keys, self.cases, strict=True)
            if key not in known
        }

    def rows(self, known: Mapping[str, Run]) -> list[SweepRow]:
        """All rows, from runs that are known."""
        return [
            row
            for point, keys in zip(self.space.points(), self.keys, strict=True)
            for row in self._rows(point, [known[key] for key in keys])
        ]

    def _rows(self, point: Point, runs: list[Run]) -> Iterator[SweepRow]:
        single = runs[0].time_s
        bounds = {
            case.gpus: single / run.time_s
            for case, run in zip(self.cases, runs, strict=True)
            if case.mechanism == BOUND
        }
        for case, run in zip(self.cases, runs, strict=True):
            opportunity = 1.0 if case.gpus == 1 else bounds.get(case.gpus)
            speedup = single / run.time_s
            yield SweepRow(
                point=point,
                gpus=case.gpus,
                mechanism=case.mechanism,
                config=dict(case.config.given()),
                iterations=run.iterations,
                time_s=run.time_s,
                speedup=speedup,
                opportunity=opportunity,
                captured=None if opportunity is None else speedup / opportunity,
                max_error=run.max_error,
                wire=run.wire,
                accesses=run.accesses,
                remote_transactions=run.remote_transactions,
                cpu_s=run.cpu_s,
            )


def _in_processes(
    workload: Workload, work: Sequence[Job], jobs: int
) -> Iterator[tuple[int, Outcome]]:
    from interlace.base import workers

    calls = [partial(simulate, workload, job) for job in work]
    try:
        yield from workers.run_all(calls, jobs)
    except workers.WorkerLost as lost:
        job = work[lost.index]
        raise RunFailure(f"{job.case}{job.point}: {lost.reason}") from None


def run_missing(
    workload: Workload,
    missing: Mapping[str, Job],
    file: SweepFile,
    outcomes: Iterator[tuple[int, Outcome]],
    tick: Callable[[], None],
) -> None:
    """Verify every outcome and add it to the file as it comes."""
    keys = list(missing)
    for index, outcome in outcomes:
        with named(missing[keys[index]]):
            error = workload.verify(outcome)
        file.add(
            Run(
                KIND,
                keys[index],
                outcome.iterations,
                outcome.time_s,
                WireRow(*outcome.wire),
                outcome.accesses,
                outcome.remote_transactions,
                outcome.cpu_s,
                error,
            )
        )
        tick()


# --- output ---------------------------------------------------------------------------------------


def _best(rows: Sequence[SweepRow]) -> SweepRow:
    """The fastest on the most GPUs, the bound aside unless nothing else was run."""
    most = max(row.gpus for row in rows)
    mechanisms = [row for row in rows if row.gpus == most and row.mechanism != BOUND]
    return min(mechanisms or [row for row in rows if row.gpus == most], key=lambda r: r.time_s)


def _columns(rows: Sequence[SweepRow]) -> list[Column]:
    from interlace.show import table

    time, unit = table.scale((row.time_s for row in rows), table.SECONDS)
    names = [label(row.mechanism, Config.of(row.config), short=True) for row in rows]
    found = [
        table.Column("fastest", "mechanism", names, number=False),
        table.Column("time", unit, table.fixed([row.time_s / time for row in rows])),
        table.Column("speedup", "x", [f"{row.speedup:.2f}" for row in rows]),
    ]
    if any(row.captured is not None for row in rows if row.gpus > 1):
        cells = [table.percent(row.captured) for row in rows]
        found.append(table.Column("captured", "%", cells))
    return found


def _point_columns(keys: Sequence[str], rows: Sequence[SweepRow]) -> list[Column]:
    from interlace.show import table

    return [
        table.Column(
            key.rpartition(".")[0], key.rpartition(".")[2], [f"{row.point[key]}" for row in rows]
        )
        for key in keys
    ]


def _by_point(rows: Sequence[SweepRow]) -> list[SweepRow]:
    """The fastest run of each point, the fastest point first."""
    groups = itertools.groupby(rows, key=lambda row: row.point)
    return sorted((_best(list(group)) for _, group in groups), key=lambda row: row.time_s)


class _AxisValue(NamedTuple):
    """The runs on the most GPUs of all points that have a value of a key."""

    key: str
    value: Any
    rows: list[SweepRow]

    def mean_s(self, mechanism: str) -> float:
        """Geometric mean over the points of the mechanism's fastest time."""
        own = [row for row in self.rows if row.mechanism == mechanism]
        points = itertools.groupby(own, key=lambda row: row.point)
        return statistics.geometric_mean(min(r.time_s for r in group) for _, group in points)


def _by_axis(keys: Sequence[str], rows: Sequence[SweepRow]) -> list[_AxisValue]:
    """Each value of each key."""
    most = max(row.gpus for row in rows)
    return [
        _AxisValue(
            key, value, [row for row in rows if row.gpus == most and row.point[key] == value]
        )
        for key in keys
        for value in sorted({row.point[key] for row in rows}, key=_order)
    ]


def _order(value: Any) -> tuple[bool, Any]:
    return (True, value) if isinstance(value, str) else (False, value)


def print_sweep(result: SweepResult) -> None:
    """Print the best of each axis, and the points, the fastest first."""
    from interlace.show import table

    keys = list(result.rows[0].point)
    points = _by_point(result.rows)
    print(
        f"{result.workload}, {result.data['name']} ({result.data['size']}); "
        f"{len(points)} machines from {result.machine}, {len(result.rows)} runs, simulated"
    )
    axis = _by_axis(keys, result.rows)
    groups = [keys.index(one.key) for one in axis]
    names = [
        table.Column("key", "", [one.key for one in axis], number=False),
        table.Column("value", "", [str(one.value) for one in axis]),
    ]
    gpus = max(row.gpus for row in result.rows)
    print(f"\nThe fastest on {gpus} GPU{'s' if gpus > 1 else ''} with each value:\n")
    print(table.plain([*names, *_columns([_best(one.rows) for one in axis])], groups))
    means = {
        mechanism: [one.mean_s(mechanism) for one in axis]
        for mechanism in dict.fromkeys(row.mechanism for row in axis[0].rows)
    }
    size, unit = table.scale(itertools.chain.from_iterable(means.values()), table.SECONDS)
    print("\nTimes by mechanism, the geometric mean over the points with each value:\n")
    columns = [
        table.Column(mechanism, unit, table.fixed([mean / size for mean in values]))
        for mechanism, values in means.items()
    ]
    print(table.plain([*names, *columns], groups))
    shown = points[:SHOWN]
    print("\nThe points, the fastest first:\n")
    print(table.plain([*_point_columns(keys, shown), *_columns(shown)]))
    if len(points) > len(shown):
        print(f"and {len(points) - len(shown)} more, in the files of --json and --csv.")
    for line in table.legend(row.mechanism for row in points):
        print(line)
    worst = max(row.max_error for row in result.rows)
    print(f"\nAll runs verified; the largest relative error is {worst:.1e}.")


def csv_text(result: SweepResult) -> str:
    """Every run as a line, with a column for each axis."""
    keys = list(result.rows[0].point)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    plain = (
        "iterations", "time_s", "speedup", "opportunity", "captured", "max_error", "accesses",
        "remote_transactions", "cpu_s",
    )  # fmt: skip
    wire = ("useful", "protocol", "wasted")
    config = Config._fields
    writer.writerow(
        [*keys, "gpus", "mechanism", *config, *plain, *(f"{kind}_bytes" for kind in wire)]
    )
    for row in result.rows:
        values = [
            *(row.point[key] for key in keys),
            row.gpus,
            row.mechanism,
            *(row.config.get(name) for name in config),
            *(getattr(row, name) for name in plain),
            *(getattr(row.wire, kind) for kind in wire),
        ]
        writer.writerow(["" if value is None else value for value in values])
    return text.getvalue()


# --- the command ----------------------------------------------------------------------------------


def sweep_command(
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE.toml", help="The design space.")
    ] = None,
    runs_file: Annotated[
        Path | None,
        typer.Option(
            "--runs",
            metavar="FILE",
            help="Keep finished runs here, and do not repeat those that are there.  "
            "[default: FILE.runs.jsonl in this folder]",
        ),
    ] = None,
    jobs: Jobs = None,
    scheduler: Annotated[
        str | None,
        typer.Option(
            "--scheduler",
            metavar="ADDRESS",
            help="Run on the workers of this Dask scheduler, such as tcp://10.0.0.1:8786.",
        ),
    ] = None,
    json_file: ResultsFile = None,
    csv_file: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="Write a line for each run.")
    ] = None,
) -> None:
    """Run a workload on every machine of a design space.

    Finished runs are kept: the same command goes on where it was stopped, and after a change of the
    file runs only what changed.
    """
    from interlace.base import files

    if file is None:
        raise UserError("sweep needs a file that describes the design space, FILE.toml")
    at_once = simulations_at_a_time(jobs)
    if scheduler is not None and jobs is not None:
        raise UserError("--jobs and --scheduler exclude each other; leave one out")
    space = load_design_space(file)
    runs_path = runs_file or Path(f"{file.stem}.runs.jsonl")
    outputs = {"--json": json_file, "--csv": csv_file, "--runs": runs_path}
    files.check_outputs(outputs, {"FILE": file})

    with failure_ends():
        workload = WORKLOADS[space.workload].load(space.inputs, None)
        with opened(runs_path) as kept:
            result = _run(space, workload, kept, at_once, scheduler)
    texts: dict[Path, Callable[[], str]] = {}
    if json_file is not None:
        texts[json_file] = partial(json_text, result)
    if csv_file is not None:
        texts[csv_file] = partial(csv_text, result)
    files.show_and_write(partial(print_sweep, result), texts)


def _run(
    space: DesignSpace, workload: Workload, kept: SweepFile, jobs: int, scheduler: str | None
) -> SweepResult:
    work = _Work(space, workload)
    missing = work.missing(kept.runs)
    every = len(set(itertools.chain.from_iterable(work.keys)))
    if len(missing) < every:
        typer.echo(f"{every - len(missing)} of {every} runs are in {kept.path}.", err=True)
    try:
        if missing:
            todo = list(missing.values())
            if scheduler is None:
                outcomes = _in_processes(workload, todo, jobs)
            else:
                outcomes = run_on_cluster(scheduler, workload, todo)
            with progress(f"{space.workload}, {len(space.machines)} machines", len(todo)) as tick:
                run_missing(workload, missing, kept, outcomes, tick)
    except BaseException:
        done = every - len(work.missing(kept.runs))
        if done:
            typer.echo(
                f"interlace: {done} of {every} runs are in {kept.path}; the same command goes on",
                err=True,
            )
        raise
    return SweepResult(
        format=FORMAT,
        **provenance(),
        title=space.title,
        machine=space.base.name,
        workload=space.workload,
        data=workload.facts(),
        axes=[
            {key: [step[index] for step in axis.values] for index, key in enumerate(axis.keys)}
            for axis in space.axes
        ],
        rows=work.rows(kept.runs),
    )
