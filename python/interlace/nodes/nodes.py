"""Nodes that run workloads: a described machine, or this computer's GPUs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec

from interlace.base.errors import UserError
from interlace.base.native import load_cuda
from interlace.base.turns import turn
from interlace.model.limits import Rates
from interlace.model.mechanism_table import NCCL, NVSHMEM, UNIFIED_MEMORY
from interlace.model.mechanisms import (
    BOUND,
    DEFAULTS,
    EVERY,
    KIB,
    MIB,
    NOT_AVAILABLE,
    OF_UPDATES,
    PEERS,
    ROW_OF,
    SIMULATED,
    UPDATE_DEFAULTS,
)
from interlace.model.results import BENCHMARK_FORMAT, provenance
from interlace.model.run import Case, Outcome, RunFailure, check_time, core_errors
from interlace.workloads import Workload

Result = TypeVar("Result")


class Node:
    """A node that runs workloads."""

    name: str  # sim or cuda
    machine_name: str
    gpus: int
    driver: str | None = None
    default_ranges: tuple[int, ...]  # the numbers of ranges to try by default
    default_chunks: tuple[int, ...]
    default_threads: tuple[int, ...]
    bulk_agents: bool  # whether `polling` may use agents that copy in bulk

    def description(self) -> dict[str, Any]:
        """Return the machine in the form in which the results file describes it."""
        raise NotImplementedError

    def attempts(
        self, workload: Workload, cases: Sequence[Case]
    ) -> Iterator[tuple[Case, Outcome | UserError]]:
        """Yield each case with its outcome, or with the reason why the node refuses the case.

        The order is not defined.
        """
        raise NotImplementedError

    def outcomes(self, workload: Workload, cases: Sequence[Case]) -> Iterator[Outcome]:
        """Yield each case with its outcome, in any order. Raise the error of the first refusal."""
        for _, found in self.attempts(workload, cases):
            if isinstance(found, UserError):
                raise found
            yield found

    def runs(self, mechanism: str) -> bool:
        """Return whether this node runs the mechanism. If not, the mechanism's rows are derived."""
        raise NotImplementedError

    def default_mechanisms(
        self, defaults: tuple[str, ...] = DEFAULTS
    ) -> tuple[tuple[str, ...], dict[str, str]]:
        """Return the default mechanisms that can run here, and the reasons why libraries cannot
        run.

        `defaults` are the workload's default mechanisms. Libraries of other vendors are added only
        if the workload has the usual defaults.
        """
        return defaults, {}


class SimulatedNode(Node):
    """A described machine, which the simulator runs. Each run has a process of its own."""

    name = "sim"
    # Simulations take long, and neighbouring values give similar results. So few values are tried.
    default_ranges = (2, 8, 32)
    default_chunks = (64 * KIB, MIB)
    default_threads = (4096,)
    bulk_agents = False

    def __init__(self, core: Any, machine: str, jobs: int, *, whole: bool = True) -> None:
        from interlace.machine.compiled import to_core
        from interlace.machine.reading import load_machine

        self.description_of = load_machine(machine)
        self.core = core
        self.machine = to_core(self.description_of, core)
        self.machine_name = self.description_of.name
        self.gpus = self.description_of.gpu.count
        self.jobs = jobs
        self.whole = whole  # whether to also simulate iterations that repeat earlier iterations

    def description(self) -> dict[str, Any]:
        plain: dict[str, Any] = msgspec.to_builtins(self.description_of)
        del plain["sources"]
        return plain

    def runs(self, mechanism: str) -> bool:  # noqa: ARG002
        return True

    def attempts(
        self, workload: Workload, cases: Sequence[Case]
    ) -> Iterator[tuple[Case, Outcome | UserError]]:
        run = partial(workload.simulate, self.core, self.machine, whole=self.whole)
        work = [
            partial(_attempt, partial(run, threads=threads_of(case, self.jobs, len(cases))), case)
            for case in cases
        ]
        yield from in_processes(work, cases, self.jobs)


