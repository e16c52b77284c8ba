#!/usr/bin/env python3
"""Prints the tables of studies on two and four real GPUs in docs/explanation/benchmarks.md.

    bench/studies_table.py [FOLDER | GPUS]

FOLDER has the files NAME.json that `GPUS=2 bench/studies.sh FOLDER` or `GPUS=4 bench/studies.sh
FOLDER` writes. Instead of FOLDER, GPUS (default: 2xh200) selects the files study-NAME-GPUS.json of
bench/results. A study without a file has no row. If the files are of different commits, the last
column has the commit of each row.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

TWO = {
    "pagerank-30": "PageRank, R-MAT 21, 24 edges per vertex",
    "pagerank-50": "PageRank, R-MAT 21, 8 edges per vertex",
    "pagerank-70": "PageRank, R-MAT 21, 2 edges per vertex",
    "sssp-30": "shortest paths, R-MAT 19, 48 edges per vertex",
    "sssp-50": "shortest paths, R-MAT 19, 10 edges per vertex",
    "sssp-70": "shortest paths, R-MAT 21, 2 edges per vertex",
    "jacobi-30": "Jacobi, 1 M rows, half bandwidth 96",
    "jacobi-50": "Jacobi, 2 M rows, half bandwidth 28",
    "jacobi-70": "Jacobi, 2 M rows, half bandwidth 8",
    "als-30": "factorisation by normal equations",
    "als-50": "factorisation by gradient steps, 2 M ratings",
    "als-70": "factorisation by gradient steps, 524,288 ratings",
    "ct-30": "X-ray CT, 1024 x 1024 pixels",
    "ct-40": "X-ray CT, 2048 x 2048 pixels, two angles per step",
    "pagerank-small": "PageRank, R-MAT 16",
    "jacobi-small": "Jacobi, 262,144 rows",
    "ct-small": "X-ray CT, 256 x 256 pixels",
}
FOUR = {
    "pagerank-30": "PageRank, R-MAT 22, 24 edges per vertex",
    "pagerank-50": "PageRank, R-MAT 22, 8 edges per vertex",
    "pagerank-70": "PageRank, R-MAT 22, 2 edges per vertex",
    "sssp-30": "shortest paths, R-MAT 20, 48 edges per vertex",
    "sssp-50": "shortest paths, R-MAT 20, 10 edges per vertex",
    "sssp-70": "shortest paths, R-MAT 22, 2 edges per vertex",
    "jacobi-30": "Jacobi, 2 M rows, half bandwidth 96",
    "jacobi-50": "Jacobi, 4 M rows, half bandwidth 28",
    "jacobi-70": "Jacobi, 4 M rows, half bandwidth 8",
    "als-30": "factorisation by normal equations",
    "als-50": "factorisation by gradient steps, 4 M ratings",
    "als-70": "factorisation by gradient steps, 1 M ratings",
    "ct-25": "X-ray CT, 1024 x 1024 pixels",
    "ct-30": "X-ray CT, 2048 x 2048 pixels",
    "ct-40": "X-ray CT, 2048 x 2048 pixels, two angles per step",
    "pagerank-small": "PageRank, R-MAT 16",
    "sssp-small": "shortest paths, R-MAT 16",
    "jacobi-small": "Jacobi, 262,144 rows",
    "als-small": "a small factorisation",
    "ct-small": "X-ray CT, 256 x 256 pixels",
}
BOUND = "infinite-bandwidth"
COMPARED = ("bulk-copy", "split", "nccl")
SHOWN = (*COMPARED, "polling", "inline")


def rows_of(document: dict[str, Any]) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Return the row of one GPU, and a dict from each mechanism to its row of all GPUs."""
    one = next(row for row in document["rows"] if row["gpus"] == 1)
    return one, {row["mechanism"]: row for row in document["rows"] if row["gpus"] == gpus(document)}


