#!/usr/bin/env python3
"""Draw the charts of measured batches of blocks, of parked memory and of loaded checkpoints.

    python docs/make_measured_pictures.py

The figures come from bench/results. Each chart has a picture for light pages and a picture for dark
pages, in docs/explanation/measured.
"""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

from make_picture import THEMES, framed

FOLDER = Path(__file__).resolve().parent
RESULTS = FOLDER.parent / "bench" / "results"
PICTURES = FOLDER / "explanation" / "measured"
WIDTH, LEFT, RIGHT = 880, 150, 70
BAR, GAP = 15, 16  # the height of a bar, and the space between two groups
COLOURS = {
    "light": ("#2f6fb2", "#c75b12", "#7fa5c9", "#a0a7ae"),
    "dark": ("#5a9be0", "#e8904a", "#35608f", "#656c76"),
}
METHODS = {
    "interlace": "interlace.copy_blocks",
    "cuMemcpyBatchAsync": "cuMemcpyBatchAsync",
    "torch": "PyTorch: gather, copy, scatter",
    "cuMemcpyAsync": "a loop of cuMemcpyAsync",
}
BATCHES = ((512, 16384), (4096, 4096), (16384, 4096), (65536, 4096), (1048576, 256))
PARKED = {
    "interlace": "interlace.park, resume",
    "interlace-prepared": "after prepare_park",
    "cumem": "replica of vLLM's sleep mode",
    "torch_memory_saver": "torch_memory_saver",
}

Group = tuple[str, list[float | None]]  # the name of a group, and the value of each bar


def bars(
    theme: str,
    title: str,
    description: str,
    names: list[str],
    groups: list[Group],
    link: float | None = None,
    left: int = LEFT,
) -> str:
    """Return a chart of horizontal bars in groups, as SVG.

    The bars begin `left` pixels from the left edge. If `link` is given, a line marks this rate.
    """
    ink = THEMES[theme]
    end = max(link or 0, *(value for _, values in groups for value in values if value is not None))
    scale = (WIDTH - left - RIGHT) / end
    made: list[str] = []

    def text(
        x: float, y: float, words: str, color: str = "text", anchor: str = "start", more: str = ""
    ) -> None:
        made.append(
            f'<text x="{x:.1f}" y="{y:.1f}" fill="{ink[color]}" font-size="13" '
            f'text-anchor="{anchor}"{more}>{words}</text>'
        )

    text(16, 24, title, more=' font-weight="600"')
    x = 16.0
    for name, color in zip(names, COLOURS[theme], strict=False):
        made.append(f'<rect x="{x:.1f}" y="38" width="11" height="11" rx="2" fill="{color}"/>')
        text(x + 16, 48, name, "faint")
        x += 16 + 7.7 * len(name) + 18
    top = y = 66.0
    at = left + (link or 0) * scale
    for name, values in groups:
        count = sum(value is not None for value in values)
        text(left - 12, y + count * BAR / 2 + 5, name, anchor="end")
        for value, color in zip(values, COLOURS[theme], strict=False):
            if value is None:
                continue
            long = max(value * scale, 1)
            made.append(
                f'<rect x="{left}" y="{y:.1f}" width="{long:.1f}" height="{BAR - 2}" rx="2" '
                f'fill="{color}"/>'
            )
            words = f"{value:.2f}" if value < 1 else f"{value:.1f}"
            # A number that would cross the line is drawn to the right of the line.
            place = at if link and long + 40 > link * scale else left + long
            text(place + 5, y + 11, words, "faint")
            y += BAR
        y += GAP
    if link is not None:
        made.append(
            f'<line x1="{at:.1f}" y1="{top - 6:.1f}" x2="{at:.1f}" y2="{y - GAP + 6:.1f}" '
            f'stroke="{ink["gain"]}" stroke-width="1.5" stroke-dasharray="5 4"/>'
        )
        text(at, y + 8, f"GB/s; the link moves {link:.1f}", "gain", "end")
    else:
        text(left, y + 8, "GB/s", "faint")
    height = round(y + 22)
    return framed(WIDTH, height, description, made)


