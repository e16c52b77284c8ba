#!/usr/bin/env python3
"""Prints the table of speedups by the size of the inputs in docs/explanation/papers.md.

    bench/proact_sizes_table.py [--merge FILE...]

The table has the figures of bench/results/proact-sizes-16.json. With --merge, the script first
replaces rows of proact-sizes-16.json by the rows of each FILE that have the same size, GPUs and
workload. `bench/proact_sizes.py --json FILE` writes such a FILE. A merged row keeps its command,
commit and date.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from statistics import geometric_mean
from typing import Any

RESULTS = Path(__file__).resolve().parent / "results" / "proact-sizes-16.json"
KEY = ("times", "gpus", "workload")
HEAD = ("command", "version", "commit", "date")
MEAN = "mean of the five"
ORDER = {"pagerank": "PageRank", "jacobi": "Jacobi", "sssp": "SSSP", "als": "ALS", "ct": "CT",
         MEAN: "mean"}  # fmt: skip
BEST, BOUND = "best of inline and polling", "infinite-bandwidth"


def merged(base: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Return `base` with the rows of `other`, whose head is not the head of `base`."""
    head = {name: other[name] for name in HEAD}
    rows = {tuple(row[name] for name in KEY): row for row in base["rows"]}
    for row in other["rows"]:
        rows[tuple(row[name] for name in KEY)] = row | head
    return base | {"rows": list(rows.values())}


def table(found: dict[str, Any]) -> list[str]:
    """Return the lines of the table."""
    speedups = {(row["times"], row["workload"]): row["speedups"] for row in found["rows"]}
    sizes = sorted({times for times, _ in speedups})
    programs = [name for name in ORDER if name != MEAN]
    for size in sizes:
        of = [speedups[size, name] for name in programs if (size, name) in speedups]
        if len(of) == len(programs):  # programs that ran one by one have no row of the mean
            means = {kind: geometric_mean(one[kind] for one in of) for kind in (BEST, BOUND)}
            speedups.setdefault((size, MEAN), means)
    lines = [
        f"| program | {' | '.join(f'{size} x' for size in sizes)} |",
        f"|{'---|' * (len(sizes) + 1)}",
    ]
    for workload, name in ORDER.items():
        cells = [
            f"{one[BEST]:.2f} of {one[BOUND]:.2f}"
            if (one := speedups.get((size, workload)))
            else "-"
            for size in sizes
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def main() -> None:
    """Merge the files, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--merge", nargs="*", type=Path, default=[])
    found = json.loads(RESULTS.read_text(encoding="utf-8"))
    for file in (asked := parser.parse_args()).merge:
        found = merged(found, json.loads(file.read_text(encoding="utf-8")))
    if asked.merge:
        RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print("\n".join(table(found)))


if __name__ == "__main__":
    main()
