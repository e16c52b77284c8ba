"""Runs the cases of a study, verifies their results and makes rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from interlace.base.errors import UserError
from interlace.base.native import load_core
from interlace.model.limits import Limit, exchange_memory_s, limit_of
from interlace.model.mechanisms import BASELINE, BOUND, EVERY, Config, Tuning, label
from interlace.model.results import Measured, Sim, Stores, StudyRow, Timelines, WireRow
from interlace.model.run import Case, Counted, Outcome, Wire
from interlace.nodes.nodes import CudaNode, Node, in_processes
from interlace.workloads import Workload


@dataclass(frozen=True)
class Plan:
    """The runs that a study needs."""

    gpus: tuple[int, ...]  # the numbers of GPUs, without 1, in ascending order
    mechanisms: tuple[str, ...]
    tuning: Tuning
    # `profiled` and `besides` map a number of GPUs to configurations. `profiled` has the
    # configurations of profiles, which replace the tuning. `besides` has one additional mechanism
    # with its configuration.
    profiled: Mapping[int, Mapping[str, Config]] = field(default_factory=dict)
    besides: Mapping[int, tuple[str, Config]] = field(default_factory=dict)

    def names(self, gpus: int) -> tuple[str, ...]:
        """Return the mechanisms for this number of GPUs, in the order of their rows."""
        besides = {self.besides[gpus][0]} if gpus in self.besides else set()
        return tuple(name for name in EVERY if name in {*self.mechanisms, *besides})

    def configs(self, gpus: int, mechanism: str, part_bytes: int) -> list[Config]:
        """Return the configurations with which the study runs a mechanism."""
        known = self.profiled.get(gpus, {}).get(mechanism)
        besides, config = self.besides.get(gpus, (None, Config()))
        if known is not None:
            found = [known]
        elif mechanism in self.mechanisms:
            found = self.tuning.configs(mechanism, part_bytes)
        else:
            found = []
        return found if mechanism != besides or config in found else [*found, config]

    def bulk_copies(self) -> list[Case]:
        """Return the cases of bulk-copy on several GPUs. They give the bound of real GPUs."""
        return [Case(gpus, BASELINE) for gpus in self.gpus if BASELINE in self.names(gpus)]

    def may_do_without(self, case: Case) -> bool:
        """Return whether the study may leave this case out.

        The study may leave out a case with an agent of `polling` that copies in bulk, unless the
        user named the case. Such an agent needs much shared memory, so it may not fit on a GPU.
        """
        known = self.profiled.get(case.gpus, {}).get(case.mechanism)
        named = case.config == known or self.besides.get(case.gpus) == case[1:]
        return case.config.bulk_threads is not None and not named

    def cases(self, runs: Callable[[str], bool], largest_part: Callable[[int], int]) -> list[Case]:
        """Return every case whose mechanism the node runs.

        The case with one GPU comes first. `runs` returns whether the node runs a mechanism.
        `largest_part` returns the size of the workload's largest part for a number of GPUs.
        """
        return [
            Case(1, BASELINE),
            *(
                Case(gpus, mechanism, config)
                for gpus in self.gpus
                for mechanism in filter(runs, self.names(gpus))
                for config in self.configs(gpus, mechanism, largest_part(gpus))
            ),
        ]


@dataclass
class Checked:
    """A verified outcome. Its values have been freed, because they may be large."""

    outcome: Outcome
    max_error: float


def _choose(
    plan: Plan, checked: dict[Case, Checked]
) -> tuple[dict[tuple[int, str], Case], list[Case]]:
    """Return the case with the fastest configuration for each row, and all slower cases."""
    best: dict[tuple[int, str], Case] = {}
    for gpus in plan.gpus:
        for mechanism in plan.names(gpus):
            tried = [case for case in checked if case[:2] == (gpus, mechanism)]
            if tried:
                best[gpus, mechanism] = min(
                    tried, key=lambda case: (checked[case].outcome.time_s, case.config.arguments())
                )
    chosen = set(best.values())
    others = [case for case in checked if case.gpus > 1 and case not in chosen]
    return best, sorted(others, key=lambda case: (*case[:2], case.config.arguments()))


class Times:
    """The times from which the figures of the rows are computed."""

    def __init__(self, single_s: float) -> None:
        self.single_s = single_s
        self.bulk_s: dict[int, float] = {}
        self.bound_s: dict[int, float] = {}
        # Maps a number of GPUs to the shortest time in which the links and the memory of the GPUs
        # can make the transfers.
        self.transfer_s: dict[int, float] = {}

    def speedup(self, time_s: float) -> float:
        """Return the speedup over the single GPU of the same node."""
        return self.single_s / time_s

    def opportunity(self, gpus: int) -> float | None:
        """Return the speedup if transfers took no time.

        The speedup of a single GPU is 1, because a single GPU sends nothing.
        """
        if gpus == 1:
            return 1.0
        bound = self.bound_s.get(gpus)
        return None if bound is None else self.speedup(bound)

    def reachable(self, gpus: int) -> float | None:
        """Return the speedup if all transfers are hidden, and links and memory run at full rate."""
        if gpus == 1:
            return 1.0
        bound, transfer = self.bound_s.get(gpus), self.transfer_s.get(gpus)
        return None if bound is None or transfer is None else self.speedup(max(bound, transfer))

    def overlap(self, gpus: int, time_s: float) -> float | None:
        """Return the fraction of bulk-copy's transfer time that a run of `time_s` seconds hides."""
        bulk, bound = self.bulk_s.get(gpus), self.bound_s.get(gpus)
        if bulk is None or bound is None or bulk <= bound:
            return None
        return 1 - (time_s - bound) / (bulk - bound)


