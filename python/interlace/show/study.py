"""Prints a study as a table with notes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from interlace.base.counts import counted
from interlace.base.table import (
    BEST,
    BYTES,
    SECONDS,
    UNKNOWN,
    Column,
    fixed,
    percent,
    plain,
    print_table,
    scale,
)
from interlace.model.limits import MEMORY, OPERATIONS, TOGETHER
from interlace.model.mechanism_table import (
    AGENT_THREADS,
    CHUNK_BYTES,
    MULTI_PATH,
    SERIAL_COPY,
    UNIFIED_MEMORY,
)
from interlace.model.mechanisms import (
    BASELINE,
    BEHIND_KERNELS,
    BOUND,
    NOT_AVAILABLE,
    QUEUED,
    ROW_OF,
    Config,
    label,
)

if TYPE_CHECKING:
    from interlace.model.results import Study, StudyRow


SLOWER = "slower"

LIMITED_BY = {
    MEMORY: "the memory's rate",
    TOGETHER: "the rate of all operations together",
    **{kind: f"the rate of {kind} operations" for kind in OPERATIONS},
}


def _rates(rows: Sequence[StudyRow]) -> list[float | None]:
    """Return, for each row, the millions of accesses that were simulated per second of CPU time."""
    return [
        row.sim.accesses / row.sim.cpu_s / 1e6 if row.sim and row.sim.cpu_s > 0 else None
        for row in rows
    ]


def columns(rows: Sequence[StudyRow], *, full: bool = False) -> list[Column]:
    """Return the columns of a study's table.

    Unless `full` is set, the table is at most 105 characters wide.
    """
    time, time_unit = scale((row.time_s for row in rows), SECONDS)
    sizes = [
        value
        for row in rows
        for value in (row.wire.useful, row.wire.protocol, row.wire.wasted)
        if value is not None
    ]
    size, size_unit = scale(sizes, BYTES)

    def wire(kind: str) -> list[str]:
        found: list[int | None] = [getattr(row.wire, kind) for row in rows]
        return fixed([None if value is None else value / size for value in found])

    def mechanism(row: StudyRow) -> str:
        words = label(row.mechanism, Config.of(row.config), short=not full)
        return words + ("*" if row.derived else "")

    found = [
        Column("GPUs", "", [str(row.gpus) for row in rows]),
        Column("mechanism", "", [mechanism(row) for row in rows], number=False),
        Column("time", time_unit, fixed([row.time_s / time for row in rows])),
        Column("speedup", "x", [f"{row.speedup:.2f}" for row in rows]),
        Column(
            "opportunity",
            "x",
            [UNKNOWN if r.opportunity is None else f"{r.opportunity:.2f}" for r in rows],
        ),
        Column("captured", "%", [captured(row.speedup, row.captured) for row in rows]),
        Column("overlap", "%", [percent(row.overlap) for row in rows]),
        Column("useful", size_unit, wire("useful")),
        Column("protocol", size_unit, wire("protocol")),
        Column("wasted", size_unit, wire("wasted")),
    ]
    if full and any(row.sim for row in rows):
        found.append(Column("accesses", "M/CPU s", fixed(_rates(rows), 3)))
    return found


def captured(speedup: float, part: float | None) -> str:
    """Return the cell with a row's share of the opportunity.

    The cell is "slower" if the row is slower than one GPU.
    """
    return SLOWER if is_slower(speedup) and part is not None else percent(part)


def is_slower(speedup: float) -> bool:
    """Return whether the row's speedup, as the table shows it, is below 1."""
    return round(speedup, 2) < 1


