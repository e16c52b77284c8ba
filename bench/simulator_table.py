#!/usr/bin/env python3
"""Prints the table of the simulator's speed with one and with two threads in
docs/explanation/benchmarks.md.

bench/simulator_table.py
"""

from __future__ import annotations

import json
from pathlib import Path
from statistics import geometric_mean
from typing import Any

FOLDER = Path(__file__).resolve().parent / "results"


def main() -> None:
    """Print the table."""
    one, two = (
        json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
        for name in ("simulator", "simulator-2-threads")
    )
    faster: dict[str, dict[str, Any]] = {row["workload"]: row for row in two["rows"]}
    print("| workload | M accesses per CPU second | s with one thread | s with two threads |"
          " speedup |")  # fmt: skip
    print("|---|---|---|---|---|")
    speedups = []
    for row in one["rows"]:
        seconds = faster[row["workload"]]["seconds"]
        speedups.append(row["seconds"] / seconds)
        print(f"| {row['workload']} | {row['accesses_per_s'] / 1e6:.2f} | {row['seconds']:.2f} |"
              f" {seconds:.2f} | {speedups[-1]:.2f} |")  # fmt: skip
    mean = geometric_mean(speedups)
    print(f"| geometric mean | {one['accesses_per_s'] / 1e6:.2f} | | | {mean:.2f} |")


if __name__ == "__main__":
    main()
