"""The overlap microbenchmark (PROACT, sections IV-C and V-A).

The benchmark measures how much of a transfer each mechanism hides if the transfer takes as long as
the kernel that produces the data. A kernel on the first GPU computes a region, and several other
GPUs (the peers) need the whole region. With bulk copies, the kernel runs for half of the time, and
the links are busy for the other half. So the speedup over bulk copies cannot exceed 2. The limit is
lower for a mechanism that cannot fill the links even while no kernel computes.
"""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from interlace.base.errors import UserError
from interlace.base.progress import progress
from interlace.base.turns import turn
from interlace.model.mechanisms import (
    BASELINE,
    GIB,
    TRACKED,
    WITHOUT_TRANSFERS,
    Config,
    Tuning,
    label,
    size_text,
)
from interlace.model.options import whole_numbers
from interlace.model.results import BenchmarkFile
from interlace.model.run import RunFailure, core_errors
from interlace.nodes.nodes import CudaNode, measured_by

MOST_RATE_BYTES = (
    GIB  # the bytes of the transfer that measures a mechanism's rate while no kernel computes
)
FIRST_ROUNDS = 64
CLOSE_ENOUGH = 0.02  # the kernel's time may differ from the transfer's time by this fraction
MOST_TUNING_RUNS = 8


class OverlapRow(msgspec.Struct):
    """The measurements of one configuration. `epoch_s` is the time of an epoch in each repeat."""

    peers: int
    mechanism: str
    config: dict[str, int | str]
    # the reason why the configuration is not possible; all fields below are then empty
    reason: str | None = None
    epoch_s: list[float] = []
    time_s: float | None = None  # the median of `epoch_s`
    speedup: float | None = None  # the speedup over bulk-copy
    rate_bytes: int | None = None  # the bytes per peer and epoch in the runs that measure the rate
    rate_epoch_s: list[float] = []
    gb_per_s: float | None = None  # the rate to all peers together
    limit: float | None = None  # the largest possible speedup; None for bulk-copy
    of_limit: float | None = None
    best: bool = (
        False  # whether this is the fastest configuration of its mechanism; false for bulk-copy
    )
    # The time that tracking adds to a run without transfers, divided by the time of this run. Only
    # the best configuration of a mechanism that tracks chunks has this figure.
    tracking: float | None = None
    # the time of an epoch in each repeat of this row's configuration, but without transfers
    untransferred_epoch_s: list[float] = []
    remarks: list[str] = []


class Balance(msgspec.Struct):
    """How the kernel was calibrated: it takes as long as the transfer to these peers."""

    peers: int
    rounds: int  # the number of rounds of computation in the kernel
    transfer_s: float  # the time of the bulk copy
    compute_s: float  # the time of the kernel alone
    spread: float  # the change of bulk-copy's time from start to end, as a fraction; never negative
    copied_epoch_s: list[float]  # the time of bulk-copy with a kernel that does not compute
    stored_epoch_s: list[float]  # the time of a kernel that runs alone and does not compute
    compute_epoch_s: list[float]
    bulk_epoch_s: list[list[float]]  # the time of bulk-copy at the start, and again at the end


class OverlapResults(BenchmarkFile):
    """The content of a results file of `interlace bench overlap`."""

    bytes: int
    epochs: int
    warmup: int
    repeats: int
    balances: list[Balance]
    rows: list[OverlapRow]


@dataclass(frozen=True)
class Epochs:
    """The epochs of a measured configuration."""

    epoch_s: list[float]
    remarks: list[str]

    @property
    def time_s(self) -> float:
        """Return the median time of an epoch."""
        return statistics.median(self.epoch_s)


