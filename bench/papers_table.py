#!/usr/bin/env python3
"""Prints the table of published and simulated figures of docs/explanation/papers.md.

    bench/papers_table.py [FOLDER]

FOLDER has a reproduce-PAPER.json of each paper, as `interlace reproduce PAPER --json FILE` writes
them. Without FOLDER the script reads bench/results.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

PAPERS = {
    "proact": "PROACT",
    "finepack": "FinePack",
    "multipath": "multi-path",
    "dualopt": "DualOpt",
}


class Line(NamedTuple):
    """A row of the table, with its words and the keys of the rows that have its figures."""

    words: str
    keys: str
    form: str = ".2f"
    published: str | None = ".1f"  # None: the paper does not have this experiment


ROWS = {
    "proact": (
        Line("4 GPUs over one, geometric mean", "speedup-4"),
        Line("without the time of transfers", "opportunity-4"),
        Line("`cudaMemcpy`, one after another", "bulk-copy-4"),
        Line("copies to all at once", "concurrent-bulk-copy-4", published=None),
        Line("part of the opportunity captured", "captured-4", ".0%", ".0%"),
        Line("16 GPUs over one", "speedup-16"),
    ),
    "finepack": (
        Line("4 GPUs over one, geometric mean", "vs-one-gpu"),
        Line("without the time of transfers", "opportunity"),
        Line("over bulk DMA", "vs-bulk-copy"),
        Line("over peer-to-peer stores", "vs-inline"),
        Line(
            "the same, three programs' stores by lanes; two programs' values to all besides",
            "vs-inline-lane-by-lane vs-inline-both",
            published=None,
        ),
        Line("bulk DMA over peer-to-peer stores", "bulk-copy-vs-inline"),
        Line(
            "the same two experiments",
            "bulk-copy-vs-inline-lane-by-lane bulk-copy-vs-inline-both",
            published=None,
        ),
        Line("bytes of peer-to-peer stores over its own", "bytes-vs-inline"),
        Line(
            "the same two experiments",
            "bytes-vs-inline-lane-by-lane bytes-vs-inline-both",
            published=None,
        ),
        Line(
            "bytes of bulk DMA over its own; two programs' values to all",
            "bytes-vs-bulk-copy bytes-vs-bulk-copy-to-all",
        ),
        Line(
            "stores in a packet, average; median",
            "stores-per-packet stores-per-packet-median",
            ".0f",
            ".0f",
        ),
        Line(
            "average, three programs' warps storing whole lines; two's values to all besides",
            "stores-per-packet-whole-lines stores-per-packet-whole-lines-to-all",
            ".0f",
            None,
        ),
        Line("over GPS", "vs-gps", published=".2f"),
        Line(
            "16 GPUs, over peer-to-peer stores; stores by lanes",
            "16-vs-inline 16-vs-inline-lane-by-lane",
        ),
    ),
    "multipath": (
        Line(
            "put bandwidth over one path, 4 x V100, 4 x A100",
            "put-v100 put-a100",
            published=".2f",
        ),
        Line("the same by graphs", "put-graph-v100 put-graph-a100", published=".2f"),
        Line(
            "with the four chunks that the paper names for 128 MiB",
            "put-v100-4-chunks put-a100-4-chunks",
            published=None,
        ),
        Line(
            "Jacobi over two paths, V100, A100",
            "jacobi-v100 jacobi-a100",
            published=".2f",
        ),
    ),
    "dualopt": (
        Line("over the baseline", "speedup"),
        Line("cache-insensitive, cache-friendly programs", "insensitive friendly"),
        Line(
            "cache-friendly ones without `mm`, which follows from 1.6 and 2.6",
            "friendly-without-mm",
        ),
        Line("bytes between GPUs, mean time of a load", "traffic latency"),
        Line("bytes of memory that loads bring from other GPUs", "traffic-replies", published=None),
        Line("programs with the published class", "classes", ".0f", ".0f"),
        Line("over Griffin", "vs-griffin"),
        Line(
            "over Griffin, pages where the baseline has them", "vs-griffin-placed", published=None
        ),
    ),
}


def line(paper: str, row: Line, found: dict[str, dict[str, Any]]) -> str:
    """Return a row of the table."""

    def cell(column: str, form: str) -> str:
        values = [found[key][column] for key in row.keys.split()]
        texts = [format(value, form).replace("%", " %") for value in values if value is not None]
        return ", ".join(dict.fromkeys(texts)) if column == "published" else ", ".join(texts)

    published = "" if row.published is None else cell("published", row.published)
    return f"| {paper} | {row.words} | {published} | {cell('simulated', row.form)} |".replace(
        "|  |", "| |"
    )


def table(folder: Path) -> list[str]:
    """Return the lines of the table."""
    lines = ["| paper | figure | published | simulated |", "|---|---|---|---|"]
    for paper, name in PAPERS.items():
        text = (folder / f"reproduce-{paper}.json").read_text(encoding="utf-8")
        found = {row["key"]: row for row in json.loads(text)["rows"]}
        for at, row in enumerate(ROWS[paper]):
            lines.append(line(name if at == 0 else "", row, found))
    return lines


if __name__ == "__main__":
    results = Path(sys.argv[1]) if sys.argv[1:] else Path(__file__).parent / "results"
    files = [results / f"reproduce-{paper}.json" for paper in PAPERS]
    if missing := [file for file in files if not file.is_file()]:
        print(
            f"there is no {missing[0]}; run interlace reproduce PAPER --json FILE", file=sys.stderr
        )
        sys.exit(2)
    print("\n".join(table(results)))
