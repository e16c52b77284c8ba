#!/usr/bin/env python3
"""Prints how the figures of `interlace reproduce PAPER` moved between two versions.

    bench/papers_moved.py [FILE]
    bench/papers_moved.py BEFORE AFTER --json FILE

BEFORE and AFTER are folders. Each has a reproduce-PAPER.json for each paper, as `interlace
reproduce PAPER --json FILE` writes it. The second form of the command writes all figures of both
folders to FILE. The first form prints the table of docs/explanation/papers.md from FILE. The
default FILE is bench/results/papers-moved.json.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from papers_table import PAPERS, ROWS

RESULTS = Path(__file__).resolve().parent / "results"
MOST = 0.01  # the table counts the figures that moved by more than this fraction
HEAD = ("commit", "date", "seconds", "jobs")


def numbers(before: Any, after: Any) -> bool:
    """Return whether `before` and `after` are numbers that can be compared."""
    return all(isinstance(one, int | float) for one in (before, after)) and before != 0


def joined(before: Path, after: Path) -> dict[str, Any]:
    """Return all figures of both folders."""
    papers = {}
    for paper in PAPERS:
        old, new = (
            json.loads((folder / f"reproduce-{paper}.json").read_text(encoding="utf-8"))
            for folder in (before, after)
        )
        if old["quick"] != new["quick"]:
            raise SystemExit(
                f"papers_moved.py: one of the files of {paper} is quick, and the other is not; "
                "give two of the same kind"
            )
        was = {one["key"]: one["simulated"] for one in old["rows"]}
        papers[paper] = {
            "quick": new["quick"],
            "before": {name: old[name] for name in HEAD},
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
    last = papers[list(PAPERS)[-1]]["after"]
    return {
        "format": 1, "command": "bench/papers_moved.py BEFORE AFTER --json FILE",
        "date": last["date"], "commit": last["commit"], "papers": papers,
    }  # fmt: skip


def table(found: dict[str, Any]) -> list[str]:
    """Return the lines of the table. It has the figures of papers_table.py, and one line for each
    paper.
    """
    lines = [
        "| paper | figure | published | before | after | after / published |",
        "|---|---|---|---|---|---|",
    ]
    for paper, name in PAPERS.items():
        rows = {one["key"]: one for one in found["papers"][paper]["rows"]}
        changes = [
            abs(one["after"] / one["before"] - 1)
            for one in rows.values()
            if numbers(one["before"], one["after"])
        ]
        first = name
        for line in ROWS[paper]:
            one = rows[line.key]
            shown = [
                "" if value is None else format(value, line.form).replace("%", " %")
                for value in (one["published"], one["before"], one["after"])
            ]
            ratio = one["after"] / one["published"] if one["published"] else None
            cells = [first, line.words, *shown, "" if ratio is None else f"{ratio:.2f}"]
            lines.append(f"| {' | '.join(cells)} |".replace("|  |", "| |").replace("|  |", "| |"))
            first = ""
        moved = sum(change > MOST for change in changes)
        lines.append(
            f"| | all: moved by more than {MOST:.0%} | | | {moved} of {len(changes)} | |".replace(
                "%", " %"
            )
        )
    return lines


def main() -> None:
    """Write the file, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("paths", nargs="*", type=Path, default=[RESULTS / "papers-moved.json"])
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
        found = json.loads(asked.paths[0].read_text(encoding="utf-8"))
    print("\n".join(table(found)))


if __name__ == "__main__":
    main()
