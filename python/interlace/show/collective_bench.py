"""Prints measured collectives as a table."""

from __future__ import annotations

from interlace.base import table
from interlace.show.copy_bench import figure_columns
from interlace.study.collective_bench import PATTERNS, REDUCE
from interlace.study.copy_bench import CopyResults, CopyRow


def print_collectives(results: CopyResults, gpus: int) -> None:
    rows = results.rows

    def bus(row: CopyRow) -> str:
        return f"{row.gb_per_s / gpus:.2f}"

    columns = figure_columns(rows)
    columns.insert(-2, table.Column("of a GPU", "GB/s", [bus(row) for row in rows]))
    least: dict[tuple[str, int], float] = {}
    for row in rows:
        key = row.pattern, row.bytes
        least[key] = min(least.get(key, row.median_s), row.median_s)
    styles = [table.BEST if row.median_s == least[row.pattern, row.bytes] else "" for row in rows]
    foot = [
        "size: the bytes of the block that each GPU sends to every other GPU; time: from the first "
        f"call until all blocks have arrived, the median of {results.repeats} repeats.",
        *(
            [f"{REDUCE}: sums of float32; each GPU has {gpus} blocks and sums one of them."]
            if any(row.pattern == REDUCE for row in rows)
            else []
        ),
        "The column 'of a GPU' shows the bytes that each GPU sends per second (the bus bandwidth "
        "of nccl-tests).",
        *results.notes,
    ]
    wrong = sum(row.wrong for row in rows)
    foot.append(f"{wrong} bytes wrong." if wrong else "All bytes right.")
    head = f"collectives of {gpus} GPUs, measured on {results.machine['name']}"
    sections = [PATTERNS.index(row.pattern) for row in rows]
    table.print_table(head, columns, sections, styles, foot)
