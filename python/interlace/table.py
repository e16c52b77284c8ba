"""Tables for people: with rules and colour on a terminal, plain aligned text elsewhere.

Units stand in the header; kB, MB and GB are 1e3, 1e6 and 1e9 bytes, ms is 1e-3 s.
"""

from __future__ import annotations

import math
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from interlace.limits import MEMORY, OPERATIONS, TOGETHER
from interlace.mechanisms import (
    BASELINE,
    BEHIND_KERNELS,
    BOUND,
    MULTI_PATH,
    NOT_AVAILABLE,
    QUEUED,
    SERIAL,
    Config,
    label,
)

if TYPE_CHECKING:
    from interlace.results import Row, Study

UNKNOWN = "-"
PAGE = 100  # characters
WRAPPED = 30  # the least characters for sentences
BEST = "bold green"  # the style of what won
LIMITED_BY = {
    MEMORY: "the memory's rate",
    TOGETHER: "the rate of all operations together",
    **{kind: f"the rate of {kind} operations" for kind in OPERATIONS},
}


class Column(NamedTuple):
    """A column: two lines of header (name, unit), cells, and whether they are numbers.

    A column that `wraps` may hold sentences; where a terminal is narrow, their lines break.
    """

    name: str
    unit: str
    cells: list[str]
    number: bool = True
    wraps: bool = False

    @property
    def width(self) -> int:
        """Characters of the widest cell or header."""
        return max(map(len, (self.name, self.unit, *self.cells)))


def scale(values: Iterable[float], units: Sequence[tuple[float, str]]) -> tuple[float, str]:
    """The largest of `units` (size, name; ascending) in which the largest value is at least 1."""
    largest = max(values, default=0.0)
    fitting = [unit for unit in units if unit[0] <= largest]
    return fitting[-1] if fitting else units[0]


BYTES = ((1.0, "B"), (1e3, "kB"), (1e6, "MB"), (1e9, "GB"), (1e12, "TB"))
SECONDS = ((1e-6, "us"), (1e-3, "ms"), (1.0, "s"))


def fixed(values: Sequence[float | None], digits: int = 4) -> list[str]:
    """Numbers of a column, all with as many decimals as give the largest `digits` digits."""
    known = [abs(value) for value in values if value is not None and math.isfinite(value)]
    largest = max(known, default=0.0)
    places = digits - 1 - math.floor(math.log10(largest)) if largest > 0 else 0
    places = min(max(places, 0), 9)
    return [
        UNKNOWN
        if value is None or not math.isfinite(value)
        else "0"
        if value == 0
        else f"{value:.{places}f}"
        for value in values
    ]


def percent(value: float | None) -> str:
    """A part of one as a percentage."""
    return UNKNOWN if value is None else str(round(100 * value))


def _rates(rows: Sequence[Row]) -> list[float | None]:
    """Millions of accesses that each row simulated in a CPU second."""
    return [
        row.sim.accesses / row.sim.cpu_s / 1e6 if row.sim and row.sim.cpu_s > 0 else None
        for row in rows
    ]


def columns(rows: Sequence[Row], *, full: bool = False) -> list[Column]:
    """The columns of a study's table, which is at most 105 wide, or `full`."""
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

    def mechanism(row: Row) -> str:
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
        Column("captured", "%", [percent(row.captured) for row in rows]),
        Column("overlap", "%", [percent(row.overlap) for row in rows]),
        Column("useful", size_unit, wire("useful")),
        Column("protocol", size_unit, wire("protocol")),
        Column("wasted", size_unit, wire("wasted")),
    ]
    if full and any(row.sim for row in rows):
        found.append(Column("accesses", "M/CPU s", fixed(_rates(rows), 3)))
    return found


def headline(study: Study) -> str:
    """What was run, where, and whether it was measured."""
    first = study.rows[0]
    how = "simulated" if first.node == "sim" else "measured"
    counts = sorted({row.iterations for row in study.rows})
    iterations = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return (
        f"{first.workload}, {first.data} ({study.data['size']}), {iterations} iterations; "
        f"{how} on {first.machine}"
    )


