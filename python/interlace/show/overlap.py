"""Prints measured overlap as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from interlace.base import table
from interlace.model.mechanisms import BASELINE, NOT_AVAILABLE, Config, label, size_text
from interlace.study import overlap
from interlace.study.overlap import peers_text


def _columns(rows: Sequence[overlap.OverlapRow]) -> list[table.Column]:
    def figures(values: Sequence[float | None]) -> list[str]:
        return [table.UNKNOWN if value is None else f"{value:.2f}" for value in values]

    microseconds = [None if row.time_s is None else 1e6 * row.time_s for row in rows]
    names = [label(row.mechanism, Config.of(row.config)) for row in rows]
    return [
        table.Column("peers", "", [str(row.peers) for row in rows]),
        table.Column("mechanism", "", names, number=False),
        table.Column("epoch", "us", table.fixed(microseconds)),
        table.Column("speedup", "x", figures([row.speedup for row in rows])),
        table.Column("own rate", "GB/s", table.fixed([row.gb_per_s for row in rows])),
        table.Column("limit", "x", figures([row.limit for row in rows])),
        table.Column("of limit", "%", [table.percent(row.of_limit) for row in rows]),
        table.Column("", "", ["best" if row.best else "" for row in rows], number=False),
    ]


def _footers(results: overlap.OverlapResults) -> list[str]:
    lines = [
        f"{peers_text(it.peers)}: the copies take {1e6 * it.transfer_s:.1f} us, and the kernel "
        f"alone takes {1e6 * it.compute_s:.1f} us ({it.rounds} rounds); {BASELINE}'s times at the "
        f"start and at the end differ by {100 * it.spread:.1f} %."
        for it in results.balances
    ]
    remarks: dict[str, list[str]] = {}
    for row in results.rows:
        where = f"{label(row.mechanism, Config.of(row.config))} to {peers_text(row.peers)}"
        if row.reason is not None:
            lines.append(f"{where}: not possible: {row.reason}")
        if row.tracking is not None:
            lines.append(f"{where}: tracking alone takes {100 * row.tracking:.1f} % of the time.")
        for remark in row.remarks:
            remarks.setdefault(remark, []).append(where)
    for remark, (first, *more) in remarks.items():
        times = {0: "", 1: " and 1 more row"}.get(len(more), f" and {len(more)} more rows")
        lines.append(f"{first}{times}: {remark}")
    return lines


def print_overlap(results: overlap.OverlapResults, left_out: Mapping[str, str]) -> None:
    rows = results.rows
    head = (
        f"overlap: copies of {size_text(results.bytes)} to each peer beside a kernel of equal "
        f"length; measured on {results.machine['name']}"
    )
    styles = [table.BEST if row.best else "dim" if row.reason else "" for row in rows]
    cut = _columns(rows)
    foot = _footers(results)
    foot += [f"{name}{NOT_AVAILABLE}{reason}." for name, reason in left_out.items()]
    table.print_table(head, cut, [row.peers for row in rows], styles, foot)
