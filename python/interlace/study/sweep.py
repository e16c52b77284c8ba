"""A sweep runs a workload on every machine of a design space, on all cores, and can resume."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from interlace.base.files import file_hash
from interlace.base.progress import progress
from interlace.model.mechanisms import BOUND
from interlace.model.results import Head, WireRow, provenance
from interlace.model.run import Outcome, RunFailure
from interlace.nodes.clusters import Job, core_build, named, run_on_cluster, simulate
from interlace.study.design_space import DesignSpace, Point, at_point, options_text
from interlace.study.evaluation import Plan
from interlace.study.sweep_file import KIND, Run, SweepFile, opened, run_key
from interlace.workloads import WORKLOADS, Workload

if TYPE_CHECKING:
    pass

FORMAT = 1


class SweepRow(msgspec.Struct, frozen=True):
    """A run of a sweep. `speedup` is the speedup over one GPU at the same point."""

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
    """The content of a results file of `interlace sweep`."""

    title: str
    machine: str
    workload: str
    data: dict[str, Any]
    axes: list[dict[str, list[Any]]]
    rows: list[SweepRow]  # sorted by point; within a point, in the order of a study


class _Work:
    """All runs of a sweep. If several rows need one run, the run is made once."""

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

    def forget_wrong(self, known: dict[str, Run]) -> None:
        """Remove runs that no sweep can have written, such as runs that a person has edited."""
        for key in known.keys() & set(itertools.chain.from_iterable(self.keys)):
            if not self.workload.accepts(known[key].max_error, known[key].iterations):
                del known[key]

    def missing(self, known: Mapping[str, Run]) -> dict[str, Job]:
        """Return the runs that are not yet known, by key."""
        points = map(at_point, self.space.points())
        return {
            key: Job(machine, case, point)
            for point, machine, keys in zip(points, self.space.machines, self.keys, strict=True)
            for key, case in zip(keys, self.cases, strict=True)
            if key not in known
        }

    def rows(self, known: Mapping[str, Run]) -> list[SweepRow]:
        """Return all rows whose runs are known."""
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
    """Make the missing runs. Verify each outcome when it arrives, and add it to the file."""
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


def run_sweep(
    space: DesignSpace, runs: Path, jobs: int, scheduler: str | None, say: Callable[[str], None]
) -> SweepResult:
    """Make the runs that the file does not have, on this computer or on a cluster.

    `say` receives remarks.
    """
    workload = WORKLOADS[space.workload].load(space.inputs, None)
    with opened(runs) as kept:
        return _run(space, workload, kept, jobs, scheduler, say)


def _run(
    space: DesignSpace, workload: Workload, kept: SweepFile, jobs: int, scheduler: str | None,
    say: Callable[[str], None],
) -> SweepResult:  # fmt: skip
    work = _Work(space, workload)
    if kept.note is not None:
        say(kept.note)
    work.forget_wrong(kept.runs)
    missing = work.missing(kept.runs)
    every = len(set(itertools.chain.from_iterable(work.keys)))
    if len(missing) < every:
        say(f"{every - len(missing)} of {every} runs are in {kept.path}.")
    try:
        if missing:
            todo = list(missing.values())
            if scheduler is None:
                outcomes = _in_processes(workload, todo, jobs)
            else:
                outcomes = run_on_cluster(scheduler, workload, todo, say)
            with progress(f"{space.workload}, {len(space.machines)} machines", len(todo)) as tick:
                run_missing(workload, missing, kept, outcomes, tick)
    except BaseException:
        done = every - len(work.missing(kept.runs))
        if done:
            say(
                f"interlace: {done} of {every} runs are in {kept.path}; give the same command "
                "again to continue the sweep"
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
