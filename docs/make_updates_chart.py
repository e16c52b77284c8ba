#!/usr/bin/env python3
"""Draw the chart of docs/explanation/packed-updates.md: updates per second of each mechanism.

    python docs/make_updates_chart.py

The figures come from files in bench/results, which bench/updates.sh wrote. Each update changes a
random element, by an exclusive or or by a store, on three simulated machines of four GPUs.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from make_picture import THEMES, framed

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs/explanation/charts"
RESULTS = ROOT / "bench/results"
MACHINES = {
    "4x-volta-nvlink2": "4 x V100, NVLink 2",
    "4x-gv100-pcie4": "4 x GV100, PCIe 4",
    "hgx-h200-4": "4 x H200, NVLink 4",
}
OPERATIONS = {"xor": "exclusive or", "store": "stores"}
COLOURS = {  # the colour of each mechanism; the bars have the order of these entries
    "inline": "compute", "write-combining": "faint", "finepack": "link", "packed": "gain",
}  # fmt: skip

WIDTH, LEFT, MARK = 660, 118, 80
BAR, GAP, HEAD = 15, 10, 24


class Group(NamedTuple):
    """The bars for one machine and one operation."""

    title: str
    rates: dict[str, float]  # the updates per second of each mechanism


def groups() -> list[Group]:
    """Return the groups of bars, with the rates from the files of results."""
    found = []
    for machine, name in MACHINES.items():
        for operation, words in OPERATIONS.items():
            path = RESULTS / f"updates-{machine}-{operation}.json"
            study = json.loads(path.read_text(encoding="utf-8"))
            times = {row["mechanism"]: row["time_s"] for row in study["rows"] if row["gpus"] > 1}
            updates = study["data"]["updates"]
            rates = {mechanism: updates / times[mechanism] for mechanism in COLOURS}
            found.append(Group(f"{name}: {words}", rates))
    return found


def draw(all_groups: list[Group], theme: dict[str, str]) -> str:
    """Return the chart as SVG."""
    most = max(rate for group in all_groups for rate in group.rates.values())
    unit = (WIDTH - LEFT - MARK) / most
    lines = []
    y = 4.0
    for group in all_groups:
        lines.append(
            f'<text x="0" y="{y + 14:.0f}" fill="{theme["text"]}" font-size="13" '
            f'font-weight="600">{group.title}</text>'
        )
        y += HEAD
        for mechanism, rate in group.rates.items():
            middle = y + BAR / 2 + 4
            lines += [
                f'<text x="{LEFT - 8}" y="{middle:.0f}" fill="{theme["faint"]}" font-size="12" '
                f'text-anchor="end">{mechanism}</text>',
                f'<rect x="{LEFT}" y="{y:.0f}" width="{rate * unit:.1f}" height="{BAR - 3}" rx="2" '
                f'fill="{theme[COLOURS[mechanism]]}"/>',
                f'<text x="{LEFT + rate * unit + 6:.1f}" y="{middle:.0f}" fill="{theme["text"]}" '
                f'font-size="12">{rate / 1e9:.1f} G/s</text>',
            ]
            y += BAR
        y += GAP
    words = "; ".join(
        f"{group.title}: " + ", ".join(f"{k} {v / 1e9:.1f}" for k, v in group.rates.items())
        for group in all_groups
    )
    title = f"Billions of updates per second. {words}"
    return framed(WIDTH, round(y), title, lines)


def made() -> dict[Path, str]:
    """Return the text of each file of the chart by its name."""
    all_groups = groups()
    return {
        FOLDER / f"updates-{name}.svg": draw(all_groups, theme) for name, theme in THEMES.items()
    }


def main() -> None:
    """Write the files for light and for dark pages."""
    for path, text in made().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
