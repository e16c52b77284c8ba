"""Published figures beside ours: rows with stable keys, their table and their file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from interlace.base import table

FORMAT = 1  # of the file

Value = float | str | None


class FigureRow(msgspec.Struct, frozen=True, kw_only=True):
    """One figure. `key` never changes; None: not known, not published or not measured here."""

    key: str
    figure: str  # of the paper
    quantity: str  # with its unit
    published: Value = None
    simulated: Value = None
    measured: Value = None
    ratio: float | None = None  # of ours, simulated if it was, over the published one
    possible: bool = True  # False: ours cannot be the published figure, and `note` says why
    note: str = ""


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """A run that figures come from; its result was verified where it has a `max_error`."""

    node: str
    machine: str
    workload: str
    data: str
    gpus: int
    mechanism: str
    config: dict[str, int | str]
    iterations: int
    time_s: float
    max_error: float | None  # None: nothing was moved between GPUs, so there is no result
    remote_transactions: int


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """A file of figures."""

    format: int
    paper: str
    quick: bool
    command: str
    version: str
    commit: str | None
    date: str
    seconds: float  # that all runs took
    jobs: int  # simulations at a time
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
    """A row with its ratio, where both sides are numbers."""
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


def print_rows(head: str, rows: Sequence[FigureRow], foot: Sequence[str]) -> None:
    """Print a table of figures; notes follow it, each with the rows that it is about."""
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
    table.print_table(head, cut, [figures.index(r.figure) for r in rows], styles, [*lines, *foot])