def size_of(size: int) -> str:
    """Return a number of bytes as text with a unit."""
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size // unit} {name}"
    return f"{size} B"


def blocks(theme: str, direction: str, where: str) -> str:
    """Return the chart of batches of blocks in one direction, as SVG."""
    found = json.loads((RESULTS / "blocks-h200.json").read_text(encoding="utf-8"))
    rates: dict[tuple[int, int, str], float] = {
        (row["block_bytes"], row["blocks"], row["method"]): row["gb_per_s"]
        for row in found["rows"]
        if row["direction"] == direction
    }
    groups: list[Group] = [
        (f"{count:,} x {size_of(size)}", [rates.get((size, count, one)) for one in METHODS])
        for size, count in BATCHES
    ]
    title = f"Batches of blocks {where}, each from the call until all bytes have arrived"
    description = f"The rates of four methods with batches of blocks {where}, on one H200."
    names = list(METHODS.values())
    return bars(theme, title, description, names, groups, found["link_gb_per_s"][direction])


def park(theme: str) -> str:
    """Return the chart of parked memory, with the first park and later cycles, as SVG."""
    found: dict[str, Any] = json.loads((RESULTS / "park-h200.json").read_text(encoding="utf-8"))
    total = 1e-9 * found["bytes"]
    rows = {row["method"]: row for row in found["rows"]}
    methods = [one for one in PARKED if one in rows]
    groups: list[Group] = [
        ("first park", [total / rows[one]["first_park_s"] for one in methods]),
        ("later parks", [total / statistics.median(rows[one]["park_s"]) for one in methods]),
        ("later resumes", [total / statistics.median(rows[one]["resume_s"]) for one in methods]),
    ]
    title = f"{total:.1f} GB of tensors leave the GPU and come back"
    description = "The rates of parked memory and of other programs, on one H200."
    names = [PARKED[one] for one in methods]
    return bars(theme, title, description, names, groups, found["link_to_host_gb_per_s"])


def loads(theme: str) -> str:
    """Return the chart of loaders, from tmpfs to one GPU, as SVG."""
    found: dict[str, Any] = json.loads((RESULTS / "load-h200.json").read_text(encoding="utf-8"))
    total, cores = 1e-9 * found["bytes"], found["machine"]["cores"]
    rows = {
        (row["method"], row["memory"]): row
        for row in found["rows"]
        if (row["place"], row["cores"]) == ("tmpfs", cores) and row["method"] != "pread"
    }
    methods = sorted(
        (name for name, memory in rows if memory == "fresh"),
        key=lambda name: float(rows[name, "fresh"]["median_s"]),
    )

    def rate(name: str, memory: str, key: str) -> float | None:
        seconds = rows.get((name, memory), {}).get(key)
        return None if seconds is None else total / seconds

    groups: list[Group] = [
        (
            name,
            [
                rate(name, "fresh", "first_s"),
                rate(name, "fresh", "median_s"),
                rate(name, "reused", "median_s"),
            ],
        )
        for name in methods
    ]
    title = f"A checkpoint of {total:.1f} GB is loaded from tmpfs to one GPU"
    description = "The rates of loaders of checkpoints in tmpfs, on one H200."
    names = ["the first call", "later calls, new memory", "later calls, memory used again"]
    return bars(theme, title, description, names, groups, left=240)


def made() -> dict[str, str]:
    """Return the text of each picture by its file's name."""
    pictures = {}
    for theme in THEMES:
        pictures[f"blocks-to-gpu-{theme}.svg"] = blocks(theme, "to-gpu", "to the GPU")
        pictures[f"blocks-to-host-{theme}.svg"] = blocks(theme, "to-host", "to the host")
        pictures[f"park-{theme}.svg"] = park(theme)
        pictures[f"load-{theme}.svg"] = loads(theme)
    return pictures


def main() -> None:
    """Write all pictures."""
    PICTURES.mkdir(exist_ok=True)
    for name, text in made().items():
        (PICTURES / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
