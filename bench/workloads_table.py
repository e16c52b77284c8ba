#!/usr/bin/env python3
"""Prints the table of workloads on a simulated and a real H200 in docs/explanation/simulator.md.

bench/workloads_table.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent / "results"
SIZES = ("small", "medium", "large")


def rows_of(when: str) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the rows of the results files, by workload and size. `when` is a part of the files'
    names. A size without a file has no rows.
    """
    files = (FOLDER / f"calibrate-workloads-{size}-{when}h200.json" for size in SIZES)
    rows = (
        row
        for file in files
        if file.exists()
        for row in json.loads(file.read_text(encoding="utf-8"))["rows"]
    )
    return {(row["workload"], row["size"]): row for row in rows}


def main() -> None:
    """Print the table."""
    print("| workload | size | measured | simulated before | ratio | simulated now | ratio |")
    print("|---|---|---|---|---|---|---|")
    earlier, rows = rows_of("before-"), rows_of("")
    for key, new in rows.items():
        old = earlier.get(key)
        times = [
            f"{1e6 * new['measured_s']:.1f} us",
            f"{1e6 * old['simulated_s']:.1f} us" if old else "-",
            f"{old['ratio']:.2f}" if old else "-",
            f"{1e6 * new['simulated_s']:.1f} us",
            f"{new['ratio']:.2f}",
        ]
        print(f"| {' | '.join([*key, *times])} |")
    mean = [
        f"{100 * sum(abs(row['ratio'] - 1) for row in of.values()) / len(of):.1f} %"
        for of in (earlier, rows)
    ]
    print(f"| mean error | | | | {mean[0]} | | {mean[1]} |")


if __name__ == "__main__":
    main()