def summary(study: Study) -> str:
    """Return a summary of the study in one or two sentences."""
    most = study.rows[-1].gpus
    if most == 1:
        return f"One GPU takes {duration(study.rows[0].time_s)}; it sends nothing."
    rows = [row for row in study.rows if row.gpus == most and row.mechanism != BOUND]
    if not rows:
        return f"{most} GPUs would be {study.rows[-1].speedup:.2f} times as fast as one."
    best = min(rows, key=lambda row: row.time_s)
    name = label(best.mechanism, Config.of(best.config))
    if is_slower(best.speedup):
        slower = f"takes {1 / best.speedup:.2f} times as long"
        return (
            f"With every mechanism, {most} GPUs are slower than one; the fastest, {name}, {slower}."
        )
    text = f"On {most} GPUs, {name} is the fastest: {best.speedup:.2f} times one GPU"
    if best.opportunity is not None and best.captured is not None:
        text += f", {best.captured:.0%} of the opportunity ({best.opportunity:.2f} times)"
    bulk = next((row for row in rows if row.mechanism == BASELINE), None)
    if bulk is not None and bulk is not best:
        text += f", and {bulk.time_s / best.time_s:.2f} times {BASELINE}"
    slow = sum(is_slower(row.speedup) for row in rows)
    if slow:
        verb = "is" if slow == 1 else "are"
        text += f". {slow} of {counted(len(rows), 'mechanism')} {verb} slower than one GPU"
    return text + "."


def duration(value: float) -> str:
    """Return a time with its unit."""
    size, unit = scale([value], SECONDS)
    return f"{value / size:.4g} {unit}"


def headline(study: Study) -> str:
    """Return a line with the workload, the machine, and whether rows are measured or simulated."""
    first = study.rows[0]
    how = "simulated" if first.node == "sim" else "measured"
    counts = sorted({row.iterations for row in study.rows})
    iterations = counted(counts[-1], "iteration")
    if len(counts) > 1:
        iterations = f"{counts[0]} to {iterations}"
    return (
        f"{first.workload}, {first.data} ({study.data['size']}), {iterations}; "
        f"{how} on {first.machine}"
    )


def verification(study: Study) -> tuple[str, str]:
    """Return which rows were verified, and the largest relative error of these rows."""
    worst = max(row.max_error for row in study.rows if row.max_error is not None)
    which = (
        "all rows" if all(row.verified for row in study.rows) else "all rows except derived rows"
    )
    return which, f"{worst:.1e}"


def footers(study: Study) -> list[str]:
    """Return the notes about all rows."""
    which, worst = verification(study)
    lines = [f"{which.capitalize()} verified; the largest relative error is {worst}."]
    rates = [rate for rate in _rates(study.rows) if rate is not None]
    if rates:
        lines.append(
            f"Simulated {min(rates):.2f} to {max(rates):.2f} million accesses per second of CPU "
            "time."
        )
    lines += _sampled(study.rows) + calibrated(study.machine)
    if any(captured(row.speedup, row.captured) == SLOWER for row in study.rows):
        lines.append(
            f"{SLOWER}: this row is slower than one GPU, so no share of the opportunity is shown."
        )
    lines += _packing(study.rows)
    lines += legend(row.mechanism for row in study.rows)
    if any("bulk_threads" in row.config for row in study.rows):
        lines.append("bulk: the agent copies in bulk through shared memory.")
    if any(row.derived for row in study.rows):
        lines.append(f"* derived: the time of {BASELINE}, run again without its copies.")
    lines += _communication(study.rows)
    reachable = {row.gpus: row.reachable for row in study.rows if row.gpus > 1 and row.reachable}
    if reachable:
        shown = ", ".join(f"{value:.2f} x on {gpus} GPUs" for gpus, value in reachable.items())
        lines.append(f"The measured rates of links and memory allow {shown}.")
    lines += _limit(study.rows[0])
    lines += [note for note in study.notes if note.startswith(("Warning: ", "Shared GPU: "))]
    if any(row.gpus > 1 and row.opportunity is None for row in study.rows):
        lines += [note for note in study.notes if note.startswith("opportunity")]
    shown_notes = ("Profile ", f"{MULTI_PATH} on ")
    lines += [n for n in study.notes if NOT_AVAILABLE in n or n.startswith(shown_notes)]
    return lines


