#!/usr/bin/env python3
"""Prints the table of random updates on simulated machines in docs/explanation/packed-updates.md.

bench/updates_table.py [FOLDER]

FOLDER has the files that bench/updates.sh wrote. The default is bench/results.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "results"
MACHINES = ("4x-volta-nvlink2", "4x-gv100-pcie4", "hgx-h200-4")
OPERATIONS = ("xor", "store")


def main() -> None:
    """Print the table."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    print("| machine | operation | mechanism | updates/s | over `inline` | wire bytes per update |")
    print("|---|---|---|---|---|---|")
    for machine in MACHINES:
        for operation in OPERATIONS:
            path = folder / f"updates-{machine}-{operation}.json"
            study = json.loads(path.read_text(encoding="utf-8"))
            updates = study["data"]["updates"]
            rows = {row["mechanism"]: row for row in study["rows"] if row["gpus"] > 1}
            for name, row in rows.items():
                # There are four GPUs, so three of four updates go to another GPU.
                wire = sum(row["wire"].values()) / (updates * (1 - 1 / row["gpus"]))
                gain = rows["inline"]["time_s"] / row["time_s"]
                cells = (
                    machine, operation, f"`{name}`", f"{updates / row['time_s'] / 1e9:.1f} G",
                    f"{gain:.2f}", f"{wire:.1f}",
                )  # fmt: skip
                print(f"| {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