# The bytes of the exchange that measures the rate. With this size, the start and the end of the
# exchange hardly affect the rate.
RATE_BYTES = 64 * MIB
RATE_REPEATS = 3


class CudaNode(Node):
    """The GPUs of this computer."""

    name = "cuda"
    default_ranges = (2, 4, 8, 16, 32)
    default_chunks = (64 * KIB, 256 * KIB, MIB, 4 * MIB)
    default_threads: tuple[int, ...] = (4096, 16384)
    bulk_agents = True

    def __init__(
        self,
        cuda: Any,
        info: dict[str, Any],
        warmup: int,
        repeats: int,
        *,
        by_processes: bool = False,
        share_gpu: bool = False,
    ) -> None:
        self.cuda = cuda
        self.share_gpu = share_gpu  # whether one GPU may stand for several devices
        if share_gpu:  # the agents of all devices must fit on one GPU at the same time
            self.default_threads = (512,)
        self.by_processes = by_processes  # whether runs may use one process for each GPU
        self.info = info
        self.gpus = int(info["gpus"])
        self.driver = str(info["driver"])
        self.machine_name = f"{self.gpus}x {info['name']}" + (", shared" if share_gpu else "")
        self.warmup = warmup
        self.repeats = repeats
        self.nccl: str | None = None  # NCCL's version, as soon as NCCL is loaded
        self.rates: dict[
            int, dict[str, float]
        ] = {}  # maps a number of GPUs to the rates of copies and of stores
        self.of_gpu: Rates | None = None  # set by the first measurement
        self.refusals: dict[
            str, str | None
        ] = {}  # maps a mechanism to the reason why it cannot run; filled when first needed

    def default_mechanisms(
        self, defaults: tuple[str, ...] = DEFAULTS
    ) -> tuple[tuple[str, ...], dict[str, str]]:
        of_both = {DEFAULTS: PEERS, UPDATE_DEFAULTS: OF_UPDATES}.get(defaults, ())
        peers = [name for name in PEERS if ROW_OF[name].by_default and name in of_both]
        left_out = {name: self.why_not(name) for name in peers}
        reasons = {name: reason for name, reason in left_out.items() if reason is not None}
        ours = {BOUND, *(name for name in defaults if self.runs(name))}
        names = {*ours, *(name for name in left_out if name not in reasons)}
        return tuple(name for name in EVERY if name in names), reasons

    def why_not(self, mechanism: str) -> str | None:
        """Return why this mechanism cannot run here, without a full stop, or None if it can."""
        from interlace.nodes import peers

        if mechanism in self.refusals:
            return self.refusals[mechanism]
        if self.share_gpu and mechanism in (NCCL, NVSHMEM):
            return (
                "it needs a GPU for each device, and --share-gpu lets several devices share a GPU"
            )
        reason = peers.why_not(mechanism, self.cuda, self.gpus, self.by_processes)
        self.refusals[mechanism] = reason
        if mechanism == NCCL and reason is None:
            self.nccl = peers.nccl_version(self.cuda)
        return reason

    def require(self, mechanisms: Sequence[str], option: str) -> None:
        """Raise UserError if one of these mechanisms cannot run here."""
        for name in mechanisms:
            reason = self.why_not(name)
            if reason is not None:
                raise UserError(f"{option} {name}{NOT_AVAILABLE}{reason}")

    def exchange_rate(self, gpus: int) -> float:
        """Return the bytes per second that each GPU sends while all GPUs send to all other GPUs.

        The rate is measured only once.
        """
        if gpus not in self.rates:
            with turn(), core_errors(f"the exchange rate of {gpus} GPUs"):
                self.rates[gpus] = self.cuda.measure_exchange_rate(gpus, RATE_BYTES, RATE_REPEATS)
        return max(self.rates[gpus].values())

    def gpu_rates(self) -> Rates:
        """Return the rates of the first GPU's memory and multiprocessors. Measure them once."""
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
            NCCL: self.nccl,
            "exchange": rates,
            "rates": None if self.of_gpu is None else msgspec.to_builtins(self.of_gpu),
            **({"share_gpu": True} if self.share_gpu else {}),
        }

    def shares(self, gpus: int) -> bool:
        """Return whether several devices share a GPU in a run on this number of devices."""
        return self.share_gpu and gpus > self.gpus

    def runs(self, mechanism: str) -> bool:
        return mechanism not in SIMULATED

    def attempts(
        self, workload: Workload, cases: Sequence[Case]
    ) -> Iterator[tuple[Case, Outcome | UserError]]:
        def run(case: Case) -> Outcome:
            if case.mechanism == NVSHMEM:
                from interlace.nodes import peers, ranks

                files = peers.nvshmem_files()
                return ranks.measure(workload, case, files, self.warmup, self.repeats)
            return workload.measure(
                self.cuda, case, self.warmup, self.repeats, share_gpu=self.shares(case.gpus)
            )

        # Cases whose data may be too large run first. A refusal then comes before long runs.
        for case in sorted(cases, key=lambda case: case.mechanism != UNIFIED_MEMORY):
            with turn():
                found = _attempt(run, case)
            yield found

    def without_transfers(self, workload: Workload, outcome: Outcome) -> Outcome:
        """Repeat a run without its transfers, with the same number of iterations.

        Without transfers, the replicas lack the values of other GPUs. Therefore the residual must
        not end the run early, and the values cannot be verified. The values are freed.
        """
        case = outcome.case.without_transfers()
        with turn():
            found = workload.measure(
                self.cuda,
                case,
                self.warmup,
                self.repeats,
                outcome.iterations,
                share_gpu=self.shares(case.gpus),
            )
        check_time(found)
        found.forget_values()
        return found


