"""Makes rows that compare published figures with Interlace's figures.

Also makes the table and the file of these rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from interlace.base import table
from interlace.base.counts import counted

FORMAT = 1  # the format version of the file
FURTHEST = 3  # the summary names at most this many figures

Value = float | str | None


class FigureRow(msgspec.Struct, frozen=True, kw_only=True):
    """One figure. `key` never changes. None means unknown, unpublished or not measured."""

    key: str
    figure: str  # the figure, table or section of the paper
    quantity: str  # the meaning of the value, with its unit
    published: Value = None
    simulated: Value = None
    measured: Value = None
    ratio: float | None = (
        None  # our figure (simulated, or else measured) divided by the published figure
    )
    possible: bool = True  # False if our figure cannot match the published one; `note` says why
    note: str = ""

    @property
    def ours(self) -> Value:
        """Return the simulated value, or the measured value if there is no simulated value."""
        return self.measured if self.simulated is None else self.simulated


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """A run from which figures are computed. A run with a `max_error` was verified."""

    node: str
    machine: str
    workload: str
    data: str
    gpus: int
    mechanism: str
    config: dict[str, int | str]
    iterations: int
    time_s: float
    max_error: float | None  # None if the run has no result, because it has no transfers
    remote_transactions: int


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a file of figures."""

    format: int
    paper: str
    quick: bool
    command: str
    version: str
    commit: str | None
    date: str
    seconds: float  # the time of all runs together, in seconds
    jobs: int  # the number of simulations that ran at a time
    inputs: dict[str, Any]
    rows: list[FigureRow]
    runs: list[Run]


def row(
    key: str,
    figure: str,
    quantity: str,
    published: Value = None,
    *,
    simulated: Value = None,
    measured: Value = None,
    possible: bool = True,
    note: str = "",
) -> FigureRow:
    """Return a row. It has a ratio if the published value and our value are numbers."""
    ours = measured if simulated is None else simulated
    ratio = None
    if isinstance(published, int | float) and isinstance(ours, int | float) and published:
        ratio = ours / published
    return FigureRow(
        key=key,
        figure=figure,
        quantity=quantity,
        published=published,
        simulated=simulated,
        measured=measured,
        ratio=ratio,
        possible=possible,
        note=note,
    )


def _text(value: Value) -> str:
    if value is None:
        return table.UNKNOWN
    return value if isinstance(value, str) else f"{value:.3g}"


def agreement(rows: Sequence[FigureRow]) -> list[str]:
    """Return one or two sentences that say how far our figures are from the published figures."""
    compared = [one for one in rows if one.ratio is not None and one.ratio > 0 and one.possible]

    def off(one: FigureRow) -> float:
        assert one.ratio is not None
        return max(one.ratio, 1 / one.ratio)

    def within(factor: float) -> int:
        return sum(off(one) <= factor for one in compared)

    lines = [
        f"{counted(len(rows), 'figure')}; {len(compared)} can be compared with published numbers: "
        f"{within(1.1)} are within 10 %, {within(1.25)} within 25 %, {within(2)} within a factor "
        "of 2."
    ]
    furthest = sorted(compared, key=off, reverse=True)[:FURTHEST]
    if furthest:
        shown = (
            f"{it.key} (published {_text(it.published)}, ours {_text(it.ours)})" for it in furthest
        )
        lines.append(f"Furthest off: {', '.join(shown)}.")
    return lines


def print_rows(head: str, rows: Sequence[FigureRow], summary: Sequence[str]) -> None:
    """Print a summary and a table of figures. Below the table, print each note after the keys of
    its rows.
    """
    cut = [
        table.Column("figure", "", [row.figure for row in rows], number=False),
        table.Column("quantity", "", [row.quantity for row in rows], number=False),
        table.Column("published", "", [_text(row.published) for row in rows]),
        table.Column("simulated", "", [_text(row.simulated) for row in rows]),
        table.Column("measured", "", [_text(row.measured) for row in rows]),
        table.Column("ratio", "", [_text(row.ratio) for row in rows]),
        table.Column("key", "", [row.key for row in rows], number=False),
    ]
    figures = list(dict.fromkeys(row.figure for row in rows))
    styles = ["" if row.published is None else "bold" for row in rows]
    notes: dict[str, list[str]] = {}
    for one in rows:
        if one.note:
            notes.setdefault(one.note, []).append(one.key)
    lines = [f"{', '.join(keys)}: {note}" for note, keys in notes.items()]
    head = "\n".join([head, "", *agreement(rows), *summary])
    foot = [*lines, "The summary is above the table."]
    table.print_table(head, cut, [figures.index(r.figure) for r in rows], styles, foot)