def calibrated(machine: Mapping[str, Any]) -> list[str]:
    """Return a note on how much simulated times on this machine differ from measured times.

    The note is empty if the difference is unknown.
    """
    error = machine.get("gpu", {}).get("workload_error_percent")
    if error is None:
        return []
    return [
        "Simulated times of workloads on one GPU of this machine differ from measured times by "
        f"{error:g} % on average (interlace calibrate --workloads)."
    ]


def _sampled(rows: Sequence[StudyRow]) -> list[str]:
    """Return a note on the rows in which only some iterations were simulated."""
    sampled = [row for row in rows if row.sim and row.sim.timed_iterations]
    if not sampled:
        return []
    which = "In every row" if len(sampled) == len(rows) else f"In {counted(len(sampled), 'row')}"
    first = sampled[0]
    assert first.sim
    return [
        f"{which} {first.sim.timed_iterations} of {first.iterations} iterations were simulated; "
        "the other iterations repeat the last two of these. --whole simulates all iterations."
    ]


def _communication(rows: Sequence[StudyRow]) -> list[str]:
    """Return notes that say which fraction of bulk-copy's time the copies take."""
    bound = {row.gpus: row.time_s for row in rows if row.mechanism == BOUND}
    shown = [
        f"{max(0.0, 1 - bound[row.gpus] / row.time_s):.0%} of {BASELINE}'s time on {row.gpus} GPUs"
        for row in rows
        if row.mechanism == BASELINE and row.gpus in bound and row.gpus > 1
    ]
    return [f"Copies take {', '.join(shown)}."] if shown else []


def _alone_s(row: StudyRow, bound: Mapping[int, float]) -> float | None:
    """Return the time of a row's copies alone, or None if the copies run while kernels run."""
    if row.gpus == 1:
        return 0.0
    if row.mechanism in (BASELINE, SERIAL_COPY) and row.gpus in bound:
        return max(0.0, row.time_s - bound[row.gpus])
    if row.cuda and row.mechanism in BEHIND_KERNELS:
        return row.cuda.copy_s
    return None


def phases(rows: Sequence[StudyRow]) -> list[str]:
    """Return a table with the times of an iteration's kernels and copies.

    The table is empty unless the copies follow the kernels.
    """
    bound = {row.gpus: row.time_s for row in rows if row.mechanism == BOUND}
    bulk = {row.gpus: row for row in rows if row.mechanism == BASELINE}
    split = [
        (row, alone)
        for row in rows
        if row.mechanism != BOUND and (alone := _alone_s(row, bound)) is not None
    ]
    size, unit = scale((row.time_s / row.iterations for row, _ in split), SECONDS)

    def times(of: Callable[[StudyRow, float], float]) -> list[str]:
        return fixed([of(row, alone) / row.iterations / size for row, alone in split])

    def gain(row: StudyRow) -> str:
        if row.gpus == 1 or row.gpus not in bulk:
            return UNKNOWN
        over = bulk[row.gpus]
        return f"{over.time_s / over.iterations / (row.time_s / row.iterations):.2f}"

    cut = [
        Column("GPUs", "", [str(row.gpus) for row, _ in split]),
        Column("mechanism", "", [label(r.mechanism, Config.of(r.config)) for r, _ in split], False),
        Column("iteration", unit, times(lambda row, _: row.time_s)),
        Column("compute", unit, times(lambda row, alone: row.time_s - alone)),
        Column("copies", unit, times(lambda _, alone: alone)),
        Column("copies", "%", [percent(alone / row.time_s) for row, alone in split]),
        Column("gain", "x", [gain(row) for row, _ in split]),
    ]
    timed = dict.fromkeys(
        r.mechanism
        for r, _ in split
        if r.cuda and r.gpus > 1 and not (r.mechanism == BASELINE and r.gpus in bound)
    )
    apart = f"Copies of {' and '.join(timed)} were timed between events in separate runs."
    return [
        "The time for which an iteration computes, and the time that its copies add. The column "
        f"'gain' is the speedup of the iteration over {BASELINE}:",
        "",
        *plain(cut, [row.gpus for row, _ in split]).splitlines(),
        *(["", apart] if timed else []),
        "",
    ]


