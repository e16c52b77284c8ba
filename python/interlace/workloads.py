"""The applications that a study runs: their input, how a node runs them, and what must come out."""

from __future__ import annotations

import contextlib
import math
import resource
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

from interlace.errors import UserError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from interlace.graphs import Graph

MAX_ITERATIONS = 1_000_000
DEFAULT_ITERATIONS = 10
TOLERANCE_LIMIT = 1000  # iterations, when a tolerance alone is given

# The largest relative error of a rank. float32 rounds by 6e-8 (2**-24). A row is summed by at most
# 256 lanes side by side, so even 10**5 edges are a chain of 400 additions, whose roundings cancel
# to about 20 of one; an iteration passes on at most the damping of the errors before it, which adds
# up to 7 times one iteration's at 0.85. That is 8e-6 at worst, and 1e-6 is usual. What a lost or a
# late transfer does is far above: one old value changes a rank by its change in the iteration.
MAX_RELATIVE_ERROR = 1e-5


class RunFailure(Exception):  # noqa: N818 (also says that a device failed)
    """A run went wrong, through no fault of the input; the command ends with exit code 1."""


class Case(NamedTuple):
    """One run of a workload."""

    gpus: int
    mechanism: str
    ranges: int | None = None  # of `split`

    def __str__(self) -> str:
        ranges = f" ({self.ranges} ranges)" if self.ranges is not None else ""
        return f"{self.mechanism}{ranges} on {self.gpus} GPU{'s' if self.gpus > 1 else ''}"


class Wire(NamedTuple):
    """Bytes on the wires, of all devices and the whole run; None where unknown."""

    useful: int | None = None
    protocol: int | None = None
    wasted: int | None = None


class Event(NamedTuple):
    """A bar of a timeline."""

    device: int
    track: str  # kernel, copy, exchange
    name: str
    start_s: float
    end_s: float


@dataclass
class Outcome:
    """What a run gave; times are of the whole run, all iterations."""

    case: Case
    time_s: float
    copy_s: float
    iterations: int
    residual: float
    values: NDArray[np.float32]  # every device's replica of the result
    wire: Wire = field(default_factory=Wire)
    timeline: list[Event] = field(default_factory=list)
    accesses: int = 0
    remote_transactions: int = 0
    cpu_s: float = 0.0
    peak_rss_mb: float = 0.0  # of the process that ran it, MB = 1e6 bytes
    times_s: list[float] = field(default_factory=list)  # a measured run's repeats
    raw_tx_bytes: float | None = None  # NVLink counters, a run's average
    data_tx_bytes: float | None = None
    remarks: list[str] = field(default_factory=list)  # what went another way than asked

    @classmethod
    def of(cls, case: Case, result: dict[str, Any], values: str) -> Self:
        """An outcome from what a compiled module returned; `values` is the key of the result."""
        wire = result["wire"]
        times = [float(t) for t in result.get("times_s", ())]
        runs = max(1, len(times))
        counted = {
            key: None if result.get(key) is None else float(result[key]) / runs
            for key in ("raw_tx_bytes", "data_tx_bytes")
        }
        return cls(
            case=case,
            time_s=float(result["time_s"]),
            copy_s=float(result["copy_s"]),
            iterations=int(result["iterations"]),
            residual=float(result["residual"]),
            values=result[values],
            wire=Wire()
            if wire is None
            else Wire(*(_whole(wire.get(k)) for k in ("useful", "protocol", "wasted"))),
            timeline=[
                Event(int(e["device"]), e["track"], e["name"], e["start_s"], e["end_s"])
                for e in result["timeline"]
            ],
            accesses=int(result["accesses"]),
            remote_transactions=int(result["remote_transactions"]),
            cpu_s=float(result["cpu_s"] or 0.0),  # None: measured
            peak_rss_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6,
            times_s=times,
            raw_tx_bytes=counted["raw_tx_bytes"],
            data_tx_bytes=counted["data_tx_bytes"],
            remarks=list(result.get("remarks", ())),
        )


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)


@dataclass(frozen=True)
class Inputs:
    """What the command line says about a workload's input and its run; None: not given."""

    data: Path | None = None
    rmat: int | None = None
    edge_factor: int | None = None
    seed: int | None = None
    damping: float | None = None
    iterations: int | None = None
    tolerance: float | None = None


