"""Prints measured copies as a table, or in the format of the OSU micro-benchmarks."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from interlace.base import table
from interlace.model.mechanisms import size_text
from interlace.study.copy_bench import PATTERNS, CopyResults, CopyRow


def figure_columns(rows: Sequence[CopyRow]) -> list[table.Column]:
    """Return the columns of a table of these rows."""
    return [
        table.Column("pattern", "", [row.pattern for row in rows], number=False),
        table.Column("size", "", [size_text(row.bytes) for row in rows]),
        table.Column("method", "", [row.method for row in rows], number=False),
        table.Column("time", "us", [f"{1e6 * row.median_s:.1f}" for row in rows]),
        table.Column("call", "us", [f"{1e6 * row.median_call_s:.1f}" for row in rows]),
        table.Column("bandwidth", "GB/s", [f"{row.gb_per_s:.2f}" for row in rows]),
        table.Column(
            "speedup",
            "x",
            [table.UNKNOWN if row.speedup is None else f"{row.speedup:.2f}" for row in rows],
        ),
        table.Column("#wrong", "", [str(row.wrong) for row in rows]),
    ]


def print_copies(results: CopyResults) -> None:
    rows = results.rows
    columns = figure_columns(rows)
    sections = [PATTERNS.index(row.pattern) for row in rows]
    least = {(row.pattern, row.bytes): row.median_s for row in rows}
    for row in rows:
        key = row.pattern, row.bytes
        least[key] = min(least[key], row.median_s)
    styles = [table.BEST if row.median_s == least[row.pattern, row.bytes] else "" for row in rows]
    window = f", {results.window} messages of each pair in flight" if results.window > 1 else ""
    foot = [
        f"time: from the first call until all bytes have arrived, the median of {results.repeats} "
        "repeats; call: the host's time in the calls.",
        *results.notes,
    ]
    wrong = sum(row.wrong for row in rows)
    foot.append(f"{wrong} bytes wrong." if wrong else "All bytes right.")
    head = f"copies{window}, measured on {results.machine['name']}"
    table.print_table(head, columns, sections, styles, foot)


def osu_lines(rows: Sequence[CopyRow], window: int) -> list[str]:
    """Return tables in the output format of the OSU micro-benchmarks, for GPU 0 and GPU 1.

    The tables show the latency of one message, and the bandwidth of a window of messages in one
    direction and in both directions. 1 MB/s is 1e6 bytes per second. The time of a window begins
    with the first call and ends when the last byte has arrived.
    """
    lines: list[str] = []
    for method in dict.fromkeys(row.method for row in rows):
        for name, unit, pattern, count in (
            ("Latency", "Latency (us)", "p2p", 1),
            ("Bandwidth", "Bandwidth (MB/s)", "p2p", window),
            ("Bi-Directional Bandwidth", "Bandwidth (MB/s)", "both-ways", 2 * window),
        ):
            size = "# Size"
            lines += [
                f"# Interlace put {name} Test, {method}, {count} messages at a time",
                "# Send Buffer on DEVICE (D) and Receive Buffer on DEVICE (D)",
                f"{size:<10}{unit:>20}",
            ]
            for row in rows:
                if (row.method, row.pattern, row.messages) == (method, pattern, count):
                    figure = 1e6 * row.median_s if name == "Latency" else 1e3 * row.gb_per_s
                    lines.append(f"{row.bytes:<10}{figure:>20.2f}")
            lines.append("")
    return lines


def print_as_osu(results: CopyResults) -> None:
    rows = results.rows
    print("\n".join(osu_lines(rows, results.window)), end="")
    for line in results.notes:
        print(f"interlace: {line}", file=sys.stderr)
    wrong = sum(row.wrong for row in rows)
    if wrong:
        print(f"interlace: {wrong} bytes wrong", file=sys.stderr)