def _shows_phases(study: Study) -> bool:
    from interlace.workloads import WORKLOADS

    return any(
        row.mechanism == MULTI_PATH or WORKLOADS[row.workload].shows_phases for row in study.rows
    )


def _limit(row: StudyRow) -> list[str]:
    """Return the limit of the kernels on one GPU, and the fraction of the limit that they reach."""
    if not row.limit:
        return []
    limit = row.limit
    seconds, unit = scale((limit.time_s,), SECONDS)
    lines = [
        f"The kernels' limit on one GPU is {limit.time_s / seconds:.4g} {unit}, by "
        f"{LIMITED_BY[limit.by]}; the run reaches {limit.reached:.0%} of it."
    ]
    launches = sum(kernel.launches for kernel in limit.kernels)
    cached = sum(kernel.cached_launches for kernel in limit.kernels)
    if cached:
        which = "All" if cached == launches else f"{cached} of {launches}"
        lines.append(
            f"{which} launches touch no more bytes than the L2 "
            "holds, so memory does not limit them."
        )
    return lines


def _packing(rows: Sequence[StudyRow]) -> list[str]:
    """Return notes on the packets that carry remote stores, for the largest number of GPUs."""
    most = max(row.gpus for row in rows)
    lines = []
    for row in rows:
        stores = row.sim.stores if row.sim else None
        if row.gpus != most or row.mechanism not in QUEUED or stores is None:
            continue
        small = sum(stores.sizes[:5]) / stores.stores
        lines.append(
            f"{row.mechanism} on {row.gpus} GPUs: {stores.stores / stores.packets:.1f} stores per "
            f"packet, {small:.0%} of the stores below 32 B."
        )
    return lines


def legend(mechanisms: Iterable[str]) -> list[str]:
    """Return sentences about the parameters that the table shows after the mechanisms' names."""
    figures = {
        (CHUNK_BYTES.name, AGENT_THREADS.name): ("numbers", "are (chunk bytes, threads)"),
        (CHUNK_BYTES.name,): ("number", "is (chunk bytes)"),
    }
    names = dict.fromkeys(mechanisms)
    with_figures: dict[tuple[str, str], list[str]] = {}
    for name in names:
        for family in ROW_OF[name].families[:1]:
            if family in figures:
                with_figures.setdefault(figures[family], []).append(name)
    lines = [
        f"The {noun} after {' and '.join(of_them)} {meaning}."
        for (noun, meaning), of_them in with_figures.items()
    ]
    if lines:
        lines[-1] += " K is 2^10, and M is 2^20."
    if UNIFIED_MEMORY in names:
        lines.append(f"The word after {UNIFIED_MEMORY} is the hint.")
    return lines


def print_study(study: Study) -> None:
    """Print the table to standard output. On a terminal, the table has rules and colours."""
    fastest = _fastest(study.rows)
    styles = [
        BEST if index in fastest else "dim" if row.derived else ""
        for index, row in enumerate(study.rows)
    ]
    foot = footers(study)
    if _shows_phases(study):
        foot = [*phases(study.rows), *foot]
    head = f"{headline(study)}\n{summary(study)}"
    print_table(head, columns(study.rows), [r.gpus for r in study.rows], styles, foot)


def _fastest(rows: Sequence[StudyRow]) -> set[int]:
    """Return the index of the fastest row for each number of GPUs above 1, without the bound."""
    best: dict[int, int] = {}
    for index, row in enumerate(rows):
        if row.gpus == 1 or row.mechanism == BOUND:
            continue
        if row.gpus not in best or row.time_s < rows[best[row.gpus]].time_s:
            best[row.gpus] = index
    return set(best.values())