class Overlap:
    """The benchmark, on the GPUs of this computer."""

    def __init__(self, cuda: Any, size: int, epochs: int, warmup: int, repeats: int) -> None:
        self.cuda = cuda
        self.size = size
        self.epochs, self.warmup, self.repeats = epochs, warmup, repeats

    def measure(
        self,
        peers: int,
        mechanisms: Sequence[str],
        tuning: Tuning,
        tick: Callable[[], None] = lambda: None,
    ) -> tuple[Balance, list[OverlapRow]]:
        """Measure every configuration with these peers. The baseline, bulk-copy, comes first.

        Calls `tick` as many times as `steps` returns.
        """
        balance = self.balance(peers)
        tick()
        first = self._run(peers, BASELINE, Config(), balance.rounds)
        rows = []
        for mechanism, config in _configs(mechanisms, tuning, self.size):
            tick()
            rows.append(self._row(balance, mechanism, config))
        tick()
        last = self._run(peers, BASELINE, Config(), balance.rounds)
        balance.bulk_epoch_s = [first.epoch_s, last.epoch_s]
        balance.spread = abs(last.time_s - first.time_s) / first.time_s
        rows.insert(0, self._bulk_row(peers, first, last))
        tick()

        bulk_s = rows[0].time_s
        for row in rows:
            if bulk_s is None or row.time_s is None:
                continue
            row.speedup = bulk_s / row.time_s
            if row.limit is not None:
                row.of_limit = row.speedup / row.limit
        for mechanism in set(mechanisms) - {BASELINE}:
            own = [row for row in rows if row.mechanism == mechanism and row.speedup is not None]
            if own:
                max(own, key=lambda row: row.speedup or 0).best = True
        self._add_tracking(balance, rows)
        tick()
        return balance, rows

    def _add_tracking(self, balance: Balance, rows: Sequence[OverlapRow]) -> None:
        """Add the time that tracking readiness takes without transfers (PROACT, section V-C)."""
        best = [row for row in rows if row.best and row.mechanism in TRACKED]
        if not best:
            return
        name = BASELINE + WITHOUT_TRANSFERS
        alone = self._run(balance.peers, name, Config(), balance.rounds)
        next(it for it in rows if it.mechanism == BASELINE).untransferred_epoch_s = alone.epoch_s
        for row in best:
            name, config = row.mechanism + WITHOUT_TRANSFERS, Config.of(row.config)
            found = self._run(balance.peers, name, config, balance.rounds)
            row.untransferred_epoch_s = found.epoch_s
            row.tracking = found.time_s / alone.time_s - 1

    def gain(self, balance: Balance, mechanism: str, config: Config) -> float:
        """Measure bulk-copy and then a configuration. Return its speedup over bulk-copy."""
        copied = self._run(balance.peers, BASELINE, Config(), balance.rounds)
        return copied.time_s / self._run(balance.peers, mechanism, config, balance.rounds).time_s

    def steps(self, mechanisms: Sequence[str], tuning: Tuning) -> int:
        """Return how many times a measurement calls `tick`."""
        return 4 + len(_configs(mechanisms, tuning, self.size))

    def _run(
        self,
        peers: int,
        mechanism: str,
        config: Config,
        rounds: int,
        *,
        size: int | None = None,
        deliver: bool = True,
    ) -> Epochs:
        ranges, chunk_bytes, agent_threads, variant = config.arguments()
        where = f"{label(mechanism, config)} to {peers_text(peers)}"
        with turn(), core_errors(where):
            result = self.cuda.measure_overlap(
                peers=peers,
                bytes=self.size if size is None else size,
                mechanism=mechanism,
                chunk_bytes=chunk_bytes,
                agent_threads=agent_threads,
                split_ranges=ranges,
                variant=variant,
                rounds=rounds,
                epochs=self.epochs,
                warmup=self.warmup,
                repeats=self.repeats,
                deliver=deliver,
            )
        return Epochs([float(t) for t in result["epoch_s"]], list(result["remarks"]))

    def _kernel(self, peers: int, rounds: int) -> Epochs:
        return self._run(peers, BASELINE, Config(), rounds, deliver=False)

    def balance(self, peers: int) -> Balance:
        """Find the number of rounds with which the kernel takes as long as the bulk copy."""
        copied = self._run(peers, BASELINE, Config(), 0)
        stored = self._kernel(peers, 0)
        transfer_s = copied.time_s - stored.time_s
        if transfer_s <= 0:
            raise RunFailure(
                f"the copies of {size_text(self.size)} to {peers_text(peers)} are too short to be "
                "measured; give more --bytes"
            )
        # With few rounds, the kernel's time is the time of its memory accesses. With many rounds,
        # the time is proportional to the number of rounds, and one correction is exact. In between,
        # each correction brings the kernel's time closer to the target.
        tried: dict[int, Epochs] = {}
        rounds = FIRST_ROUNDS
        while rounds not in tried and len(tried) < MOST_TUNING_RUNS:
            found = tried[rounds] = self._kernel(peers, rounds)
            if abs(found.time_s / transfer_s - 1) > CLOSE_ENOUGH:
                rounds = max(1, round(rounds * transfer_s / found.time_s))
        rounds = min(tried, key=lambda n: abs(tried[n].time_s - transfer_s))
        return Balance(
            peers=peers,
            rounds=rounds,
            transfer_s=transfer_s,
            compute_s=tried[rounds].time_s,
            spread=0.0,
            copied_epoch_s=copied.epoch_s,
            stored_epoch_s=stored.epoch_s,
            compute_epoch_s=tried[rounds].epoch_s,
            bulk_epoch_s=[],
        )

    def _row(self, balance: Balance, mechanism: str, config: Config) -> OverlapRow:
        row = OverlapRow(balance.peers, mechanism, config.given())
        try:
            found = self._run(balance.peers, mechanism, config, balance.rounds)
        except UserError as refused:
            row.reason = str(refused)
            return row
        row.epoch_s, row.time_s, row.remarks = found.epoch_s, found.time_s, found.remarks
        self._add_rate(row, config)
        if row.gb_per_s is not None:
            least_s = max(balance.compute_s, 1e-9 * balance.peers * self.size / row.gb_per_s)
            row.limit = (balance.compute_s + balance.transfer_s) / least_s
        return row

    def _bulk_row(self, peers: int, first: Epochs, last: Epochs) -> OverlapRow:
        row = OverlapRow(peers, BASELINE, {})
        both = Epochs([*first.epoch_s, *last.epoch_s], sorted({*first.remarks, *last.remarks}))
        row.epoch_s, row.time_s, row.remarks = both.epoch_s, both.time_s, both.remarks
        self._add_rate(row, Config())
        return row

    def _add_rate(self, row: OverlapRow, config: Config) -> None:
        """Add the rate at which the mechanism transfers while no kernel computes.

        The transfer is so large that the time of its start and end does not matter. A mechanism may
        refuse to transfer so many bytes.
        """
        for size in (max(self.size, min(4 * self.size, MOST_RATE_BYTES)), self.size):
            with contextlib.suppress(UserError):
                found = self._run(row.peers, row.mechanism, config, 0, size=size)
                row.rate_bytes, row.rate_epoch_s = size, found.epoch_s
                row.gb_per_s = 1e-9 * row.peers * size / found.time_s
                return


