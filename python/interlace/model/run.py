"""Runs of workloads: cases, outcomes and failures."""

from __future__ import annotations

import contextlib
import math
import resource
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from interlace.model.inside import Inside, inside_of
from interlace.model.limits import Work
from interlace.model.mechanisms import WITHOUT_TRANSFERS, Config, label

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class RunFailure(Exception):  # noqa: N818 (also says that a device failed)
    """A run failed although its input is valid. The command ends with exit code 1."""


class Case(NamedTuple):
    """One run of a workload."""

    gpus: int
    mechanism: str
    config: Config = Config()

    @property
    def label(self) -> str:
        """Return the mechanism with its configuration."""
        return label(self.mechanism, self.config)

    def without_transfers(self) -> Case:
        """Return the same case without its transfers."""
        return self._replace(mechanism=self.mechanism + WITHOUT_TRANSFERS)

    def __str__(self) -> str:
        return f"{self.label} on {self.gpus} GPU{'s' if self.gpus > 1 else ''}"


class Wire(NamedTuple):
    """Bytes on the wires of all devices in a whole run. None means unknown."""

    useful: int | None = None
    protocol: int | None = None
    wasted: int | None = None


class Counted(NamedTuple):
    """The reference node's counts of a run: its wire bytes and the work of its kernels."""

    wire: Wire
    work: dict[str, Work]  # maps a kernel's name to its work on all devices
    sent_bytes: list[float]  # one number per exchange of an iteration, summed over all iterations

    def after(self, earlier: Counted, more: int) -> Counted:
        """Return the counts of a longer run: `self`, plus `more` times (`self` minus `earlier`)."""

        def then(now: int | None, before: int | None) -> int | None:
            return None if now is None or before is None else now + more * (now - before)

        was = earlier.wire
        wire = Wire(then(self.wire.useful, was.useful), None, then(self.wire.wasted, was.wasted))
        work = {
            name: work.after(earlier.work.get(name, Work()), more)
            for name, work in self.work.items()
        }
        sent = [
            now + more * (now - before)
            for now, before in zip(self.sent_bytes, earlier.sent_bytes, strict=True)
        ]
        return Counted(wire, work, sent)


def by_exchange(values: Sequence[float], iterations: int) -> list[float]:
    """Return, for each exchange of an iteration, the sum of its values over all iterations.

    If the iterations have different numbers of exchanges, return one sum over all exchanges.
    """
    if len(values) % max(1, iterations) != 0:
        return [sum(values)]
    each = len(values) // max(1, iterations)
    return [sum(values[k::each]) for k in range(each)]


class Event(NamedTuple):
    """A bar in a timeline."""

    device: int
    track: str  # one of: kernel, copy, exchange
    name: str
    start_s: float
    end_s: float


@dataclass
class Outcome:
    """The outcome of a run. Times cover the whole run with all iterations."""

    case: Case
    time_s: float
    copy_s: float
    iterations: int
    timed_iterations: (
        int  # the number of simulated iterations; later iterations repeat the last two of these
    )
    warm_iteration_s: float  # the mean time of the iterations that were not simulated, if any
    residual: float
    values: NDArray[np.float32]  # the result on all devices, with one replica for each device
    wire: Wire = field(default_factory=Wire)
    timeline: list[Event] = field(default_factory=list)
    inside: Inside | None = None  # only for simulated runs
    accesses: int = 0
    remote_transactions: int = 0
    # Stores to other devices. Only simulated runs have them.
    stores: dict[str, Any] = field(default_factory=dict)
    cpu_s: float = 0.0
    peak_rss_mb: float = 0.0  # peak memory of the run's process; 1 MB is 1e6 bytes
    times_s: list[float] = field(default_factory=list)  # for measured runs: the time of each repeat
    raw_tx_bytes: float | None = None  # from NVLink counters; the mean over the repeats
    data_tx_bytes: float | None = None
    # A sentence about each request that the run could not fulfil as the user asked.
    remarks: list[str] = field(default_factory=list)
    # The work of each launch. Only the reference node counts work.
    work: list[dict[str, Any]] = field(default_factory=list)
    # `sent_bytes` and `epoch_s` have a value for each exchange of an iteration, summed over all
    # iterations. `sent_bytes` is set by the reference node: the bytes that the exchange delivered.
    # `epoch_s` is set by measured runs with events: the time of the epoch before the exchange.
    sent_bytes: list[float] = field(default_factory=list)
    epoch_s: list[float] = field(default_factory=list)

    @classmethod
    def of(cls, case: Case, result: dict[str, Any]) -> Self:
        """Return the outcome that the result of a compiled module describes."""
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
            timed_iterations=int(result.get("timed_iterations") or result["iterations"]),
            warm_iteration_s=float(result.get("warm_iteration_s", 0.0)),
            residual=float(result["residual"]),
            values=result["values"],
            wire=Wire()
            if wire is None
            else Wire(*(_whole(wire.get(k)) for k in ("useful", "protocol", "wasted"))),
            timeline=[
                Event(int(e["device"]), e["track"], e["name"], e["start_s"], e["end_s"])
                for e in result["timeline"]
            ],
            inside=None if not result.get("observed") else inside_of(result["observed"]),
            accesses=int(result["accesses"]),
            remote_transactions=int(result["remote_transactions"]),
            stores=dict(result.get("stores", {})),
            cpu_s=float(result["cpu_s"] or 0.0),  # None for measured runs
            peak_rss_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6,
            times_s=times,
            raw_tx_bytes=counted["raw_tx_bytes"],
            data_tx_bytes=counted["data_tx_bytes"],
            remarks=list(result.get("remarks", ())),
            work=list(result.get("work", ())),
            sent_bytes=by_exchange(result.get("sent_bytes", ()), int(result["iterations"])),
            epoch_s=by_exchange(result.get("epoch_s", ()), int(result["iterations"])),
        )

    @property
    def sampled(self) -> bool:
        """Return whether only the first iterations were simulated."""
        return self.timed_iterations < self.iterations

    def forget_values(self) -> None:
        """Free the values, because they may take much memory."""
        import numpy as np

        self.values = np.empty((0, 0), dtype=np.float32)


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)


@contextlib.contextmanager
def core_errors(run: Case | str | None = None) -> Iterator[None]:
    """Translate errors of a compiled module: bad input to UserError, other errors to RunFailure."""
    where = f"{run}: " if run is not None else ""
    try:
        yield
    except MemoryError:
        raise RunFailure(f"{where}there is not enough memory") from None
    except (
        RuntimeError
    ) as error:  # a device or the driver failed, or the program broke a rule of the model
        raise RunFailure(f"{where}{error}") from None


def check_time(outcome: Outcome) -> None:
    """Raise RunFailure if a run's time is impossible."""
    if not (math.isfinite(outcome.time_s) and outcome.time_s > 0):
        raise RunFailure(
            f"{outcome.case}: the run's time is {outcome.time_s} s, which no run can have"
        )
