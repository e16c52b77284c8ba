#!/usr/bin/env python3
"""Prints the table of result files in docs/explanation/benchmarks.md, with machines and dates.

bench/results_table.py
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parent / "results"


def machine(result: dict[str, Any]) -> str:
    """Return the origin of a file's figures in a few words."""
    found = result.get("measured_on") or result.get("gpu") or result.get("machine")
    if isinstance(found, dict):
        found = found["title"] if found["name"] == "this-node" else found["name"]
    elif "driver" not in result:
        return "simulated"
    return re.sub(r"(\d) x ", r"\1x ", re.split(r"[,(]", str(found))[0]).strip()


def main() -> None:
    """Print the table."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for file in sorted(RESULTS.glob("*.json")):
        result = json.loads(file.read_text(encoding="utf-8"))
        key = machine(result), result["date"][:10], (result.get("commit") or "-")[:10]
        link = f"[{file.stem}](../../bench/results/{file.name})"
        groups.setdefault(key, []).append(link)
    print("| machine | date | commit | files |")
    print("|---|---|---|---|")
    for key, links in sorted(groups.items()):
        print(f"| {' | '.join(key)} | {', '.join(links)} |")


if __name__ == "__main__":
    main()
