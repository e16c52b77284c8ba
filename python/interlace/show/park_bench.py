"""Prints measured cycles of parked memory as a table."""

from __future__ import annotations

import statistics

from interlace.base import table
from interlace.study.park_bench import ParkResults


def print_parks(results: ParkResults) -> None:
    rows = results.rows
    columns = [
        table.Column("method", "", [row.method for row in rows], number=False),
        table.Column("first park", "s", table.fixed([row.first_park_s for row in rows])),
        table.Column("", "GB/s", [f"{row.first_park_gb_per_s:.2f}" for row in rows]),
        table.Column("park", "s", table.fixed([statistics.median(row.park_s) for row in rows])),
        table.Column("", "GB/s", [f"{row.park_gb_per_s:.2f}" for row in rows]),
        table.Column("resume", "s", table.fixed([statistics.median(row.resume_s) for row in rows])),
        table.Column("", "GB/s", [f"{row.resume_gb_per_s:.2f}" for row in rows]),
        table.Column("#wrong", "", [str(row.wrong) for row in rows]),
    ]
    fastest = max(row.park_gb_per_s for row in rows)
    styles = [table.BEST if row.park_gb_per_s == fastest else "" for row in rows]
    head = (
        f"park, {1e-9 * results.bytes:.3f} GB in {results.tensors} tensors of PyTorch; measured on "
        f"{results.machine['name']}"
    )
    foot = [
        "first park: the first of the process, which page-locks memory; park, resume: the median "
        f"of {results.repeats} later cycles.",
        f"One copy of page-locked memory: {results.link_to_host_gb_per_s:.2f} GB/s to the host, "
        f"{results.link_to_gpu_gb_per_s:.2f} to the GPU.",
        *(f"{name} is left out: {why}." for name, why in results.left_out.items()),
    ]
    wrong = sum(row.wrong for row in rows)
    foot.append(f"{wrong} tensors wrong." if wrong else "All bytes right.")
    table.print_table(head, columns, [0] * len(rows), styles, foot)
