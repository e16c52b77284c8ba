"""Prints measured loads of a checkpoint as a table."""

from __future__ import annotations

from interlace.base import table
from interlace.study.load_bench import LoadResults


def print_loads(results: LoadResults) -> None:
    rows = results.rows
    columns = [
        table.Column("method", "", [row.method for row in rows], number=False),
        table.Column("first", "s", table.fixed([row.first_s for row in rows])),
        table.Column("time", "s", table.fixed([row.median_s for row in rows])),
        table.Column("bandwidth", "GB/s", [f"{row.gb_per_s:.2f}" for row in rows]),
        table.Column(
            "speedup",
            "x",
            [table.UNKNOWN if row.speedup is None else f"{row.speedup:.2f}" for row in rows],
        ),
        table.Column("#wrong", "", [str(row.wrong) for row in rows]),
    ]
    fastest = min(row.median_s for row in rows)
    styles = [table.BEST if row.median_s == fastest else "" for row in rows]
    halved = f", all sizes halved {results.halvings} times" if results.halvings else ""
    head = (
        f"load, {1e-9 * results.bytes:.3f} GB in {results.tensors} tensors ({results.layers} layers"
        f"{halved}) from the page cache to {results.device} as {results.framework}; measured on "
        f"{results.machine['name']}"
    )
    foot = [
        "first: the first time in this process; time: the median of "
        f"{results.repeats}, with the allocation of the memory; {results.threads} threads.",
    ]
    if results.device == "cpu":
        foot.append("The time includes a touch of every page, because safetensors maps the file.")
    if len(rows) == 1:
        foot.append("safetensors is not installed, or has no reader for it: nothing to compare.")
    wrong = sum(row.wrong for row in rows)
    foot.append(f"{wrong} tensors wrong." if wrong else "All bytes right.")
    table.print_table(head, columns, [0] * len(rows), styles, foot)