def verification(study: Study) -> tuple[str, str]:
    """Which rows were verified, and the largest relative error of these."""
    worst = max(row.max_error for row in study.rows if row.max_error is not None)
    which = "all rows" if all(row.verified for row in study.rows) else "all rows but derived ones"
    return which, f"{worst:.1e}"


def footers(study: Study) -> list[str]:
    """What holds for all rows."""
    which, worst = verification(study)
    lines = [f"{which.capitalize()} verified; the largest relative error is {worst}."]
    rates = [rate for rate in _rates(study.rows) if rate is not None]
    if rates:
        lines.append(
            f"Simulated {min(rates):.2f} to {max(rates):.2f} million accesses a CPU second."
        )
    lines += _packing(study.rows)
    lines += legend(row.mechanism for row in study.rows)
    if any("bulk_threads" in row.config for row in study.rows):
        lines.append("bulk: the agent's threads copy in bulk, through shared memory.")
    if any(row.derived for row in study.rows):
        lines.append("* derived: the time of bulk-copy, run again without its copies.")
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


def _communication(rows: Sequence[Row]) -> list[str]:
    """How much of the bulk copy's time its copies are."""
    bound = {row.gpus: row.time_s for row in rows if row.mechanism == BOUND}
    shown = [
        f"{max(0.0, 1 - bound[row.gpus] / row.time_s):.0%} on {row.gpus} GPUs"
        for row in rows
        if row.mechanism == BASELINE and row.gpus in bound and row.gpus > 1
    ]
    return [f"Copies are {', '.join(shown)} of bulk-copy's time."] if shown else []


def _alone_s(row: Row, bound: Mapping[int, float]) -> float | None:
    """What the row's copies take for themselves; None where they run beside kernels."""
    if row.gpus == 1:
        return 0.0
    if row.mechanism in (BASELINE, SERIAL) and row.gpus in bound:
        return max(0.0, row.time_s - bound[row.gpus])
    if row.cuda and row.mechanism in BEHIND_KERNELS:
        return row.cuda.copy_s
    return None