def peers_text(count: int) -> str:
    """Return a number of peers in words, such as "2 peers"."""
    return f"{count} peer{'s' if count > 1 else ''}"


def _configs(mechanisms: Sequence[str], tuning: Tuning, size: int) -> list[tuple[str, Config]]:
    return [
        (mechanism, config)
        for mechanism in mechanisms
        if mechanism != BASELINE
        for config in tuning.configs(mechanism, size)
    ]


def chosen_peers(text: str | None, gpus: int, machine: str) -> list[int]:
    """Return the numbers of receiving GPUs to measure."""
    if gpus < 2:
        raise UserError(f"overlap needs at least 2 GPUs; {machine} has 1")
    chosen = sorted({1, gpus - 1}) if text is None else whole_numbers("--peers", text, "peers")
    if chosen[-1] >= gpus:
        raise UserError(
            f"--peers {chosen[-1]}: on {machine} the first GPU has {peers_text(gpus - 1)}; "
            f"give at most {gpus - 1}"
        )
    return chosen


def measure_all(
    node: CudaNode, counts: Sequence[int], mechanisms: Sequence[str], tuning: Tuning, size: int,
    asked: tuple[int, int, int],
) -> OverlapResults:  # fmt: skip
    """Measure every configuration with each number of peers.

    `asked` has the numbers of epochs, warm-ups and repeats.
    """
    measured = Overlap(node.cuda, size, *asked)
    balances: list[Balance] = []
    rows: list[OverlapRow] = []
    steps = len(counts) * measured.steps(mechanisms, tuning)
    with progress(f"overlap on {node.machine_name}", steps) as tick:
        for count in counts:
            balance, found = measured.measure(count, mechanisms, tuning, tick)
            balances.append(balance)
            rows += found
    return OverlapResults(
        **measured_by("overlap", node),
        bytes=size,
        epochs=asked[0],
        warmup=asked[1],
        repeats=asked[2],
        balances=balances,
        rows=rows,
    )