class _Rows:
    """Makes rows from checked outcomes."""

    def __init__(self, workload: Workload, node: Node, cases: Sequence[Case]) -> None:
        self.workload, self.node = workload, node
        self.tried: dict[tuple[int, str], list[dict[str, int | str]]] = {}
        for case in cases:
            self.tried.setdefault(case[:2], []).append(case.config.given())

    def row(
        self,
        checked: Checked,
        times: Times,
        wire: Wire,
        limit: Limit | UnsetType = UNSET,
    ) -> StudyRow:
        outcome = checked.outcome
        case = outcome.case
        config: dict[str, Any] = {**case.config.given()}
        if config:
            config["tried"] = self.tried[case[:2]]
        sim: Sim | UnsetType = UNSET
        cuda: Measured | UnsetType = UNSET
        if isinstance(self.node, CudaNode):
            config |= {"warmup": self.node.warmup, "repeats": self.node.repeats}
            if self.node.shares(case.gpus):
                config["shared_gpus"] = self.node.gpus
            if outcome.remarks:
                config["remarks"] = outcome.remarks
            cuda = Measured(
                outcome.times_s, outcome.copy_s, outcome.raw_tx_bytes, outcome.data_tx_bytes
            )
        else:
            sim = Sim(
                outcome.accesses,
                outcome.remote_transactions,
                outcome.cpu_s,
                round(outcome.peak_rss_mb, 1),
                Stores(**outcome.stores) if outcome.stores.get("stores") else None,
                outcome.timed_iterations if outcome.sampled else UNSET,
                outcome.inside or UNSET,
            )
        speedup = times.speedup(outcome.time_s)
        opportunity = times.opportunity(case.gpus)
        return StudyRow(
            workload=self.workload.name,
            data=self.workload.data_name,
            node=self.node.name,
            machine=self.node.machine_name,
            gpus=case.gpus,
            mechanism=case.mechanism,
            config=config,
            iterations=outcome.iterations,
            time_s=outcome.time_s,
            speedup=speedup,
            opportunity=opportunity,
            captured=None if opportunity is None else speedup / opportunity,
            reachable=times.reachable(case.gpus),
            derived=False,
            verified=True,
            max_error=checked.max_error,
            wire=WireRow(*wire),
            overlap=times.overlap(case.gpus, outcome.time_s),
            sim=sim,
            cuda=cuda,
            limit=limit,
        )

    def derived(self, checked: Checked, times: Times) -> StudyRow:
        """Return the row of the bound, for a node that cannot run the bound.

        The row is derived from a run without transfers.
        """
        row = self.row(checked, times, Wire())
        return msgspec.structs.replace(
            row,
            mechanism=BOUND,
            config={"from": row.mechanism, **row.config},
            derived=True,
            verified=False,
            max_error=None,
        )


