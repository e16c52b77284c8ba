#!/usr/bin/env python3
"""Draw the chart of docs/explanation/simulator.md: simulated times of workloads on one H200.

    python docs/make_workloads_chart.py

Each row of the chart is a workload with small or medium data. A dot is the simulated time of a warm
iteration, divided by the measured time. The figures come from
bench/results/calibrate-workloads-*.json.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from make_picture import THEMES, framed

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs/explanation/charts"
RESULTS = ROOT / "bench/results"
SIZES = ("small", "medium")

WIDTH, LEFT, RIGHT = 660, 140, 24
ROW, HEAD, GAP, FOOT = 19, 30, 8, 46
LEAST, MOST = 0.75, 1.3  # ratios at the ends of the axis
TICKS = (0.8, 0.9, 1.0, 1.1, 1.2, 1.3)
GOAL = 0.1  # the goal for the mean error


class Dots(NamedTuple):
    """A workload with data of one size: its ratio before the change, and its ratio now."""

    workload: str
    size: str
    before: float
    now: float


def ratios(size: str, when: str) -> dict[str, float]:
    """Return the ratio of each workload with data of a size, from the file of results."""
    path = RESULTS / f"calibrate-workloads-{size}-{when}h200.json"
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    return {row["workload"]: row["ratio"] for row in rows}


def dots() -> list[Dots]:
    """Return all rows of the chart."""
    found = []
    for size in SIZES:
        before, now = ratios(size, "before-"), ratios(size, "")
        found += [Dots(workload, size, before[workload], now[workload]) for workload in now]
    return found


def place(ratio: float) -> float:
    """Return the horizontal position of a ratio. A ratio beyond the axis is an error."""
    if not LEAST <= ratio <= MOST:
        raise ValueError(f"the axis ends at {LEAST} and {MOST}, and a ratio is {ratio}")
    return LEFT + (ratio - LEAST) / (MOST - LEAST) * (WIDTH - LEFT - RIGHT)


def legend(theme: dict[str, str]) -> list[str]:
    """Return the elements that explain the dots."""
    return [
        f'<circle cx="{LEFT + 6}" cy="11" r="4" fill="none" stroke="{theme["faint"]}" '
        'stroke-width="1.5"/>',
        f'<text x="{LEFT + 16}" y="15" fill="{theme["text"]}" font-size="12">before</text>',
        f'<circle cx="{LEFT + 80}" cy="11" r="4.5" fill="{theme["compute"]}"/>',
        f'<text x="{LEFT + 90}" y="15" fill="{theme["text"]}" font-size="12">now</text>',
        f'<rect x="{LEFT + 130}" y="5" width="16" height="12" fill="{theme["track"]}"/>',
        f'<text x="{LEFT + 152}" y="15" fill="{theme["text"]}" font-size="12">'
        f"within {GOAL:.0%} of the measured time</text>".replace("%", " %"),
    ]


def draw(rows: list[Dots], theme: dict[str, str]) -> str:
    """Return the chart as SVG."""
    bottom = HEAD + len(rows) * ROW + (len(SIZES) - 1) * GAP
    band = place(1 - GOAL)
    lines = legend(theme)
    lines.append(
        f'<rect x="{band:.1f}" y="{HEAD - 4}" width="{place(1 + GOAL) - band:.1f}" '
        f'height="{bottom - HEAD + 4}" fill="{theme["track"]}"/>'
    )
    for tick in TICKS:
        x = place(tick)
        strong = tick == 1
        lines += [
            f'<line x1="{x:.1f}" y1="{HEAD - 4}" x2="{x:.1f}" y2="{bottom}" '
            f'stroke="{theme["text" if strong else "faint"]}" '
            f'stroke-width="{1.2 if strong else 0.4}"/>',
            f'<text x="{x:.1f}" y="{bottom + 16}" fill="{theme["faint"]}" font-size="12" '
            f'text-anchor="middle">{tick:.1f}</text>',
        ]
    y = float(HEAD)
    for at, row in enumerate(rows):
        if at and row.size != rows[at - 1].size:
            y += GAP
        middle = y + ROW / 2
        before, now = place(row.before), place(row.now)
        lines += [
            f'<text x="{LEFT - 12}" y="{middle + 4:.1f}" fill="{theme["text"]}" font-size="12" '
            f'text-anchor="end">{row.workload}, {row.size}</text>',
            f'<line x1="{before:.1f}" y1="{middle:.1f}" x2="{now:.1f}" y2="{middle:.1f}" '
            f'stroke="{theme["faint"]}" stroke-width="1"/>',
            f'<circle cx="{before:.1f}" cy="{middle:.1f}" r="4" fill="none" '
            f'stroke="{theme["faint"]}" stroke-width="1.5"/>',
            f'<circle cx="{now:.1f}" cy="{middle:.1f}" r="4.5" fill="{theme["compute"]}"/>',
        ]
        y += ROW
    lines.append(
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2:.0f}" y="{bottom + 36}" fill="{theme["text"]}" '
        'font-size="12" text-anchor="middle">simulated time / measured time</text>'
    )
    height = bottom + FOOT
    words = "; ".join(
        f"{row.workload}, {row.size}: {row.before:.2f} before, {row.now:.2f} now" for row in rows
    )
    title = f"Simulated time divided by measured time. {words}"
    return framed(WIDTH, height, title, lines)


def made() -> dict[Path, str]:
    """Return the text of each file of the chart by its name."""
    rows = dots()
    return {FOLDER / f"workloads-{name}.svg": draw(rows, theme) for name, theme in THEMES.items()}


def main() -> None:
    """Write the files for light and for dark pages."""
    for path, text in made().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
