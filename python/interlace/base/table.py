"""Prints tables. A terminal shows rules and colours; other outputs get plain aligned text.

Headers name the units. kB, MB and GB are 1e3, 1e6 and 1e9 bytes, and ms is 1e-3 s.
"""

from __future__ import annotations

import math
import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from interlace.base.printable import printable

UNKNOWN = "-"
PAGE = 100  # the width of a page of text, in characters
WRAPPED = 30  # the smallest width of a column of sentences
BEST = "bold green"  # the style of the fastest row


class Column(NamedTuple):
    """A column of a table: its name, its unit and its cells.

    The header has two lines: the name and the unit. `number` says whether the cells are numbers.
    If `wraps` is set, the cells are sentences, which break into lines on a narrow terminal.
    """

    name: str
    unit: str
    cells: list[str]
    number: bool = True
    wraps: bool = False

    @property
    def width(self) -> int:
        """Return the number of characters of the widest cell or header."""
        return max(map(len, (self.name, self.unit, *self.cells)))


def scale(values: Iterable[float], units: Sequence[tuple[float, str]]) -> tuple[float, str]:
    """Return the largest of `units` in which the largest of `values` is at least 1.

    `units` are pairs (size, name) in ascending order.
    """
    largest = max(values, default=0.0)
    fitting = [unit for unit in units if unit[0] <= largest]
    return fitting[-1] if fitting else units[0]


BYTES = ((1.0, "B"), (1e3, "kB"), (1e6, "MB"), (1e9, "GB"), (1e12, "TB"))
SECONDS = ((1e-6, "us"), (1e-3, "ms"), (1.0, "s"))


def fixed(values: Sequence[float | None], digits: int = 4) -> list[str]:
    """Format the numbers of a column with the same number of decimals.

    The number of decimals is such that the largest number has `digits` digits in all.
    """
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
    """Return a share between 0 and 1 as a percentage."""
    return UNKNOWN if value is None else str(round(100 * value))


def terminal() -> bool:
    """Return whether standard output is a terminal."""
    return sys.stdout.isatty()


def print_table(
    head: str,
    cut: Sequence[Column],
    groups: Sequence[int],
    styles: Sequence[str],
    foot: Sequence[str],
) -> None:
    """Print a table, with the headline `head` above the table and the notes `foot` below it.

    `groups` has a number for each row. A new section begins at each row whose number differs from
    the row above. `styles` has the style of each row on a terminal.
    """
    cut = [column._replace(cells=[printable(cell) for cell in column.cells]) for column in cut]
    print(printable(head))
    print()
    if not terminal():
        print(plain(cut, groups))
    else:
        width = shutil.get_terminal_size().columns
        for block in _blocks(cut, width):
            _rich(block, groups, styles)
    print()
    print(printable("\n".join(foot)))


def plain(cut: Sequence[Column], groups: Sequence[int] = ()) -> str:
    """Return aligned text: two lines of header, and a blank line between sections.

    If the lines are longer than PAGE characters, the columns move closer together.
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
    """Return the columns in blocks that fit on the terminal.

    Each block begins with the columns that name the row. If the columns need several blocks, the
    columns about bytes on the wire begin a new block.
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
