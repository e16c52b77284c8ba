#!/usr/bin/env python3
"""Prints the tables in docs/explanation/papers.md that compare published and simulated figures.

    bench/papers_table.py [figures|described] [FOLDER]

The table `figures` is the default. The table `described` compares the kernels of FinePack's
programs with the paper's description. FOLDER contains a file reproduce-PAPER.json for each paper,
as `interlace reproduce PAPER --json FILE` writes it. Without FOLDER, the script reads
bench/results.
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
    """A row of the table: its text, and the key of its figures in the results file."""

    words: str
    key: str
    form: str = ".2f"
    published: str | None = ".1f"  # None if the paper does not have this experiment


LANES = "EQWP, HIT and CT store lane by lane"
BOTH = f"{LANES}, and ALS and SSSP send to all GPUs"
DESCRIBED = "the programs are as the paper describes them"
WHOLE = "PageRank, SSSP and ALS store whole lines"
STORES_TIME = "time of peer-to-peer stores, divided by FinePack's time"
STORES_DMA = "time of peer-to-peer stores, divided by bulk DMA's time"
STORES_BYTES = "bytes of peer-to-peer stores, divided by FinePack's bytes"
DMA_BYTES = "bytes of bulk DMA, divided by FinePack's bytes"
AVERAGE = "average number of stores in a packet"
SPEEDUP = "speedup of 4 GPUs over one GPU"
PUTS = "puts: speedup of several paths over one path"
FOUR = "puts of 128 MiB in the paper's four chunks: speedup of several paths over one path"

ROWS = {
    "proact": (
        Line(f"{SPEEDUP}, geometric mean", "speedup-4"),
        Line(f"{SPEEDUP}, if transfers take no time", "opportunity-4"),
        Line(f"{SPEEDUP} by `cudaMemcpy`, one copy after another", "bulk-copy-4"),
        Line(f"{SPEEDUP} by copies to all GPUs at once", "concurrent-bulk-copy-4", published=None),
        Line("part of the opportunity captured", "captured-4", ".0%", ".0%"),
        Line("speedup of 16 GPUs over one GPU", "speedup-16"),
    ),
    "finepack": (
        Line(f"{SPEEDUP}, geometric mean", "vs-one-gpu"),
        Line(f"{SPEEDUP}, if transfers take no time", "opportunity"),
        Line("time of bulk DMA, divided by FinePack's time", "vs-bulk-copy"),
        Line(STORES_TIME, "vs-inline"),
        Line(f"{STORES_TIME}, if {LANES}", "vs-inline-lane-by-lane", published=None),
        Line(f"{STORES_TIME}, if {BOTH}", "vs-inline-both", published=None),
        Line(STORES_DMA, "bulk-copy-vs-inline"),
        Line(f"{STORES_DMA}, if {LANES}", "bulk-copy-vs-inline-lane-by-lane", published=None),
        Line(f"{STORES_DMA}, if {BOTH}", "bulk-copy-vs-inline-both", published=None),
        Line(STORES_BYTES, "bytes-vs-inline"),
        Line(f"{STORES_BYTES}, if {LANES}", "bytes-vs-inline-lane-by-lane", published=None),
        Line(f"{STORES_BYTES}, if {BOTH}", "bytes-vs-inline-both", published=None),
        Line(DMA_BYTES, "bytes-vs-bulk-copy"),
        Line(
            f"{DMA_BYTES}, if ALS and SSSP send to all GPUs",
            "bytes-vs-bulk-copy-to-all",
            published=None,
        ),
        Line(AVERAGE, "stores-per-packet", ".0f", ".0f"),
        Line("median number of stores in a packet", "stores-per-packet-median", ".0f", None),
        Line(f"{AVERAGE}, if {WHOLE}", "stores-per-packet-whole-lines", ".0f", None),
        Line(
            f"{AVERAGE}, if {WHOLE}, and ALS and SSSP send to all GPUs",
            "stores-per-packet-whole-lines-to-all",
            ".0f",
            None,
        ),
        Line(
            f"part of the stores with less than 32 B, if {DESCRIBED}",
            "stores-under-32B-as-described",
            ".0%",
            ".0%",
        ),
        Line(f"{SPEEDUP}, if {DESCRIBED}", "vs-one-gpu-as-described", published=None),
        Line(f"{STORES_TIME}, if {DESCRIBED}", "vs-inline-as-described", published=None),
        Line(
            f"time of bulk DMA, divided by FinePack's time, if {DESCRIBED}",
            "vs-bulk-copy-as-described",
            published=None,
        ),
        Line(f"{AVERAGE}, if {DESCRIBED}", "stores-per-packet-as-described", ".0f", None),
        Line("time of GPS, divided by FinePack's time", "vs-gps", published=".2f"),
        Line(f"16 GPUs: {STORES_TIME}", "16-vs-inline"),
        Line(f"16 GPUs: {STORES_TIME}, if {LANES}", "16-vs-inline-lane-by-lane", published=None),
    ),
    "multipath": (
        Line(f"{PUTS}, 4 x V100", "put-v100", published=".2f"),
        Line(f"{PUTS}, 4 x A100", "put-a100", published=".2f"),
        Line(f"{PUTS}, by graphs, 4 x V100", "put-graph-v100", published=".2f"),
        Line(f"{PUTS}, by graphs, 4 x A100", "put-graph-a100", published=".2f"),
        Line(f"{FOUR}, 4 x V100", "put-v100-4-chunks", published=".2f"),
        Line(f"{FOUR}, 4 x A100", "put-a100-4-chunks", published=".2f"),
        Line("Jacobi: speedup of two paths over one path, V100", "jacobi-v100", published=".2f"),
        Line("Jacobi: speedup of two paths over one path, A100", "jacobi-a100", published=".2f"),
    ),
    "dualopt": (
        Line("speedup over the baseline", "speedup"),
        Line("speedup of cache-insensitive programs", "insensitive"),
        Line("speedup of cache-friendly programs", "friendly"),
        Line(
            "speedup of cache-friendly programs without `mm` "
            "(1.4 follows from the published 1.6 of all and 2.6 of `mm`)",
            "friendly-without-mm",
        ),
        Line("bytes between GPUs under the baseline, divided by DualOpt's bytes", "traffic"),
        Line(
            "reply bytes of remote loads under the baseline, divided by reply bytes under DualOpt",
            "traffic-replies",
            published=None,
        ),
        Line("mean time of a load under the baseline, divided by DualOpt's time", "latency"),
        Line("number of programs with the published class", "classes", ".0f", ".0f"),
        Line("speedup over Griffin", "vs-griffin"),
        Line(
            "speedup over Griffin, if pages begin where the baseline has them",
            "vs-griffin-placed",
            published=None,
        ),
    ),
}


def line(paper: str, row: Line, found: dict[str, dict[str, Any]]) -> str:
    """Return a row of the table."""

    def cell(column: str, form: str) -> str:
        value = found[row.key][column]
        return "" if value is None else format(value, form).replace("%", " %")

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
        lines += [line(name, row, found) for row in ROWS[paper]]
    return lines


NAMES = {
    "jacobi": "Jacobi",
    "pagerank": "PageRank",
    "sssp": "SSSP",
    "als": "ALS",
    "ct": "CT",
    "eqwp": "EQWP",
    "diffusion": "diffusion",
    "hit": "HIT",
}


def described(folder: Path) -> list[str]:
    """Return the lines of the table of FinePack's programs and the paper's description."""
    text = (folder / "reproduce-finepack.json").read_text(encoding="utf-8")
    found = {row["key"]: row for row in json.loads(text)["rows"]}
    lines = [
        "| program | receivers: published | receivers: ours | kernel | stores with less than 32 B: "
        "published | ours | peer-to-peer stores over one GPU: published | ours | used |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for program, name in NAMES.items():
        to = found[f"described-receivers-{program}"]
        used = found[f"described-kernel-{program}"]["simulated"]
        start = f"described-stores-{program}-"
        for kernel in (key.removeprefix(start) for key in found if key.startswith(start)):
            small = found[f"described-under-32B-{program}-{kernel}"]
            speed = found[start + kernel]
            cells = [
                name, to["published"], to["simulated"], kernel.replace("-", " "),
                "" if small["published"] is None else str(small["published"]),
                f"{small['simulated']:.0%}".replace("%", " %"), speed["published"],
                f"{speed['simulated']:.2f}", "yes" if kernel == used else "",
            ]  # fmt: skip
            lines.append("| " + " | ".join(cells).replace("|  |", "| |") + " |")
    return [line.replace("|  |", "| |") for line in lines]


TABLES = {"figures": table, "described": described}

if __name__ == "__main__":
    words = sys.argv[1:]
    make = TABLES[words.pop(0)] if words and words[0] in TABLES else table
    results = Path(words[0]) if words else Path(__file__).parent / "results"
    files = [results / f"reproduce-{paper}.json" for paper in PAPERS]
    if missing := [file for file in files if not file.is_file()]:
        print(
            f"{missing[0]} is missing; run interlace reproduce PAPER --json FILE", file=sys.stderr
        )
        sys.exit(2)
    print("\n".join(make(results)))
