"""Runs a paper's programs, verifies the results, and keeps the times for the paper's figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from interlace.machine.compiled import to_core
from interlace.machine.reading import load_machine
from interlace.machine.schema import Machine
from interlace.model.mechanisms import BASELINE
from interlace.model.run import Case, Outcome
from interlace.nodes.nodes import CudaNode, in_processes, threads_of
from interlace.reproduce.rows import Run
from interlace.workloads import Workload

Found = TypeVar("Found")


class Results:
    """The outcomes of one workload on one machine, by case, without the values of the results."""

    def __init__(self) -> None:
        self.outcomes: dict[Case, Outcome] = {}

    def time(self, case: Case) -> float:
        """Return the time of a run in seconds."""
        return self.outcomes[case].time_s

    def speedup(self, case: Case) -> float:
        """Return the speedup over the single GPU of the same machine."""
        return self.time(Case(1, BASELINE)) / self.time(case)

    def fastest(self, gpus: int, mechanisms: Sequence[str]) -> Case:
        """Return the fastest case of these mechanisms."""
        of_them = [c for c in self.outcomes if c.gpus == gpus and c.mechanism in mechanisms]
        return min(of_them, key=lambda case: (self.time(case), case.mechanism, case.config))


class Runner:
    """Runs cases, and remembers all runs. At most `jobs` simulations run at a time."""

    def __init__(self, core: Any, jobs: int, tick: Callable[[], None]) -> None:
        self.core = core
        self.jobs = jobs
        self.tick = tick
        self.runs: list[Run] = []
        self.described: dict[str, Machine] = {}  # machines that have no file, by name

    def map(self, work: Sequence[Callable[[], Found]], names: Sequence[object]) -> list[Found]:
        """Return the result of each piece of work, in the order of `work`. Each piece has its own
        process.
        """

        def numbered(index: int, call: Callable[[], Found]) -> tuple[int, Found]:
            return index, call()

        found: dict[int, Found] = {}
        jobs = [partial(numbered, index, call) for index, call in enumerate(work)]
        for index, value in in_processes(jobs, names, self.jobs):
            found[index] = value
            self.tick()
        return [found[index] for index in range(len(work))]

    def simulate(
        self, workload: Workload, machines: Sequence[str], cases: Sequence[Case],
        results: dict[str, Results], *, only: str | None = None,
    ) -> None:  # fmt: skip
        """Run each case on each machine, and keep the outcomes."""
        chosen = [name for name in machines if only in (None, name)]
        self.simulate_each([(workload, name, case, results) for case in cases for name in chosen])

    def simulate_each(self, runs: Sequence[tuple[Workload, str, Case, dict[str, Results]]]) -> None:
        """Run cases of any workloads and machines.

        Each run has a dictionary of results, to which the outcome of the run is added.
        """
        described = {
            name: to_core(self.described.get(name) or load_machine(name), self.core)
            for _, name, _, _ in runs
        }

        def run(index: int, workload: Workload, name: str, case: Case) -> tuple[int, Outcome]:
            threads = threads_of(case, self.jobs, len(runs))
            return index, workload.simulate(self.core, described[name], case, threads=threads)

        work = [partial(run, index, *one[:3]) for index, one in enumerate(runs)]
        done: dict[int, Outcome] = {}
        for index, outcome in in_processes(work, [case for _, _, case, _ in runs], self.jobs):
            workload, name, _, _ = runs[index]
            done[index] = self._kept(workload, "sim", name, outcome, workload.verify(outcome))
            self.tick()
        for index, (_, name, case, results) in enumerate(runs):
            results.setdefault(name, Results()).outcomes[case] = done[index]

    def measure(self, workload: Workload, node: CudaNode, cases: Sequence[Case]) -> Results:
        """Run each case on the GPUs of this computer, one after another."""
        results = Results()
        for outcome in node.outcomes(workload, cases):
            error = workload.verify(outcome)
            kept = self._kept(workload, "cuda", node.machine_name, outcome, error)
            results.outcomes[outcome.case] = kept
            self.tick()
        return results

    def measure_without_transfers(
        self, workload: Workload, node: CudaNode, cases: Sequence[Case], results: Results
    ) -> None:
        """Run measured cases again without their transfers, and add these runs to `results`."""
        for case in cases:
            outcome = node.without_transfers(workload, results.outcomes[case])
            kept = self._kept(workload, "cuda", node.machine_name, outcome, None)
            results.outcomes[outcome.case] = kept
            self.tick()

    def _kept(
        self,
        workload: Workload,
        node: str,
        machine: str,
        outcome: Outcome,
        error: float | None,  # None if the run has no result to verify
    ) -> Outcome:
        outcome.forget_values()
        outcome.timeline = []
        self.runs.append(
            Run(
                node=node,
                machine=machine,
                workload=workload.name,
                data=workload.data_name,
                gpus=outcome.case.gpus,
                mechanism=outcome.case.mechanism,
                config=outcome.case.config.given(),
                iterations=outcome.iterations,
                time_s=outcome.time_s,
                max_error=error,
                remote_transactions=outcome.remote_transactions,
            )
        )
        return outcome