def _measured_wire(outcome: Outcome, counted: Wire) -> Wire:
    """Return the wire bytes of a measured run.

    The host node counts the bytes that a kernel sends and the bytes that the receivers read. The
    NVLink counter `raw` counts every byte that left the GPUs. All of these bytes except the payload
    are protocol bytes: headers, and the padding of stores that are smaller than a data flit. The
    counter `data` is not used, because it counts this padding as data. Return None if there are no
    counters, or if they show less than the payload.
    """
    protocol = None
    if None not in (outcome.raw_tx_bytes, counted.useful, counted.wasted):
        assert outcome.raw_tx_bytes is not None
        assert counted.useful is not None
        assert counted.wasted is not None
        rest = outcome.raw_tx_bytes - counted.useful - counted.wasted
        protocol = round(rest) if rest >= 0 else None
    return Wire(counted.useful, protocol, counted.wasted)


def _add_transfers(
    node: CudaNode, counted: dict[Case, Counted], bounds: dict[int, Checked], times: Times
) -> None:
    """Add the shortest time in which links and memory can move the payload, at measured rates.

    This time assumes that all GPUs send, receive and compute the same amount, so it is a lower
    bound. A transfer ends at the latest with the exchange that delivers its data. Each epoch
    therefore takes as long as its links need, or as long as the epoch without transfers, whichever
    is longer.
    """
    for gpus, bound in bounds.items():
        if node.shares(gpus):
            continue  # devices that share a GPU have no links to each other
        of = counted[Case(gpus, BASELINE)]
        if of.wire.useful is None or of.wire.wasted is None:
            continue
        links = _hidden_s(
            bound.outcome.time_s,
            bound.outcome.epoch_s,
            [sent / gpus / node.exchange_rate(gpus) for sent in of.sent_bytes],
        )
        sent = of.wire.useful + of.wire.wasted
        memory = exchange_memory_s(of.work, gpus, sent, node.gpu_rates())
        times.transfer_s[gpus] = max(links, memory)


def _hidden_s(time_s: float, epoch_s: Sequence[float], transfer_s: Sequence[float]) -> float:
    """Return the time of a run in which each epoch hides its own transfers.

    `epoch_s` has the time of each epoch. If it is empty, the whole run is treated as one epoch.
    """
    if len(epoch_s) != len(transfer_s) or sum(epoch_s) <= 0:
        return max(time_s, sum(transfer_s))
    share = time_s / sum(epoch_s)
    pairs = zip(epoch_s, transfer_s, strict=True)
    return time_s + sum(max(0.0, its - share * own) for own, its in pairs)


def _count(
    node: CudaNode,
    workload: Workload,
    checked: dict[Case, Checked],
    jobs: int,
    tick: Callable[[], None],
) -> dict[Case, Counted]:
    """Return the host node's counts for each case.

    The wire bytes include the measured protocol bytes. The bytes that exchanges deliver and the
    work of the kernels do not depend on the mechanism.
    """
    core = load_core()
    cache_bytes = node.gpu_rates().cache_bytes
    runs = list(dict.fromkeys((c.gpus, checked[c].outcome.iterations) for c in checked))
    cases = [Case(gpus, BASELINE) for gpus, _ in runs]

    def count(run: tuple[int, int], case: Case) -> tuple[tuple[int, int], Counted]:
        return run, workload.count(core, case, run[1], cache_bytes)

    work = [partial(count, run, case) for run, case in zip(runs, cases, strict=True)]
    counted: dict[tuple[int, int], Counted] = {}
    for run, found in in_processes(work, cases, jobs):
        counted[run] = found
        tick()
    found_of: dict[Case, Counted] = {}
    for case, it in checked.items():
        found = counted[case.gpus, it.outcome.iterations]
        wire = Wire(0, 0, 0) if case.gpus == 1 else _measured_wire(it.outcome, found.wire)
        found_of[case] = found._replace(wire=wire)
    return found_of


