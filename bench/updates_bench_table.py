#!/usr/bin/env python3
"""Prints the tables of docs/how-to/scattered-updates.md: updates by bins and by other methods.

bench/updates_bench_table.py gpu|host [FOLDER]

FOLDER has files of `interlace bench updates`, named updates-bench-*.json. The default is
bench/results.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent / "results"
GPU_HEAD = (
    "GPU", "table", "atomics", "bins", "over atomics", "share of the byte limit",
    "append", "split", "combine", "passes", "bins' memory", "updates that wait",
)  # fmt: skip
HOST_HEAD = (
    "GPU", "table", "updates", "bins", "stores", "atomics", "host alone", "copies, at most",
    "over stores", "over the best other",
)  # fmt: skip


def size(count: int) -> str:
    """Return a number of bytes in the largest binary unit that divides the number."""
    for unit, shift in (("GiB", 30), ("MiB", 20)):
        if count % (1 << shift) == 0:
            return f"{count >> shift} {unit}"
    return f"{count} B"


def giga(rate: float | None) -> str:
    return "-" if rate is None else f"{rate / 1e9:.2f} G/s"


def gpu_cells(row: dict[str, Any]) -> list[str]:
    """Return the cells of a row whose table is in GPU memory."""
    share = row["of_limit"]
    binned = row["bins"] != 0
    return [
        size(row["table_bytes"]), giga(row["plain_per_s"]), giga(row["binned_per_s"]),
        f"{row['speedup']:.2f}", "-" if share is None else f"{share:.2f}",
        giga(row["append_per_s"]), giga(row["split_per_s"]), giga(row["combine_per_s"]),
        str(row["passes"]) if binned else "-",
        f"{row['buffer_bytes'] / 2**20:.0f} MiB" if binned else "-",
        f"{row['look_ahead'] / 1e6:.1f} M" if binned else "-",
    ]  # fmt: skip


def host_cells(row: dict[str, Any]) -> list[str]:
    """Return the cells of a row that measured updates of a table in host memory."""
    return [
        size(row["table_bytes"]), f"{row['updates'] / 1e9:.2f} G", giga(row["sent_per_s"]),
        giga(row["stores_per_s"]), giga(row["atomics_per_s"]), giga(row["host_per_s"]),
        giga(row["copies_per_s"]), f"{row['over_stores']:.1f}", f"{row['over_best']:.2f}",
    ]  # fmt: skip


def main() -> None:
    """Print the table."""
    which = sys.argv[1]
    folder = Path(sys.argv[2]) if len(sys.argv) > 2 else FOLDER
    head, key = (GPU_HEAD, "rows") if which == "gpu" else (HOST_HEAD, "host_rows")
    found = []
    for path in sorted(folder.glob("updates-bench-*.json")):
        study = json.loads(path.read_text(encoding="utf-8"))
        found += [(study["machine"]["model"], row) for row in study[key]]
    found.sort(key=lambda one: (one[0], one[1]["table_bytes"]))
    print(f"| {' | '.join(head)} |")
    print(f"|{'---|' * len(head)}")
    for name, row in found:
        cells = gpu_cells(row) if which == "gpu" else host_cells(row)
        print(f"| {' | '.join([name, *cells])} |")


if __name__ == "__main__":
    main()
