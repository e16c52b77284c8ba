#!/usr/bin/env python3
"""Prints the table of updates between GPUs in docs/explanation/packed-updates.md.

bench/updates_gpus_table.py [FOLDER]

FOLDER has the files that bench/updates_gpus.sh wrote. The default is bench/results.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "results"
STUDIES = (
    "histogram", "histogram-skewed", "histogram-long", "histogram-large",
    "random-access", "random-access-large", "embedding", "pagerank", "sssp",
)  # fmt: skip


def main() -> None:
    """Print the table."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    print("| GPUs | study | mechanism | time | over `inline` | bytes on the links |")
    print("|---|---|---|---|---|---|")
    for study in STUDIES:
        for path in sorted(folder.glob(f"updates-[0-9]x*-{study}.json")):
            rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
            of = {row["mechanism"]: row for row in rows if row["gpus"] > 1}
            for name, row in of.items():
                raw = row["cuda"].get("raw_tx_bytes")
                cells = (
                    row["machine"], study, f"`{name}`", f"{row['time_s'] * 1e6:.0f} us",
                    f"{of['inline']['time_s'] / row['time_s']:.2f}",
                    "-" if raw is None else f"{raw / 1e6:.1f} MB",
                )  # fmt: skip
                print(f"| {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