def threads_of(case: Case, cores: int, simulations: int) -> int:
    """Return the number of threads for the simulation of a case.

    If there are fewer simulations than cores, the simulations share the cores. A run on one GPU has
    one thread. A second thread could only record accesses in advance, and this makes some workloads
    slower.
    """
    return 1 if case.gpus == 1 else max(1, cores // max(1, simulations))


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
    warmup: int,
    repeats: int,
    hint: str | None = None,
    *,
    by_processes: bool = False,
    sharing: int = 0,
) -> CudaNode:
    """Return the node of this computer's GPUs.

    With `by_processes`, a mechanism that needs a process for each GPU may run in such processes.
    `sharing` is the number of devices that may share the GPUs if there are fewer GPUs. If there is
    no GPU, raise UserError. The message ends with `hint`, which says what the user can do.
    """
    if sharing:  # each stream of each device needs its own hardware queue
        os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")
    if hint is None:
        from interlace.machine.shipped import shipped_machines

        hint = f"name a machine to simulate with --machine: {', '.join(shipped_machines())}"
    try:
        cuda = load_cuda()
    except UserError as error:
        raise UserError(f"{error}; {hint}") from None
    try:
        with core_errors():
            info = dict(cuda.device_info())
    except (RunFailure, UserError) as error:
        raise UserError(f"the GPUs cannot be used ({error}); {hint}") from None
    if int(info["gpus"]) < 1:
        raise UserError(f"there is no GPU here; {hint}")
    return CudaNode(
        cuda,
        info,
        warmup,
        repeats,
        by_processes=by_processes,
        share_gpu=sharing > int(info["gpus"]),
    )


def measured_by(benchmark: str, node: CudaNode) -> dict[str, Any]:
    """Return the head of the results file for a benchmark that has just run."""
    return {
        "format": BENCHMARK_FORMAT,
        "benchmark": benchmark,
        **provenance(),
        "driver": node.driver,
        "machine": {"node": node.name, **node.description()},
    }
