"""Runs of workloads: which one, what it gave, and how it may fail."""

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
    """A run went wrong, through no fault of the input; the command ends with exit code 1."""


class Case(NamedTuple):
    """One run of a workload."""

    gpus: int
    mechanism: str
    config: Config = Config()

    @property
    def label(self) -> str:
        """The mechanism with its configuration."""
        return label(self.mechanism, self.config)

    def without_transfers(self) -> Case:
        """The same run, of which everything is done but the transfers."""
        return self._replace(mechanism=self.mechanism + WITHOUT_TRANSFERS)

    def __str__(self) -> str:
        return f"{self.label} on {self.gpus} GPU{'s' if self.gpus > 1 else ''}"


class Wire(NamedTuple):
    """Bytes on the wires, of all devices and the whole run; None where unknown."""

    useful: int | None = None
    protocol: int | None = None
    wasted: int | None = None


class Counted(NamedTuple):
    """What the reference node says of a run: its wire bytes, and the work of its kernels."""

    wire: Wire
    work: dict[str, Work]  # by the kernel's name, of all devices
    sent_bytes: list[float]  # by the exchanges of an iteration, of all iterations

    def after(self, earlier: Counted, more: int) -> Counted:
        """If what came since `earlier` comes so many times more."""

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
    """What a run has of every exchange, added up for each of those of an iteration.

    The whole of it where iterations differ in their exchanges.
    """
    if len(values) % max(1, iterations) != 0:
        return [sum(values)]
    each = len(values) // max(1, iterations)
    return [sum(values[k::each]) for k in range(each)]


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
    inside: Inside | None = None  # simulated
    accesses: int = 0
    remote_transactions: int = 0
    stores: dict[str, Any] = field(default_factory=dict)  # of kernels to other devices, simulated
    cpu_s: float = 0.0
    peak_rss_mb: float = 0.0  # of the process that ran it, MB = 1e6 bytes
    times_s: list[float] = field(default_factory=list)  # a measured run's repeats
    raw_tx_bytes: float | None = None  # NVLink counters, a run's average
    data_tx_bytes: float | None = None
    remarks: list[str] = field(default_factory=list)  # what went another way than asked
    work: list[dict[str, Any]] = field(default_factory=list)  # of each launch; reference node
    # By the exchanges of an iteration, added up over all: what they deliver (reference node), and
    # how long the epochs before them take with events between them (measured).
    sent_bytes: list[float] = field(default_factory=list)
    epoch_s: list[float] = field(default_factory=list)

    @classmethod
    def of(cls, case: Case, result: dict[str, Any]) -> Self:
        """An outcome from what a compiled module returned."""
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
            cpu_s=float(result["cpu_s"] or 0.0),  # None: measured
            peak_rss_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6,
            times_s=times,
            raw_tx_bytes=counted["raw_tx_bytes"],
            data_tx_bytes=counted["data_tx_bytes"],
            remarks=list(result.get("remarks", ())),
            work=list(result.get("work", ())),
            sent_bytes=by_exchange(result.get("sent_bytes", ()), int(result["iterations"])),
            epoch_s=by_exchange(result.get("epoch_s", ()), int(result["iterations"])),
        )

    def forget_values(self) -> None:
        """Give the values up, which may be large."""
        import numpy as np

        self.values = np.empty((0, 0), dtype=np.float32)


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)


@contextlib.contextmanager
def core_errors(run: Case | str | None = None) -> Iterator[None]:
    """Errors of a compiled module as ours: what the input caused, and what else went wrong."""
    where = f"{run}: " if run is not None else ""
    try:
        yield
    except MemoryError:
        raise RunFailure(f"{where}there is not enough memory") from None
    except RuntimeError as error:  # a device, the model or the driver failed
        raise RunFailure(f"{where}{error}") from None


def check_time(outcome: Outcome) -> None:
    """Raise RunFailure for a time that no run can have."""
    if not (math.isfinite(outcome.time_s) and outcome.time_s > 0):
        raise RunFailure(
            f"{outcome.case}: the run's time is {outcome.time_s} s, which no run can have"
        )