def phases(rows: Sequence[Row]) -> list[str]:
    """An iteration of each row whose copies stand behind its kernels: a table of both parts."""
    bound = {row.gpus: row.time_s for row in rows if row.mechanism == BOUND}
    bulk = {row.gpus: row for row in rows if row.mechanism == BASELINE}
    split = [
        (row, alone)
        for row in rows
        if row.mechanism != BOUND and (alone := _alone_s(row, bound)) is not None
    ]
    size, unit = scale((row.time_s / row.iterations for row, _ in split), SECONDS)

    def times(of: Callable[[Row, float], float]) -> list[str]:
        return fixed([of(row, alone) / row.iterations / size for row, alone in split])

    def gain(row: Row) -> str:
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
    apart = f"Copies of {' and '.join(timed)} were timed between events, in other runs."
    return [
        "What an iteration computes, and what its copies add; gain is over bulk-copy:",
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


def _limit(row: Row) -> list[str]:
    """What limits the kernels on one GPU, and how near they come to it."""
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
        lines.append(f"{which} launches touch no more than the L2 holds: there memory is no limit.")
    return lines


def _packing(rows: Sequence[Row]) -> list[str]:
    """What queues of remote stores made of them, on the most GPUs."""
    most = max(row.gpus for row in rows)
    lines = []
    for row in rows:
        stores = row.sim.stores if row.sim else None
        if row.gpus != most or row.mechanism not in QUEUED or stores is None:
            continue
        small = sum(stores.sizes[:5]) / stores.stores
        lines.append(
            f"{row.mechanism} on {row.gpus} GPUs: {stores.stores / stores.packets:.1f} stores a "
            f"packet, {small:.0%} of them below 32 B."
        )
    return lines


def legend(mechanisms: Iterable[str]) -> list[str]:
    """What the figures beside these mechanisms are."""
    figures = {
        "polling": "(chunk bytes, threads)",
        "device-launch": "(chunk bytes, threads)",
        "copy-engine": "(chunk bytes)",
        "proact-hardware": "(chunk bytes)",
    }
    names = dict.fromkeys(mechanisms)
    with_figures: dict[str, list[str]] = {}
    for name in names:
        if name in figures:
            with_figures.setdefault(figures[name], []).append(name)
    lines = [f"{', '.join(of_them)} {what}," for what, of_them in with_figures.items()]
    if lines:
        lines[-1] = lines[-1].removesuffix(",") + ": K is 2^10, M 2^20."
    return [*lines, "unified-memory (hint)."] if "unified-memory" in names else lines


def terminal() -> bool:
    """Whether people see standard output as it is printed."""
    return sys.stdout.isatty()


def print_study(study: Study) -> None:
    """Print the table to standard output, with rules and colour if that is a terminal."""
    fastest = _fastest(study.rows)
    styles = [
        BEST if index in fastest else "dim" if row.derived else ""
        for index, row in enumerate(study.rows)
    ]
    foot = footers(study)
    if _shows_phases(study):
        foot = [*phases(study.rows), *foot]
    print_table(headline(study), columns(study.rows), [r.gpus for r in study.rows], styles, foot)


def print_table(
    head: str,
    cut: Sequence[Column],
    groups: Sequence[int],
    styles: Sequence[str],
    foot: Sequence[str],
) -> None:
    """Print a table between its headline and what holds for all rows.

    A new section begins where `groups` changes; `styles` are those of rows on a terminal.
    """
    print(head)
    print()
    if not terminal():
        print(plain(cut, groups))
    else:
        width = shutil.get_terminal_size().columns
        for block in _blocks(cut, width):
            _rich(block, groups, styles)
    print()
    print("\n".join(foot))


def plain(cut: Sequence[Column], groups: Sequence[int] = ()) -> str:
    """Aligned text: two lines of header, a blank line before each section but the first.

    Columns stand closer where only that keeps lines within a page of text.
    """
    cells, gaps = sum(column.width for column in cut), len(cut) - 1
    gap = " " if cells + gaps <= PAGE < cells + 2 * gaps else "  "
    lines = [_line(cut, [c.name for c in cut], gap), _line(cut, [c.unit for c in cut], gap)]
    for index in range(len(cut[0].cells)):
        if index and groups and groups[index] != groups[index - 1]:
            lines.append("")
        lines.append(_line(cut, [c.cells[index] for c in cut], gap))
    return "\n".join(lines)


def _line(cut: Sequence[Column], cells: Sequence[str], gap: str) -> str:
    words = [
        cell.rjust(column.width) if column.number else cell.ljust(column.width)
        for column, cell in zip(cut, cells, strict=True)
    ]
    return gap.join(words).rstrip()


def _blocks(cut: Sequence[Column], width: int) -> list[list[Column]]:
    """The columns in blocks no wider than the terminal; each begins with the row's name.

    Where one block does not do, the bytes on the wire begin a new one.
    """
    if _table_width(cut) <= width:
        return [list(cut)]
    name = list(cut[:2])
    blocks: list[list[Column]] = [list(name)]
    for column in cut[2:]:
        full = column.name == "useful" or _table_width([*blocks[-1], column]) > width
        if full and len(blocks[-1]) > len(name):
            blocks.append(list(name))
        blocks[-1].append(column)
    return blocks


def _table_width(cut: Sequence[Column]) -> int:
    widths = (min(column.width, WRAPPED) if column.wraps else column.width for column in cut)
    return sum(width + 2 for width in widths) + 2


def _rich(cut: Sequence[Column], groups: Sequence[int], styles: Sequence[str]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    made = Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False, collapse_padding=True)
    for column in cut:
        made.add_column(
            f"{column.name}\n{column.unit}",
            justify="right" if column.number else "left",
            no_wrap=not column.wraps,
        )
    for index, group in enumerate(groups):
        if index and group != groups[index - 1]:
            made.add_section()
        made.add_row(*(Text(column.cells[index], style=styles[index]) for column in cut))
    Console(no_color="NO_COLOR" in os.environ or None).print(made)


def _fastest(rows: Sequence[Row]) -> set[int]:
    """The fastest mechanism of each number of GPUs above 1, the bound aside."""
    best: dict[int, int] = {}
    for index, row in enumerate(rows):
        if row.gpus == 1 or row.mechanism == BOUND:
            continue
        if row.gpus not in best or row.time_s < rows[best[row.gpus]].time_s:
            best[row.gpus] = index
    return set(best.values())