def _derived_bounds(
    node: CudaNode,
    workload: Workload,
    plan: Plan,
    checked: Mapping[Case, Checked],
    tick: Callable[[], None],
) -> dict[int, Checked]:
    """Repeat the run of bulk-copy without transfers, for each number of GPUs.

    Each result has the error of the run with transfers.
    """
    bounds = {}
    for case in plan.bulk_copies():
        bulk = checked[case]
        again = node.without_transfers(workload, bulk.outcome)
        bounds[case.gpus] = Checked(again, bulk.max_error)
        tick()
    return bounds


def run_study(
    workload: Workload,
    node: Node,
    plan: Plan,
    jobs: int = 1,
    tick: Callable[[], None] = lambda: None,
) -> tuple[list[StudyRow], list[StudyRow], Timelines]:
    """Run, verify and evaluate the cases.

    Return the rows, the slower configurations and the timelines. The rows are sorted by number of
    GPUs. Their figures do not depend on the order in which runs end. Raise RunFailure as soon as
    one result is wrong.
    """
    cases = plan.cases(node.runs, workload.largest_part)
    checked: dict[Case, Checked] = {}
    found: dict[Case, Checked] = {}
    refused: dict[Case, UserError] = {}
    for case, outcome in node.attempts(workload, cases):
        if not isinstance(outcome, UserError):
            found[case] = Checked(outcome, workload.verify(outcome))
            outcome.forget_values()
        elif plan.may_do_without(case):
            refused[case] = outcome
        else:
            raise outcome
        tick()
    for case in cases:  # rows have the order of the cases, although runs end in any order
        if case in found:
            checked[case] = found[case]
    best, others = _choose(plan, checked)
    for case, reason in refused.items():
        remarks = checked[best[case[:2]]].outcome.remarks
        remarks.append(f"{label(case.mechanism, case.config)} was left out: {reason}")
    single = Case(1, BASELINE)
    times = Times(checked[single].outcome.time_s)
    limit: Limit | UnsetType = UNSET
    counted: dict[Case, Counted] = {}
    bounds: dict[int, Checked]
    if isinstance(node, CudaNode):
        bounds = _derived_bounds(node, workload, plan, checked, tick)
        counted = _count(node, workload, checked, jobs, tick)
        wires = {case: of.wire for case, of in counted.items()}
        limit = limit_of(counted[single].work, node.gpu_rates(), times.single_s) or UNSET
    else:
        bounds = {case.gpus: it for case, it in checked.items() if case.mechanism == BOUND}
        wires = {case: it.outcome.wire for case, it in checked.items()}
    times.bulk_s = {case.gpus: checked[case].outcome.time_s for case in plan.bulk_copies()}
    times.bound_s = {gpus: it.outcome.time_s for gpus, it in bounds.items()}
    if isinstance(node, CudaNode):
        _add_transfers(node, counted, bounds, times)

    make = _Rows(workload, node, list(checked))
    rows = [make.row(checked[single], times, wires[single], limit)]
    for gpus in plan.gpus:
        for mechanism in plan.names(gpus):
            if (gpus, mechanism) in best:
                case = best[gpus, mechanism]
                rows.append(make.row(checked[case], times, wires[case]))
            elif mechanism == BOUND and gpus in bounds:
                rows.append(make.derived(bounds[gpus], times))
    candidates = [make.row(checked[case], times, wires[case]) for case in others]
    return rows, candidates, _timelines(plan, best, checked)


def _timelines(
    plan: Plan, best: dict[tuple[int, str], Case], checked: dict[Case, Checked]
) -> Timelines:
    gpus = plan.gpus[-1] if plan.gpus else 1
    rows = []
    cases = [Case(1, BASELINE)] if gpus == 1 else [c for (g, _), c in best.items() if g == gpus]
    for case in cases:
        events = checked[case].outcome.timeline
        if not events:
            continue
        first = min(event.start_s for event in events)
        moved = [e._replace(start_s=e.start_s - first, end_s=e.end_s - first) for e in events]
        rows.append((case.label, moved))
    return Timelines(gpus, rows)
