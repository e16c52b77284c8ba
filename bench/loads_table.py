#!/usr/bin/env python3
"""Prints the tables in docs/explanation/benchmarks.md that compare loaders.

bench/loads_table.py [memory | cores | disk | gpus | four]...
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent / "results"
PLACES = {"tmpfs": "tmpfs", "cache": "page cache"}
LIMITS = {
    "pread": "limit: `pread` into one buffer for each core",
    "direct reads": "limit: direct reads",
}
OWN = "interlace"

Row = dict[str, Any]


def name_of(row: Row) -> str:
    """Return the name of a loader in a table. The name of another project's loader includes the
    version of its package.
    """
    method = row["method"]
    if method in LIMITS:
        return LIMITS[method]
    version = row["package"].rpartition(" ")[2].partition("+")[0]
    return f"**{method}**" if method.startswith(OWN) else f"{method} ({version})"


def rate(size: int, seconds: float | None) -> str:
    """Return the rate in GB/s, or an empty cell if there is no time."""
    return "" if seconds is None else f"{1e-9 * size / seconds:.1f}"


def megabytes(size: int | None) -> str:
    """Return the size in MB, or an empty cell if there is no size."""
    return "" if size is None else f"{1e-6 * size:.0f}"


def from_memory(results: dict[str, Any]) -> list[list[str]]:
    """Return the table rows of loads from memory by all cores. The fastest loader comes first."""
    size, table = results["bytes"], []
    cores = results["machine"]["cores"]
    for place, words in PLACES.items():
        there = [row for row in results["rows"] if (row["place"], row["cores"]) == (place, cores)]
        fresh = {row["method"]: row for row in there if row["memory"] == "fresh"}
        reused = {row["method"]: row for row in there if row["memory"] == "reused"}
        for method, row in sorted(fresh.items(), key=lambda one: one[1]["median_s"]):
            first = None if method in LIMITS else row["first_s"]
            again = reused.get(method, {}).get("median_s")
            table.append([
                words, name_of(row), rate(size, first), rate(size, row["first_without_context_s"]),
                rate(size, row["median_s"]), rate(size, again),
                "" if row["first_tensor_s"] is None else f"{row['first_tensor_s']:.3f}",
                megabytes(row["host_peak"]), megabytes(row["device_peak"]),
            ])  # fmt: skip
    return table


def by_cores(results: dict[str, Any]) -> list[list[str]]:
    """Return a table row for each number of cores. Each row compares the rate of Interlace's loads
    with the highest rate that this number of cores allows.
    """
    size, table = results["bytes"], []
    asked = sorted({row["cores"] for row in results["rows"]})
    for place, words in PLACES.items():
        for cores in asked:
            found = {
                row["method"]: row["median_s"]
                for row in results["rows"]
                if (row["place"], row["cores"], row["memory"]) == (place, cores, "fresh")
            }
            if OWN in found and "pread" in found:
                own, limit = found[OWN], found["pread"]
                share = f"{100 * limit / own:.0f} %"
                table.append([words, str(cores), rate(size, own), rate(size, limit), share])
    return table


def from_disk(results: dict[str, Any]) -> list[list[str]]:
    """Return the table rows of loads from a disk. The last column compares each loader with direct
    reads by all cores. The fastest loader comes first.
    """
    size = results["bytes"]
    rows = {row["method"]: row for row in results["rows"] if row["place"] == "cold"}
    limit = rows.get("direct reads", {}).get("median_s")
    table = []
    for row in sorted(rows.values(), key=lambda one: float(one["median_s"])):
        share = "" if limit is None else f"{100 * limit / row['median_s']:.0f} %"
        table.append([name_of(row), f"{1e-9 * size / row['median_s']:.2f}", share])
    return table


def to_gpus(results: dict[str, Any]) -> list[list[str]]:
    """Return the table rows for loads to one of several GPUs, or to all of them. A loader's name
    shows how many tensors were wrong.
    """
    size = results["bytes"]
    count = results["device"].count(",") + 1
    words = {1: "one", 2: "both", 4: "all"}.get(count, str(count))
    rows = {(row["method"], row["memory"]): row for row in results["rows"]}
    table = []
    for row in sorted(results["rows"], key=lambda one: float(one["median_s"])):
        if row["memory"] == "fresh":
            again = rows.get((row["method"], "reused"), {}).get("median_s")
            first = None if row["method"] in LIMITS else row["first_s"]
            wrong = f", {row['wrong']} tensors wrong" if row["wrong"] else ""
            table.append([words, name_of(row) + wrong, rate(size, first),
                          rate(size, row["median_s"]), rate(size, again)])  # fmt: skip
    return table


TABLES = {
    "memory": (
        ["load-h200.json", "load-cache-h200.json"],
        ["from", "loader", "first call", "without context", "fresh", "reused", "first tensor, s",
         "host, MB", "GPU, MB"],
        from_memory,
    ),
    "cores": (["load-h200.json"], ["from", "cores", OWN, "`pread`", "share"], by_cores),
    "disk": (["load-cold-h200.json"], ["loader", "GB/s", "of direct reads"], from_disk),
    "gpus": (
        ["load-2xh200.json", "load-both-2xh200.json"],
        ["to", "loader", "first call", "fresh", "reused"],
        to_gpus,
    ),
    "four": (
        ["load-4xh200.json", "load-all-4xh200.json"],
        ["to", "loader", "first call", "fresh", "reused"],
        to_gpus,
    ),
}  # fmt: skip


def main() -> None:
    """Print the tables."""
    for table in sys.argv[1:] or TABLES:
        names, heads, rows_of = TABLES[table]
        read = [json.loads((FOLDER / name).read_text(encoding="utf-8")) for name in names]
        print(f"| {' | '.join(heads)} |")
        print("|" + "---|" * len(heads))
        for cells in (cells for results in read for cells in rows_of(results)):
            print(f"| {' | '.join(cells)} |")
        print()


if __name__ == "__main__":
    main()