class Workload(ABC):
    """An application with its data. A new one is a subclass, and a line in WORKLOADS."""

    name: ClassVar[str]
    summary: ClassVar[str]
    data_name: str

    @classmethod
    @abstractmethod
    def check(cls, inputs: Inputs) -> None:
        """Raise UserError for inputs that cannot be meant, before anything is read."""

    @classmethod
    @abstractmethod
    def load(cls, inputs: Inputs, cuda: Any | None) -> Self:
        """Read or generate the data; on the GPU where `cuda`, the compiled module, is given."""

    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """The data and the parameters, for the file of results."""

    @abstractmethod
    def simulate(self, core: Any, machine: Any, case: Case) -> Outcome:
        """Run on a simulated machine, on the calling thread."""

    @abstractmethod
    def measure(self, cuda: Any, case: Case, warmup: int, repeats: int) -> Outcome:
        """Run on the real GPUs."""

    @abstractmethod
    def count_wire(self, core: Any, case: Case, iterations: int) -> Wire:
        """Useful and wasted bytes of a run of so many iterations, counted on the host node."""

    @abstractmethod
    def verify(self, outcome: Outcome) -> float:
        """The largest error of every device's result; raises RunFailure if it is too large."""


@contextlib.contextmanager
def core_errors(core: Any, case: Case | None = None) -> Iterator[None]:
    """Errors of a compiled module as ours: what the input caused, and what else went wrong."""
    where = f"{case}: " if case is not None else ""
    try:
        yield
    except UserError:
        raise
    except MemoryError:
        raise RunFailure(f"{where}there is not enough memory") from None
    except Exception as error:
        if isinstance(error, getattr(core, "UsageError", ())):
            raise UserError(str(error)) from None
        if isinstance(error, RuntimeError):  # a device, the model or the driver failed
            raise RunFailure(f"{where}{error}") from None
        raise