def gpus(document: dict[str, Any]) -> int:
    """Return the largest number of GPUs in the document's rows."""
    return max(int(row["gpus"]) for row in document["rows"])


def line(words: str, document: dict[str, Any], commit: bool) -> str:
    """Return a row of the table."""
    one, two = rows_of(document)
    fastest = max(SHOWN, key=lambda name: two[name]["speedup"])
    speedups = [f"{two[name]['speedup']:.2f}" for name in SHOWN]
    speedups[SHOWN.index(fastest)] = f"**{two[fastest]['speedup']:.2f}**"
    inline = two["inline"]
    cells = [
        words,
        f"{one['time_s'] / one['iterations'] * 1e6:.0f}",
        f"{1 - two[BOUND]['time_s'] / two['bulk-copy']['time_s']:.0%}".replace("%", " %"),
        *speedups,
        f"{inline['reachable']:.2f}",
        f"{inline['speedup'] / inline['reachable']:.0%}".replace("%", " %"),
        *([document["commit"][:10]] if commit else []),
    ]
    return f"| {' | '.join(cells)} |"


def table(files: dict[str, Path]) -> list[str]:
    """Return the lines of the table, followed by sentences about all rows. `files` maps names of
    studies to files.
    """
    found = {name: json.loads(file.read_text(encoding="utf-8")) for name, file in files.items()}
    titles: tuple[str, ...] = (
        "",
        "one GPU, us",
        "copies",
        "bulk-copy",
        "split",
        "NCCL",
        "polling",
        "inline",
    )
    commits = len({document["commit"] for document in found.values()}) > 1
    titles = (*titles, "reachable", "of it", *(["commit"] if commits else []))
    lines = [f"| {' | '.join(titles)} |".replace("|  |", "| |"), "|---" * len(titles) + "|"]
    names = TWO if gpus(next(iter(found.values()))) == 2 else FOUR
    lines += [line(words, found[name], commits) for name, words in names.items() if name in found]
    over, reached = [], []
    ranges: dict[int, int] = {}
    alone: dict[str, list[float]] = {}
    for name, document in found.items():
        one, two = rows_of(document)
        chosen = two["split"]["config"]["ranges"]
        ranges[chosen] = ranges.get(chosen, 0) + 1
        inline = two["inline"]["speedup"]
        over.append(inline / max(two[other]["speedup"] for other in COMPARED))
        if not name.endswith("-small"):
            reached.append(inline / two["inline"]["reachable"])
            alone.setdefault(one["workload"], []).append(one["limit"]["reached"])
    mean = math.exp(sum(map(math.log, reached)) / len(reached))
    lines += [
        "",
        f"speedup of inline over the best of {', '.join(COMPARED)}: {min(over):.2f} to "
        f"{max(over):.2f}; share of the reachable speedup that inline achieves, without the small "
        f"workloads: geometric mean {mean:.0%}, at least {min(reached):.0%}",
        "numbers of ranges of the fastest split: "
        + ", ".join(f"{chosen} in {often} studies" for chosen, often in sorted(ranges.items())),
        "speed of one GPU relative to the bound that its memory and operations set, without the "
        "small workloads: "
        + ", ".join(f"{name} {min(of):.0%} to {max(of):.0%}" for name, of in alone.items()),
    ]
    return lines


if __name__ == "__main__":
    given = sys.argv[1] if sys.argv[1:] else "2xh200"
    folder, pattern = Path(given), "{}.json"
    if not folder.is_dir():
        folder, pattern = Path(__file__).parent / "results", f"study-{{}}-{given}.json"
    every = {name: folder / pattern.format(name) for name in {**TWO, **FOUR}}
    of_rows = {name: file for name, file in every.items() if file.is_file()}
    if not of_rows:
        print(f"{folder} has no study of '{given}'; run bench/studies.sh", file=sys.stderr)
        sys.exit(2)
    print("\n".join(table(of_rows)))
