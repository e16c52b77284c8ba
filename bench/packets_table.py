#!/usr/bin/env python3
"""Prints the table of packets on NVLink 4 in docs/explanation/simulator.md.

    bench/packets_table.py [--simulate]

With --simulate, the script first simulates the rows and writes them to
bench/results/packets-4xh200.json. Each row is simulated with and without the two keys that change
the packets of NVLink 2.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "results"
FILE = FOLDER / "packets-4xh200.json"
MEASURED = FOLDER / "rows-4xh200.json"
MACHINE = "hgx-h200-4"
SECTORS = "partial_write_sector_bytes"
ANSWERS = "write_answer_bytes"
# maps the name of a variant of the machine to the keys that the variant leaves out
VARIANTS = {"flits": (SECTORS, ANSWERS), "sectors": (ANSWERS,), "answers": ()}
# Maps a row to its role. A key of the machine file was derived from the row, or the row tests keys.
ROLES = {
    "12 B scattered stores, at a multiple of 16 B": f"`{SECTORS}` was derived from it",
    "48 B scattered stores, at a multiple of 128 B": f"`{SECTORS}` was derived from it",
    "32 B scattered stores, 16 B after a multiple of 32 B": f"`{SECTORS}` was derived from it",
    "16 B scattered stores, 8 B after a multiple of 16 B": f"`{SECTORS}` was derived from it",
    "8 B scattered stores, 2 lanes": f"test of `{SECTORS}`: no change",
    "16 B scattered stores, one lane": "test of both keys: no change",
    "32 B scattered stores, 8 lanes": "test of both keys: no change",
    "128 B scattered stores, 32 lanes": "test of both keys: no change",
    "contiguous stores, 16 B a lane": "test of both keys: no change",
    "all-to-all of 4 by 16 B scattered stores": f"`{ANSWERS}` was derived from it",
    "all-to-all of 4 by stores": f"test of `{ANSWERS}`",
}


def simulate() -> None:
    """Simulate all rows with all variants of the machine, and write the file."""
    from interlace.base.native import load_core
    from interlace.machine.compiled import to_core
    from interlace.machine.reading import parse_machine, read_machine
    from interlace.model.results import provenance
    from interlace.study.calibration import definitions

    core = load_core()
    _, text = read_machine(MACHINE)
    measured = {row["row"]: row["value"] for row in json.loads(MEASURED.read_text("utf-8"))["rows"]}
    found = {row.key: row for row in definitions()}
    made: dict[str, dict[str, float]] = {key: {"measured": measured[key]} for key in ROLES}
    for variant, without in VARIANTS.items():
        lines = [line for line in text.splitlines() if not line.startswith(without or ("\0",))]
        machine = parse_machine("\n".join(lines), MACHINE, f"{MACHINE} with {variant}")
        described = to_core(machine, core)
        for key in ROLES:
            made[key][variant] = found[key].simulate(core, described, machine)
            print(variant, key, made[key][variant], flush=True)
    document = {
        "format": 1,
        **provenance(),
        "machine": MACHINE,
        "measured": MEASURED.name,
        "rows": [{"row": key, **values} for key, values in made.items()],
    }
    document["command"] = "bench/packets_table.py --simulate"
    FILE.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--simulate", action="store_true")
    if parser.parse_args().simulate:
        simulate()
    print("| stores | measured | packets of NVLink 2 | sectors | sectors and answers | use |")
    print("|---|---|---|---|---|---|")
    for row in json.loads(FILE.read_text(encoding="utf-8"))["rows"]:
        rates = [
            f"{row[variant]:.1f} ({100 * (row[variant] / row['measured'] - 1):+.0f} %)"
            for variant in VARIANTS
        ]
        cells = [row["row"], f"{row['measured']:.1f}", *rates, ROLES[row["row"]]]
        print(f"| {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
