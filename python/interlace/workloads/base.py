"""The base class of workloads: inputs, runs on a node, and verification."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

from interlace.base.errors import UserError
from interlace.model.limits import work_of
from interlace.model.mechanism_table import NVSHMEM
from interlace.model.mechanisms import (
    COLLECTIVES,
    DEFAULTS,
    ELEMENT_BYTES,
    OF_UPDATES,
    ONLY_UPDATES,
    RANGE_COLLECTIVES,
    UPDATE_DEFAULTS,
)
from interlace.model.run import Case, Counted, Outcome, RunFailure, check_time, core_errors
from interlace.workloads.options import Inputs, declared
from interlace.workloads.own_library import library_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MAX_ITERATIONS = 1_000_000
TOLERANCE_LIMIT = 1000  # the largest number of iterations if the user gives only a tolerance


class Reference(NamedTuple):
    """The expected result of a run in float64.

    For each element, `magnitude` is the value by which the element's error is divided.
    """

    values: NDArray[np.float64]
    magnitude: NDArray[np.float64]


class Workload(ABC):
    """An application with its data. Each new workload is a subclass of Workload in its own module.

    The class declares its inputs and its computation. This base class runs, measures, counts and
    verifies every workload in the same way.
    """

    name: ClassVar[str]
    place: ClassVar[int] = 100  # order in lists; workloads with equal places are sorted by name
    summary: ClassVar[str]
    takes: ClassVar[type[Inputs]]  # the class of the workload's options
    # `values_are` names the values of a device's result, in the plural; `element` names one value
    values_are: ClassVar[str]
    element: ClassVar[str]
    largest_tolerance: ClassVar[float] = math.inf
    kernels: ClassVar[tuple[str, ...]] = ()  # the names of the kernels; the first is the default
    subscribes: ClassVar[tuple[str, ...]] = (
        "all",
        "needed",
    )  # the values that the option --subscribe can have, if the workload has this option
    only_updates: ClassVar[bool] = False  # whether all runs update partitioned arrays
    # whether a study prints the time of the workload's copies alone
    shows_phases: ClassVar[bool] = False

    def __init__(self, data_name: str, source: str, inputs: Inputs) -> None:
        self.data_name = data_name
        self.source = source
        self.tolerance = inputs.tolerance
        self.capped = inputs.iterations is not None
        self.kernel = getattr(inputs, "kernel", None) or next(iter(self.kernels), None)
        self.subscribe = getattr(inputs, "subscribe", None) or self.subscribes[0]
        self.iterations = inputs.iterations or (
            _default_iterations(type(inputs)) if inputs.tolerance is None else TOLERANCE_LIMIT
        )
        self.has_updates = self.updates_partitions(inputs)
        self._references: dict[int, Reference] = {}

    # --- what each workload declares ---

    @classmethod
    @abstractmethod
    def check_data(cls, inputs: Any) -> None:
        """Raise UserError for invalid inputs, before anything is read.

        `inputs` is an instance of the class in `takes`.
        """

    @classmethod
    @abstractmethod
    def load(cls, inputs: Any, cuda: Any | None) -> Self:
        """Read or generate the data, on the GPU if `cuda` is the compiled module for GPUs."""

    @property
    @abstractmethod
    def size(self) -> str:
        """Return the size of the data as text for people."""

    @abstractmethod
    def parameters(self) -> dict[str, Any]:
        """Return the sizes of the data and the workload's parameters, for the results file."""

    @abstractmethod
    def boundaries(self, gpus: int) -> Sequence[int]:
        """Return the boundaries of the parts of the GPUs.

        GPU g owns the elements from boundaries[g] up to, but not including, boundaries[g + 1].
        """

    def largest_part(self, gpus: int) -> int:
        """Return the size of the largest part that a GPU sends, in bytes. No chunk is larger."""
        cut = self.boundaries(gpus)
        return ELEMENT_BYTES * max(end - begin for begin, end in pairwise(cut))

    @classmethod
    def updates_partitions(cls, inputs: Inputs) -> bool:  # noqa: ARG003
        """Return whether runs with these inputs update partitioned arrays instead of regions."""
        return cls.only_updates

    @classmethod
    def defaults(cls, inputs: Inputs) -> tuple[str, ...]:
        """Return the default mechanisms of a study."""
        return UPDATE_DEFAULTS if cls.updates_partitions(inputs) else DEFAULTS

    def refuses(self, mechanism: str) -> str | None:
        """Return why the workload cannot run with a mechanism, or None if it can.

        In messages, the text follows the name of the mechanism.
        """
        if self.has_updates and mechanism == NVSHMEM:
            return (
                "updates only with the atomics of its device library. That library is linked into "
                "kernels when they are compiled, but a study loads NVSHMEM when it runs; take nccl "
                "or packed"
            )
        if self.has_updates and mechanism not in OF_UPDATES:
            return f"moves regions, and {self.name} updates a partitioned array"
        if not self.has_updates and mechanism in ONLY_UPDATES:
            return "moves updates of partitioned arrays, and no regions"
        return None

    @property
    def collectives(self) -> tuple[str, ...]:
        """Return the NCCL collectives that can deliver the workload's regions."""
        only_some = self.has_updates or self.subscribe == "needed"
        return RANGE_COLLECTIVES if only_some else COLLECTIVES

    @property
    def subscribers(self) -> str:
        """Return text that says which GPUs receive a value. `parameters` uses this text."""
        return "readers" if self.subscribe == "needed" else "everybody"

    @abstractmethod
    def arguments(self) -> tuple[Any, ...]:
        """Return the data as arguments for the compiled modules."""

    @abstractmethod
    def reference(self, iterations: int) -> Reference:
        """Return the expected result after a number of iterations."""

    @abstractmethod
    def allowed_error(self) -> float:
        """Return the largest relative error that rounding can cause."""

    def held(self, case: Case, device: int) -> slice | NDArray[np.intp]:  # noqa: ARG002
        """Return the elements whose result a device has with every mechanism.

        The elements are in ascending order.
        """
        return slice(None)

    # --- what is the same for all workloads ---

    @classmethod
    def function(cls) -> str:
        """Return the function of the compiled modules that runs the workload."""
        return "run_" + cls.name.replace("-", "_")

    @classmethod
    def check(cls, inputs: Inputs) -> None:
        """Raise UserError for invalid inputs, before anything is read."""
        cls.check_data(inputs)
        for name, known in (("kernel", cls.kernels), ("subscribe", cls.subscribes)):
            value = getattr(inputs, name, None)
            if value is not None and value not in known:
                raise UserError(f"--{name} {value}: give {' or '.join(known)}")
        if inputs.iterations is not None and not 1 <= inputs.iterations <= MAX_ITERATIONS:
            raise UserError(
                f"--iterations {inputs.iterations}: give a number from 1 to {MAX_ITERATIONS}"
            )
        if inputs.tolerance is not None and not 0 < inputs.tolerance < cls.largest_tolerance:
            wanted = "a finite number above 0"
            if math.isfinite(cls.largest_tolerance):
                wanted = f"a number above 0 and below {cls.largest_tolerance:g}"
            raise UserError(f"--tolerance {inputs.tolerance:g}: give {wanted}")

    def facts(self) -> dict[str, Any]:
        """Return facts about the data, and the parameters, for the results file."""
        return {
            "name": self.data_name,
            "source": self.source,
            "size": self.size,
            **self.parameters(),
            **({"kernel": self.kernel} if self.kernels else {}),
            "iterations": self.iterations,
            "tolerance": self.tolerance,
            "max_allowed_error": self.allowed_error(),
        }

    def _run(
        self,
        module: Any,
        case: Case,
        before: tuple[Any, ...],
        limits: tuple[int, float],
        after: tuple[Any, ...] = (),
        named: Mapping[str, Any] = MappingProxyType({}),
    ) -> Outcome:
        """Run the workload's function in a compiled module.

        The function gets `before`, the workload's own arguments and `after`, in this order.
        """
        import numpy as np

        cut = np.array(self.boundaries(case.gpus), dtype=np.uint64)
        if packing := case.config.packing():
            named = {**named, "packing": packing}
        with core_errors(case):
            result = self._compiled(module)(
                *before,
                case.mechanism,
                cut,
                *limits,
                *case.config.arguments(),
                *after,
                *self.arguments(),
                **named,
            )
        return Outcome.of(case, result)

    def _compiled(self, module: Any) -> Any:
        """Return the run function, from Interlace's module or from the workload's own library."""
        found = getattr(module, self.function(), None)
        if found is not None:
            return found
        return library_of(self.name, type(self).__module__, module).run

    def limits(self) -> tuple[int, float]:
        """Return the limits of a run, as compiled modules need them.

        The first limit is the largest number of iterations. The second limit is the residual that
        ends a run; 0 means that no residual ends the run.
        """
        return self.iterations, self.tolerance or 0.0

    def simulate(
        self,
        core: Any,
        machine: Any,
        case: Case,
        record: Path | None = None,
        *,
        whole: bool = True,
        cut_like_gpus: bool = False,
        threads: int = 1,
    ) -> Outcome:
        """Run on a simulated machine. `record` is a trace file to write.

        `threads` is the number of the host's threads that simulate. Unless `whole` is set, a run
        whose iterations repeat simulates only the first iterations. With `cut_like_gpus`, the
        workload chooses the sizes of blocks by the number of threads that a GPU of the machine
        holds. Runs on real GPUs always do this.
        """
        named: dict[str, Any] = {} if record is None else {"record": str(record)}
        if not whole:
            named["whole"] = False
        if cut_like_gpus:
            named["cut_like_gpus"] = True
        if threads != 1:
            named["threads"] = threads
        return self._run(core, case, ("sim", machine), self.limits(), named=named)

    def measure(
        self,
        cuda: Any,
        case: Case,
        warmup: int,
        repeats: int,
        iterations: int | None = None,
        *,
        share_gpu: bool = False,
    ) -> Outcome:
        """Run on the real GPUs. `iterations` replaces the workload's limit.

        With `share_gpu`, one GPU may stand for several devices.
        """
        most, tolerance = self.limits()
        limits = (most if iterations is None else iterations, tolerance)
        named = {"share_gpu": True} if share_gpu else {}
        return self._run(cuda, case, (), limits, (warmup, repeats), named)

    def count(self, core: Any, case: Case, iterations: int, cache_bytes: int = 0) -> Counted:
        """Return what the host node counts in a run with this number of iterations.

        `cache_bytes` is the size of the L2 of the GPU for which a limit is computed.
        """

        # All iterations except the first and the last access the same addresses. The counts of a
        # long run therefore follow from the counts of runs with 2 and 3 iterations.
        def counted(n: int) -> Counted:
            outcome = self._run(core, case, ("host", None), (n, 0.0))
            return Counted(outcome.wire, work_of(outcome.work, cache_bytes), outcome.sent_bytes)

        if iterations <= 3:
            return counted(iterations)
        return counted(3).after(counted(2), iterations - 3)

    def accepts(self, error: float, iterations: int) -> bool:
        """Return whether verification accepts a result with this error."""
        if iterations > self.limits()[0]:
            return False
        if error > self.allowed_error():
            self._reference(
                iterations
            )  # some errors that verification allows are known only after the reference
        return error <= self.allowed_error()

    def _reference(self, iterations: int) -> Reference:
        if iterations not in self._references:
            self._references[iterations] = self.reference(iterations)
        return self._references[iterations]

    def verify(self, outcome: Outcome) -> float:
        """Return the largest error in the results of all devices.

        Raise RunFailure if the error is too large.
        """
        import numpy as np

        case = outcome.case
        if self.tolerance is not None and not self.capped and outcome.residual > self.tolerance:
            raise UserError(
                f"--tolerance {self.tolerance:g}: after {outcome.iterations} iterations the change "
                f"is still {outcome.residual:.2e}; give a larger tolerance"
            )
        check_time(outcome)
        expected, magnitude = self._reference(outcome.iterations)
        if outcome.values.shape != (case.gpus, expected.size):
            raise RunFailure(
                f"verification failed: {case} returned {self.values_are} of shape "
                f"{outcome.values.shape}, expected {(case.gpus, expected.size)}"
            )
        allowed = self.allowed_error()
        largest = 0.0
        for device in range(case.gpus):
            held = self.held(case, device)
            found = outcome.values[device][held].astype(np.float64)
            if found.size == 0:
                continue
            with np.errstate(divide="ignore", invalid="ignore"):
                error = np.abs(found - expected[held]) / magnitude[held]
            error[found == expected[held]] = (
                0.0  # the error is 0 if the element is infinite in both results
            )
            error[np.isnan(error)] = math.inf
            worst = int(error.argmax())
            if not error[worst] <= allowed:
                at = worst + (held.start or 0) if isinstance(held, slice) else int(held[worst])
                raise RunFailure(
                    f"verification failed: {case}: GPU {device} has "
                    f"{outcome.values[device][at]:.9g} for {self.element} {at}, expected "
                    f"{expected[at]:.9g}; the relative error {error[worst]:.2g} is above "
                    f"{allowed:g}"
                )
            largest = max(largest, float(error[worst]))
        return largest


def _default_iterations(inputs: type[Inputs]) -> int:
    """Return the default number of iterations, or MAX_ITERATIONS if the default is not a number."""
    default = declared(inputs)["iterations"].option.default
    return default if isinstance(default, int) else MAX_ITERATIONS
