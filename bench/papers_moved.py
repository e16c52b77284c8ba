#!/usr/bin/env python3
"""Prints how the figures of `interlace reproduce PAPER` moved between two versions.

    bench/papers_moved.py [quick|full|FILE]
    bench/papers_moved.py BEFORE AFTER --json FILE

BEFORE and AFTER are folders with files reproduce-PAPER.json, as `interlace reproduce PAPER --json
FILE` writes them. The second form of the command writes figures to FILE, namely all figures of each
paper that has a file in both folders. The first form prints a table in docs/explanation/papers.md
from FILE. The word `quick` stands for bench/results/papers-moved.json, which is the default. The
word `full` stands for bench/results/papers-moved-full.json.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from papers_table import PAPERS, ROWS

RESULTS = Path(__file__).resolve().parent / "results"
MOST = 0.01  # the table counts the figures that moved by more than this fraction
FILES = {"quick": RESULTS / "papers-moved.json", "full": RESULTS / "papers-moved-full.json"}
HEAD = ("commit", "date", "seconds", "jobs")


def numbers(before: Any, after: Any) -> bool:
    """Return whether `before` and `after` are numbers that can be compared."""
    return all(isinstance(one, int | float) for one in (before, after)) and before != 0


def joined(before: Path, after: Path) -> dict[str, Any]:
    """Return all figures of both folders."""
    papers = {}
    for paper in PAPERS:
        files = [folder / f"reproduce-{paper}.json" for folder in (before, after)]
        if not all(file.exists() for file in files):
            continue
        old, new = (json.loads(file.read_text(encoding="utf-8")) for file in files)
        if old["quick"] != new["quick"]:
            raise SystemExit(
                f"papers_moved.py: only one of the two files of {paper} was made with --quick; "
                "give two files of the same kind"
            )
        was = {one["key"]: one["simulated"] for one in old["rows"]}
        papers[paper] = {
            "quick": new["quick"],
            "before": {name: old.get(name) for name in HEAD},  # old files have no times
            "after": {name: new[name] for name in HEAD},
            "rows": [
                {
                    "key": one["key"],
                    "published": one["published"],
                    "before": was.get(one["key"]),
                    "after": one["simulated"],
                }
                for one in new["rows"]
            ],
        }
    if not papers:
        raise SystemExit("papers_moved.py: no paper has a file in both folders")
    last = papers[list(papers)[-1]]["after"]
    return {
        "format": 1, "command": "bench/papers_moved.py BEFORE AFTER --json FILE",
        "date": last["date"], "commit": last["commit"], "papers": papers,
    }  # fmt: skip


def table(found: dict[str, Any]) -> list[str]:
    """Return the lines of the table. It has a line for each figure of papers_table.py. After the
    figures of a paper, one more line has the number of the paper's figures that moved.
    """
    lines = [
        "| paper | figure | published | before | after | after / published |",
        "|---|---|---|---|---|---|",
    ]
    for paper in found["papers"]:
        name = PAPERS[paper]
        rows = {one["key"]: one for one in found["papers"][paper]["rows"]}
        changes = [
            abs(one["after"] / one["before"] - 1)
            for one in rows.values()
            if numbers(one["before"], one["after"])
        ]
        for line in ROWS[paper]:
            if line.key not in rows and found["papers"][paper]["quick"]:
                continue  # the file is older than the figure
            one = rows[line.key]
            shown = [
                "" if value is None else format(value, line.form).replace("%", " %")
                for value in (one["published"], one["before"], one["after"])
            ]
            ratio = one["after"] / one["published"] if one["published"] else None
            cells = [name, line.words, *shown, "" if ratio is None else f"{ratio:.2f}"]
            lines.append(f"| {' | '.join(cells)} |".replace("|  |", "| |").replace("|  |", "| |"))
        moved = sum(change > MOST for change in changes)
        lines.append(
            f"| {name} | number of simulated figures that moved by more than {MOST:.0%} | | | "
            f"{moved} of {len(changes)} | |".replace("%", " %")
        )
    return lines


def main() -> None:
    """Write the file, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("paths", nargs="*", type=Path, default=[Path("quick")])
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    if asked.json:
        if len(asked.paths) != 2:
            parser.error("--json needs two folders")
        found = joined(*asked.paths)
        asked.json.write_text(json.dumps(found, indent=0) + "\n", encoding="utf-8")
    else:
        if len(asked.paths) != 1:
            parser.error("give one file, or two folders with --json")
        file = FILES.get(str(asked.paths[0]), asked.paths[0])
        found = json.loads(file.read_text(encoding="utf-8"))
    print("\n".join(table(found)))


if __name__ == "__main__":
    main()
