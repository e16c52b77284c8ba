"""Where workloads run: a described machine, or the GPUs of this computer."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec

from interlace.base.errors import UserError
from interlace.base.turns import turn
from interlace.model.limits import Rates
from interlace.model.mechanisms import (
    BOUND,
    DEFAULTS,
    EVERY,
    KIB,
    MIB,
    MULTI_PROCESS,
    NOT_AVAILABLE,
    SIMULATED,
)
from interlace.model.results import BENCHMARK_FORMAT, provenance
from interlace.model.run import Case, Outcome, RunFailure, check_time, core_errors
from interlace.workloads import Workload

Result = TypeVar("Result")


class Node:
    """Where a workload runs."""

    name: str  # sim, cuda
    machine_name: str
    gpus: int
    driver: str | None = None
    default_ranges: tuple[int, ...]  # to try, where the command does not say
    default_chunks: tuple[int, ...]
    default_threads: tuple[int, ...]
    bulk_agents: bool  # whether agents of `polling` may copy in bulk

    def description(self) -> dict[str, Any]:
        """The machine, for the file of results."""
        raise NotImplementedError

    def attempts(
        self, workload: Workload, cases: Sequence[Case]
    ) -> Iterator[tuple[Case, Outcome | UserError]]:
        """Every case with its outcome, or with the reason why it is refused; in any order."""
        raise NotImplementedError

    def outcomes(self, workload: Workload, cases: Sequence[Case]) -> Iterator[Outcome]:
        """Every case's, in any order; raises the first refusal."""
        for _, found in self.attempts(workload, cases):
            if isinstance(found, UserError):
                raise found
            yield found

    def runs(self, mechanism: str) -> bool:
        """Whether rows of this mechanism come from a run of it."""
        raise NotImplementedError

    def default_mechanisms(self) -> tuple[tuple[str, ...], dict[str, str]]:
        """What to run where the command does not say, and why what else could be wanted is not."""
        return DEFAULTS, {}


class SimulatedNode(Node):
    """A described machine; a process a run."""

    name = "sim"
    # Simulations take long, and neighbouring values tell much the same.
    default_ranges = (2, 8, 32)
    default_chunks = (64 * KIB, MIB)
    default_threads = (4096,)
    bulk_agents = False

    def __init__(self, core: Any, machine: str, jobs: int) -> None:
        from interlace.machine.machines import load_machine, to_core

        self.description_of = load_machine(machine)
        self.core = core
        self.machine = to_core(self.description_of, core)
        self.machine_name = self.description_of.name
        self.gpus = self.description_of.gpu.count
        self.jobs = jobs

    def description(self) -> dict[str, Any]:
        plain: dict[str, Any] = msgspec.to_builtins(self.description_of)
        del plain["sources"]
        return plain

    def runs(self, mechanism: str) -> bool:  # noqa: ARG002
        return True

    def attempts(
        self, workload: Workload, cases: Sequence[Case]
    ) -> Iterator[tuple[Case, Outcome | UserError]]:
        run = partial(workload.simulate, self.core, self.machine)
        work = [partial(_attempt, run, case) for case in cases]
        yield from in_processes(work, cases, self.jobs)


# Of the exchange whose rate is measured: starts and ends weigh little.
RATE_BYTES = 64 * MIB
RATE_REPEATS = 3


