#!/usr/bin/env python3
"""Prints the documents' tables about batches of blocks, replayed programs and parked memory.

bench/offload_tables.py [blocks | two | beside | replay | park]...
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent / "results"
DIRECTIONS = {"to-gpu": "to the GPU", "to-host": "to the host"}
METHODS = ("interlace", "cuMemcpyBatchAsync", "cuMemcpyAsync", "torch")
# maps the size of a block to the numbers of blocks that have a row in the table
SHOWN = {
    512: (16, 16384),
    4096: (16, 256, 4096, 16384),
    16384: (4096, 16384),
    65536: (16, 4096),
    1048576: (16, 256),
}
KERNELS = {"compute": "products of matrices", "memory": "reads and writes of memory"}
PARKED = {
    "interlace": "`interlace.park`, `resume`",
    "interlace-prepared": "`interlace.park`, `resume`, after `prepare_park`",
    "interlace-gpu": "`interlace.park` to another GPU",
    "cumem": "replica of vLLM's sleep mode",
    "torch_memory_saver": "`torch_memory_saver`",
}


def read(name: str) -> dict[str, Any]:
    """Return the content of a file of results."""
    found: dict[str, Any] = json.loads((FOLDER / name).read_text(encoding="utf-8"))
    return found


def size_of(size: int) -> str:
    """Return a number of bytes as text with a unit."""
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size // unit} {name}"
    return f"{size} B"


def rate(value: float | None) -> str:
    """Return a rate with three digits."""
    if value is None:
        return ""
    return f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"


def blocks() -> Iterator[str]:
    """Return the lines of the table with the rates of each method."""
    rows = read("blocks-h200.json")["rows"]
    by_case = {
        (row["direction"], row["block_bytes"], row["blocks"], row["method"]): row for row in rows
    }
    yield (
        "| blocks | | `copy_blocks` | in a row | `cuMemcpyBatchAsync` | loop of `cuMemcpyAsync` "
        "| PyTorch |"
    )
    yield "|---|---|---|---|---|---|---|"
    for size, counts in SHOWN.items():
        for count in counts:
            for direction, words in DIRECTIONS.items():
                found = [by_case.get((direction, size, count, method)) for method in METHODS]
                rates = [rate(None if row is None else row["gb_per_s"]) for row in found]
                own = found[0]
                assert own is not None
                rates.insert(1, rate(1e-3 * size * count / own["in_a_row_us"]))
                yield f"| {count:,} x {size_of(size)} | {words} | {' | '.join(rates)} |"


def two() -> Iterator[str]:
    """Return the lines of the table with the rates of batches to and from one of two GPUs."""
    rows = read("blocks-2xh200.json")["rows"]
    yield "| blocks | | `copy_blocks` | `cuMemcpyBatchAsync` | PyTorch |"
    yield "|---|---|---|---|---|"
    for size, count in ((4096, 4096), (4096, 16384), (16384, 16384), (65536, 4096), (1048576, 256)):
        for direction, words in DIRECTIONS.items():
            of = {
                row["method"]: row["gb_per_s"]
                for row in rows
                if (row["direction"], row["block_bytes"], row["blocks"]) == (direction, size, count)
            }
            rates = [rate(of[one]) for one in ("interlace", "cuMemcpyBatchAsync", "torch")]
            yield f"| {count:,} x {size_of(size)} | {words} | {' | '.join(rates)} |"


def beside() -> Iterator[str]:
    """Return the lines of the table about kernels: the share of its rate that a kernel loses while
    batches run.
    """
    rows = read("blocks-h200.json")["beside"]
    bounds = sorted({row["most_thread_blocks"] for row in rows if row["method"] == "interlace"})
    # 0 means no limit.
    ordered = [*(one for one in bounds if one != 0), *(one for one in bounds if one == 0)]
    heads = [f"at most {one} thread blocks" if one else "no limit" for one in ordered]
    yield f"| kernel | direction | {' | '.join(heads)} | `cuMemcpyBatchAsync` |"
    yield "|---|---" + "|---" * (len(ordered) + 1) + "|"
    for kernel, words in KERNELS.items():
        for direction, where in DIRECTIONS.items():
            of = {
                (row["method"], row["most_thread_blocks"]): row
                for row in rows
                if (row["kernel"], row["direction"]) == (kernel, direction)
            }
            keys = [*(("interlace", one) for one in ordered), ("cuMemcpyBatchAsync", 0)]
            cells = [
                f"{100 * max(of[key]['lost'], 0):.0f} % ({rate(of[key]['gb_per_s'])} GB/s)"
                for key in keys
            ]
            yield f"| {words} | {where} | {' | '.join(cells)} |"


def replay() -> Iterator[str]:
    """Return the lines of the table with the rates of a program's batches, without and with
    `interlace run`.
    """
    rows = read("run-blocks-h200.json")["rates"]
    yield (
        "| blocks | to the GPU, without `interlace run` | to the GPU, under `interlace run` "
        "| to the host, without `interlace run` | to the host, under `interlace run` |"
    )
    yield "|---|---|---|---|---|"
    sizes = list(dict.fromkeys(row["run"]["block_bytes"] for row in rows))
    for size in sizes:
        cells = []
        for direction in ("to_gpu", "to_host"):
            row = next(
                one
                for one in rows
                if (one["run"]["direction"], one["run"]["block_bytes"]) == (direction, size)
            )
            count = row["run"]["blocks"]
            cells += [
                f"{row['as_it_is']['gb_per_s']:.1f} GB/s",
                f"{row['run']['gb_per_s']:.1f} GB/s, {rate(row['gain'])} times",
            ]
        yield f"| {count:,} of {size_of(size)} | {' | '.join(cells)} |"


def park() -> Iterator[str]:
    """Return the lines of the table with the rates of parked memory, one line for each file."""
    yield "| | bytes | first park | later parks | first resume | later resumes |"
    yield "|---|---|---|---|---|---|"
    for name in ("park-h200.json", "park-60-h200.json"):
        if not (FOLDER / name).exists():
            continue
        found = read(name)
        for row in found["rows"]:
            total = 1e-9 * row["bytes"]
            rates = (
                total / row["first_park_s"],
                total / statistics.median(row["park_s"]),
                total / row["first_resume_s"],
                total / statistics.median(row["resume_s"]),
            )
            words = " | ".join(f"{one:.1f}" for one in rates)
            yield f"| {PARKED[row['method']]} | {total:.1f} GB | {words} |"
            if (again := row.get("second_process_first_park_s")) is not None:
                first = f"{total / again:.1f}"
                yield f"| `interlace.park` in a second process | {total:.1f} GB | {first} | | | |"
        link = (found["link_to_host_gb_per_s"], found["link_to_gpu_gb_per_s"])
        cells = f"{link[0]:.1f} | | {link[1]:.1f}"
        yield f"| one copy of page-locked memory | {2**30 * 1e-9:.1f} GB | | {cells} |"


TABLES = {"blocks": blocks, "two": two, "beside": beside, "replay": replay, "park": park}


def main() -> None:
    """Print the tables."""
    wanted = sys.argv[1:] or list(TABLES)
    print("\n\n".join("\n".join(TABLES[name]()) for name in wanted))


if __name__ == "__main__":
    main()
