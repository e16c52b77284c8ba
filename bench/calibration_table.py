#!/usr/bin/env python3
"""Prints the table of the simulated H200's errors in docs/explanation/simulator.md.

bench/calibration_table.py
"""

from __future__ import annotations

import json
from pathlib import Path

FILE = Path(__file__).resolve().parent / "results/calibrate-2xh200.json"


def main() -> None:
    """Print the table."""
    print("| rows | group | number of rows | mean error | worst error | worst row |")
    print("|---|---|---|---|---|---|")
    for one in json.loads(FILE.read_text(encoding="utf-8"))["families"]:
        errors = f"{100 * one['mean']:.1f} % | {100 * one['worst']:.1f} %"
        worst = one["worst_row"].replace("bytes a payload byte", "bytes per payload byte")
        cells = one["family"], one["group"], str(one["rows"]), errors, worst
        print(f"| {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
