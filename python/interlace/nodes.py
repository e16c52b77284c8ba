"""Where a study runs: a described machine, or the GPUs of this computer."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec

from interlace.errors import UserError
from interlace.mechanisms import KIB, MIB, SIMULATED
from interlace.workloads import Case, Outcome, RunFailure, Workload, core_errors

Result = TypeVar("Result")


class Node:
    """Where a study runs. `outcomes` yields every case's, in any order."""

    name: str  # sim, cuda
    machine_name: str
    gpus: int
    driver: str | None = None
    default_ranges: tuple[int, ...]  # to try, where the command does not say
    default_chunks: tuple[int, ...]
    default_threads: tuple[int, ...]

    def description(self) -> dict[str, Any]:
        """The machine, for the file of results."""
        raise NotImplementedError

    def outcomes(self, workload: Workload, cases: Sequence[Case]) -> Iterator[Outcome]:
        raise NotImplementedError

    def runs(self, mechanism: str) -> bool:
        """Whether rows of this mechanism come from a run of it."""
        raise NotImplementedError


class SimulatedNode(Node):
    """A described machine; a process a run."""

    name = "sim"
    # Simulations take long, and neighbouring values tell much the same.
    default_ranges = (2, 8, 32)
    default_chunks = (64 * KIB, MIB)
    default_threads = (4096,)

    def __init__(self, core: Any, machine: str, jobs: int) -> None:
        from interlace.machines import load_machine, to_core

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

    def outcomes(self, workload: Workload, cases: Sequence[Case]) -> Iterator[Outcome]:
        work = [partial(workload.simulate, self.core, self.machine, case) for case in cases]
        yield from in_processes(work, cases, self.jobs)


class CudaNode(Node):
    """The GPUs of this computer."""

    name = "cuda"
    default_ranges = (2, 4, 8, 16, 32)
    default_chunks = (64 * KIB, 256 * KIB, MIB, 4 * MIB)
    default_threads = (4096, 16384)

    def __init__(self, cuda: Any, info: dict[str, Any], warmup: int, repeats: int) -> None:
        self.cuda = cuda
        self.info = info
        self.gpus = int(info["gpus"])
        self.driver = str(info["driver"])
        self.machine_name = f"{self.gpus}x {info['name']}"
        self.warmup = warmup
        self.repeats = repeats

    def description(self) -> dict[str, Any]:
        return {**self.info, "name": self.machine_name, "model": self.info["name"]}

    def runs(self, mechanism: str) -> bool:
        return mechanism not in SIMULATED

    def outcomes(self, workload: Workload, cases: Sequence[Case]) -> Iterator[Outcome]:
        for case in cases:
            yield workload.measure(self.cuda, case, self.warmup, self.repeats)


def in_processes(
    work: Sequence[Callable[[], Result]], cases: Sequence[Case], jobs: int
) -> Iterator[Result]:
    from interlace import workers

    try:
        for _, result in workers.run_all(work, jobs):
            yield result
    except workers.WorkerLost as lost:
        raise RunFailure(f"{cases[lost.index]}: {lost.reason}") from None


def load_core() -> Any:
    try:
        return importlib.import_module("interlace._core")
    except ImportError as error:
        raise UserError(
            f"the compiled part of Interlace cannot be loaded ({error}); install it anew with "
            "./quickstart"
        ) from None


def real_node(warmup: int, repeats: int, hint: str | None = None) -> CudaNode:
    """The GPUs of this computer; where there are none, `hint` says what else can be done."""
    if hint is None:
        from interlace.machines import shipped_machines

        hint = f"name a machine to simulate with --machine: {', '.join(shipped_machines())}"
    try:
        cuda = importlib.import_module("interlace._cuda")
    except ImportError as error:
        if importlib.util.find_spec("interlace._cuda") is None:
            raise UserError(f"this Interlace was built without CUDA; {hint}") from None
        raise UserError(f"CUDA cannot be used here ({error}); {hint}") from None
    try:
        with core_errors(cuda):
            info = dict(cuda.device_info())
    except (RunFailure, UserError) as error:
        raise UserError(f"the GPUs cannot be used ({error}); {hint}") from None
    if int(info["gpus"]) < 1:
        raise UserError(f"there is no GPU here; {hint}")
    return CudaNode(cuda, info, warmup, repeats)