class CudaNode(Node):
    """The GPUs of this computer."""

    name = "cuda"
    default_ranges = (2, 4, 8, 16, 32)
    default_chunks = (64 * KIB, 256 * KIB, MIB, 4 * MIB)
    default_threads = (4096, 16384)
    bulk_agents = True

    def __init__(
        self,
        cuda: Any,
        info: dict[str, Any],
        warmup: int,
        repeats: int,
        *,
        by_processes: bool = False,
    ) -> None:
        self.cuda = cuda
        self.by_processes = by_processes  # may also run by a process for each GPU
        self.info = info
        self.gpus = int(info["gpus"])
        self.driver = str(info["driver"])
        self.machine_name = f"{self.gpus}x {info['name']}"
        self.warmup = warmup
        self.repeats = repeats
        self.nccl: str | None = None  # the version, once it is loaded
        self.rates: dict[int, dict[str, float]] = {}  # by number of GPUs, of copies and of stores
        self.of_gpu: Rates | None = None  # once they are measured
        self.refusals: dict[str, str | None] = {}  # why mechanisms cannot run, once that is known

    def default_mechanisms(self) -> tuple[tuple[str, ...], dict[str, str]]:
        # unified-memory is for small data, and so only for those who ask for it
        left_out = {name: self.why_not(name) for name in ("nccl", MULTI_PROCESS)}
        reasons = {name: reason for name, reason in left_out.items() if reason is not None}
        ours = {BOUND, *(name for name in DEFAULTS if self.runs(name))}
        names = {*ours, *(name for name in left_out if name not in reasons)}
        return tuple(name for name in EVERY if name in names), reasons

    def why_not(self, mechanism: str) -> str | None:
        """Why this mechanism cannot run here, a sentence without its end; None if it can."""
        from interlace.nodes import peers

        if mechanism in self.refusals:
            return self.refusals[mechanism]
        reason = peers.why_not(mechanism, self.cuda, self.gpus, self.by_processes)
        self.refusals[mechanism] = reason
        if mechanism == "nccl" and reason is None:
            self.nccl = peers.nccl_version(self.cuda)
        return reason

    def require(self, mechanisms: Sequence[str], option: str) -> None:
        """Raise UserError if one of these cannot run here."""
        for name in mechanisms:
            reason = self.why_not(name)
            if reason is not None:
                raise UserError(f"{option} {name}{NOT_AVAILABLE}{reason}")

    def exchange_rate(self, gpus: int) -> float:
        """Bytes a second that each of so many GPUs sends while all send to all, measured once."""
        if gpus not in self.rates:
            with turn(), core_errors(f"the exchange rate of {gpus} GPUs"):
                self.rates[gpus] = self.cuda.measure_exchange_rate(gpus, RATE_BYTES, RATE_REPEATS)
        return max(self.rates[gpus].values())

    def gpu_rates(self) -> Rates:
        """What the first GPU's memory and multiprocessors do in a second, measured once."""
        if self.of_gpu is None:
            with turn(), core_errors("the rates of a GPU"):
                self.of_gpu = Rates(**self.cuda.measure_device_rates(RATE_REPEATS))
        return self.of_gpu

    def description(self) -> dict[str, Any]:
        rates = {str(gpus): rate for gpus, rate in self.rates.items()}
        return {
            **self.info,
            "name": self.machine_name,
            "model": self.info["name"],
            "nccl": self.nccl,
            "exchange": rates,
            "rates": None if self.of_gpu is None else msgspec.to_builtins(self.of_gpu),
        }

    def runs(self, mechanism: str) -> bool:
        return mechanism not in SIMULATED

    def attempts(
        self, workload: Workload, cases: Sequence[Case]
    ) -> Iterator[tuple[Case, Outcome | UserError]]:
        def run(case: Case) -> Outcome:
            if case.mechanism == MULTI_PROCESS:
                from interlace.nodes import peers, ranks

                files = peers.nvshmem_files()
                return ranks.measure(workload, case, files, self.warmup, self.repeats)
            return workload.measure(self.cuda, case, self.warmup, self.repeats)

        # What may be refused for the size of the data comes before what takes long.
        for case in sorted(cases, key=lambda case: case.mechanism != "unified-memory"):
            with turn():
                found = _attempt(run, case)
            yield found

    def without_transfers(self, workload: Workload, outcome: Outcome) -> Outcome:
        """The same run again, all but its transfers, and as many iterations.

        Replicas lack what others compute, so that no residual ends the run, and its values, which
        are given up, cannot be verified.
        """
        case = outcome.case.without_transfers()
        with turn():
            found = workload.measure(self.cuda, case, self.warmup, self.repeats, outcome.iterations)
        check_time(found)
        found.forget_values()
        return found


def _attempt(run: Callable[[Case], Outcome], case: Case) -> tuple[Case, Outcome | UserError]:
    try:
        return case, run(case)
    except UserError as refused:
        return case, refused


def in_processes(
    work: Sequence[Callable[[], Result]], cases: Sequence[object], jobs: int
) -> Iterator[Result]:
    from interlace.base import workers

    try:
        for _, result in workers.run_all(work, jobs):
            yield result
    except workers.WorkerLost as lost:
        raise RunFailure(f"{cases[lost.index]}: {lost.reason}") from None


def real_node(
    warmup: int, repeats: int, hint: str | None = None, *, by_processes: bool = False
) -> CudaNode:
    """The GPUs of this computer; where there are none, `hint` says what else can be done.

    `by_processes`: a process for each GPU may also be taken, where a mechanism asks for it.
    """
    if hint is None:
        from interlace.machine.machines import shipped_machines

        hint = f"name a machine to simulate with --machine: {', '.join(shipped_machines())}"
    try:
        cuda = importlib.import_module("interlace._cuda")
    except ImportError as error:
        if importlib.util.find_spec("interlace._cuda") is None:
            raise UserError(f"this Interlace was built without CUDA; {hint}") from None
        raise UserError(f"CUDA cannot be used here ({error}); {hint}") from None
    try:
        with core_errors():
            info = dict(cuda.device_info())
    except (RunFailure, UserError) as error:
        raise UserError(f"the GPUs cannot be used ({error}); {hint}") from None
    if int(info["gpus"]) < 1:
        raise UserError(f"there is no GPU here; {hint}")
    return CudaNode(cuda, info, warmup, repeats, by_processes=by_processes)


def measured_by(benchmark: str, node: CudaNode) -> dict[str, Any]:
    """The head of a file of what a benchmark measured just now."""
    return {
        "format": BENCHMARK_FORMAT,
        "benchmark": benchmark,
        **provenance(),
        "driver": node.driver,
        "machine": {"node": node.name, **node.description()},
    }