class Pagerank(Workload):
    """PageRank by pull over a directed graph, float32."""

    name = "pagerank"
    summary = "PageRank by pull; --data FILE (.mtx, .txt, .el, .edges, .tsv, .gz) or --rmat SCALE"

    def __init__(self, graph: Graph, data_name: str, source: str, inputs: Inputs) -> None:
        self.graph = graph
        self.data_name = data_name
        self.source = source
        self.damping = 0.85 if inputs.damping is None else inputs.damping
        self.tolerance = inputs.tolerance
        self.capped = inputs.iterations is not None
        self.iterations = inputs.iterations or (
            DEFAULT_ITERATIONS if inputs.tolerance is None else TOLERANCE_LIMIT
        )
        self._references: dict[int, NDArray[np.float64]] = {}

    @classmethod
    def check(cls, inputs: Inputs) -> None:
        if inputs.data is not None and inputs.rmat is not None:
            raise UserError("--data and --rmat exclude each other; give one of them")
        if inputs.data is None and inputs.rmat is None:
            raise UserError(
                "pagerank needs a graph; give --data FILE, or --rmat SCALE to generate one"
            )
        if inputs.data is not None:
            for option, value in (("--edge-factor", inputs.edge_factor), ("--seed", inputs.seed)):
                if value is not None:
                    raise UserError(f"{option} is for --rmat; leave it out with --data")
        if inputs.rmat is not None and not 1 <= inputs.rmat <= 32:
            raise UserError(f"--rmat {inputs.rmat}: give a scale from 1 to 32")
        if inputs.iterations is not None and not 1 <= inputs.iterations <= MAX_ITERATIONS:
            raise UserError(
                f"--iterations {inputs.iterations}: give a number from 1 to {MAX_ITERATIONS}"
            )
        if inputs.tolerance is not None and not 0 < inputs.tolerance < 1:
            raise UserError(f"--tolerance {inputs.tolerance:g}: give a number above 0 and below 1")
        if inputs.damping is not None and not 0 <= inputs.damping <= 1:
            raise UserError(f"--damping {inputs.damping:g}: give a number from 0 to 1")

    @classmethod
    def load(cls, inputs: Inputs, cuda: Any | None) -> Self:
        from interlace import graphs

        if inputs.data is not None:
            graph = graphs.load_graph(inputs.data)
            return cls(graph, graph.name, str(inputs.data), inputs)
        assert inputs.rmat is not None
        factor = 16 if inputs.edge_factor is None else inputs.edge_factor
        seed = 1 if inputs.seed is None else inputs.seed
        name = f"rmat-{inputs.rmat}"
        name += f"-f{factor}" if factor != 16 else ""
        name += f"-s{seed}" if seed != 1 else ""
        source = f"R-MAT, scale {inputs.rmat}, edge factor {factor}, seed {seed}"
        if cuda is None:
            graph = graphs.rmat(inputs.rmat, factor, seed)
        else:
            graphs.rmat_edges(inputs.rmat, 0, 0, seed)  # checks scale and seed
            if not 1 <= factor < graphs.MAX_VERTICES:
                raise UserError(f"--edge-factor {factor}: give a number from 1 to 2**32 - 1")
            with core_errors(cuda):
                offsets, columns, out_degree = cuda.rmat(inputs.rmat, factor, seed)
            graph = graphs.Graph(
                name, 1 << inputs.rmat, offsets.astype("int64", copy=False), columns, out_degree
            )
        return cls(graph, name, source, inputs)

    def facts(self) -> dict[str, Any]:
        return {
            "name": self.data_name,
            "source": self.source,
            "vertices": self.graph.rows,
            "edges": self.graph.edges,
            "dangling": int((self.graph.out_degree == 0).sum()),
            "damping": self.damping,
            "iterations": self.iterations,
            "tolerance": self.tolerance,
            "max_allowed_error": MAX_RELATIVE_ERROR,
        }

    def _arguments(self, case: Case) -> tuple[Any, ...]:
        """The graph and its boundaries, as the compiled modules take them."""
        import numpy as np

        from interlace.graphs import partition_by_edges

        cut = partition_by_edges(self.graph.offsets, case.gpus)
        return (
            np.ascontiguousarray(self.graph.offsets).astype(np.uint64, copy=False),
            np.ascontiguousarray(self.graph.columns),
            np.ascontiguousarray(self.graph.out_degree),
            np.array(cut, dtype=np.uint64),
            self.damping,
        )

    def _run(
        self, core: Any, node: str, machine: Any, case: Case, limits: tuple[int, float]
    ) -> Any:
        with core_errors(core, case):
            return core.run_pagerank(
                node,
                machine,
                case.gpus,
                case.mechanism,
                *self._arguments(case),
                *limits,
                case.ranges or 1,
            )

    def _limits(self) -> tuple[int, float]:
        return self.iterations, self.tolerance or 0.0

    def simulate(self, core: Any, machine: Any, case: Case) -> Outcome:
        result = self._run(core, "sim", machine, case, self._limits())
        return Outcome.of(case, result, "ranks")

    def measure(self, cuda: Any, case: Case, warmup: int, repeats: int) -> Outcome:
        with core_errors(cuda, case):
            result = cuda.run_pagerank(
                case.gpus,
                case.mechanism,
                *self._arguments(case),
                *self._limits(),
                case.ranges or 1,
                warmup,
                repeats,
            )
        return Outcome.of(case, result, "ranks")

    def count_wire(self, core: Any, case: Case, iterations: int) -> Wire:
        # Every iteration but the first and the last stores and reads the same places, so what a
        # long run counts follows from short ones: from 2 and 3 iterations.
        def counted(n: int) -> Wire:
            result = self._run(core, "host", None, case, (n, 0.0))
            return Outcome.of(case, result, "ranks").wire

        if iterations <= 3:
            return counted(iterations)
        two, three = counted(2), counted(3)

        def after(at_two: int | None, at_three: int | None) -> int | None:
            if at_two is None or at_three is None:
                return None
            return at_three + (iterations - 3) * (at_three - at_two)

        return Wire(after(two.useful, three.useful), None, after(two.wasted, three.wasted))

    def _reference(self, iterations: int) -> NDArray[np.float64]:
        from interlace.graphs import pagerank_reference

        if iterations not in self._references:
            found = pagerank_reference(self.graph, self.damping, iterations=iterations)
            self._references[iterations] = found.ranks
        return self._references[iterations]

    def verify(self, outcome: Outcome) -> float:
        import numpy as np

        case = outcome.case
        if self.tolerance is not None and not self.capped and outcome.residual > self.tolerance:
            raise UserError(
                f"--tolerance {self.tolerance:g}: after {outcome.iterations} iterations the change "
                f"is still {outcome.residual:.2e}; give a larger tolerance"
            )
        if not (math.isfinite(outcome.time_s) and outcome.time_s > 0):
            raise RunFailure(f"{case}: the run's time is {outcome.time_s} s, which no run can have")
        expected = self._reference(outcome.iterations)
        if outcome.values.shape != (case.gpus, self.graph.rows):
            raise RunFailure(
                f"verification failed: {case} returned ranks of shape {outcome.values.shape}, "
                f"expected {(case.gpus, self.graph.rows)}"
            )
        largest = 0.0
        for device in range(case.gpus):
            error = np.abs(outcome.values[device].astype(np.float64) - expected)
            with np.errstate(divide="ignore", invalid="ignore"):
                error = np.where(error == 0, 0.0, error / np.abs(expected))
            error[np.isnan(error)] = math.inf
            vertex = int(error.argmax())
            if not error[vertex] <= MAX_RELATIVE_ERROR:
                raise RunFailure(
                    f"verification failed: {case}: GPU {device} has "
                    f"{outcome.values[device][vertex]:.9g} for vertex {vertex}, expected "
                    f"{expected[vertex]:.9g}; the relative error {error[vertex]:.2g} is above "
                    f"{MAX_RELATIVE_ERROR:g}"
                )
            largest = max(largest, float(error[vertex]))
        return largest


WORKLOADS: dict[str, type[Workload]] = {workload.name: workload for workload in (Pagerank,)}
