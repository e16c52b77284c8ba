#!/usr/bin/env python3
"""Prints the tables of packets on NVLink 4 in docs/explanation/simulator.md.

    bench/packets_table.py [four|both] [--simulate]

The table `four` is the default. It has rates that were measured on four GPUs. The table `both` has
rates of stores between two GPUs, in one direction and in both directions at once. With --simulate,
the script first simulates the rows and writes them to bench/results/packets-4xh200.json or
bench/results/packets-both-2xh200.json. Each row is simulated with and without the keys that change
the packets of NVLink 2.

The column "answers" is a hypothesis that the table `both` contradicts: each packet of stores has an
answer of 12 bytes. The simulator no longer has this hypothesis. Its rates come from commit 6da4df7c
and stay in the files.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent / "results"
FILE = FOLDER / "packets-4xh200.json"
MEASURED = FOLDER / "rows-4xh200.json"
MACHINE = "hgx-h200-4"
SECTORS = "partial_write_sector_bytes"
LIMIT = "store_packets_MHz"
ANSWERS = "answers of 12 B"
# maps the name of a variant of the machine to the keys that the variant leaves out
VARIANTS = {"flits": (SECTORS, LIMIT), "sectors": (LIMIT,), "limit": ()}
SHOWN = ("flits", "sectors", "answers", "limit")  # the columns of the table `four`
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
    "all-to-all of 4 by 16 B scattered stores": f"`{LIMIT}` and {ANSWERS} were derived from it",
    "all-to-all of 4 by stores": f"test of `{LIMIT}` and of {ANSWERS}",
}

BOTH_FILE = FOLDER / "packets-both-2xh200.json"
PIECES = (FOLDER / "pieces-2xh200.json", FOLDER / "pieces-both-2xh200.json")  # the measured rows
BOTH_SHOWN = ("sectors", "answers", "limit")
# Maps a measured row to its name in the table and to the simulated stores: the bytes of an element,
# the lanes of a group, the lanes that store, and the shift in elements.
BOTH_ROWS = {
    "4 B": ("4 B", (4, 1, 0, 0)),
    "8 B, one lane": ("8 B", (4, 2, 0, 0)),
    "8 B, 4 off 8": ("8 B, 4 B after a multiple of 16 B", (4, 4, 2, 1)),
    "12 B aligned to 16": ("12 B, at a multiple of 16 B", (4, 4, 3, 0)),
    "16 B, one lane": ("16 B, one lane", (16, 1, 0, 0)),
    "16 B, 4 lanes": ("16 B, 4 lanes", (4, 4, 0, 0)),
    "16 B, 8 off 16": ("16 B, 8 B after a multiple of 32 B", (4, 8, 4, 2)),
    "24 B aligned to 32": ("24 B, at a multiple of 32 B", (4, 8, 6, 0)),
    "32 B, 8 lanes": ("32 B", (4, 8, 0, 0)),
    "32 B, 16 off 32": ("32 B, 16 B after a multiple of 64 B", (4, 16, 8, 4)),
    "48 B aligned to 128": ("48 B, at a multiple of 128 B", (4, 32, 12, 0)),
    "64 B, 16 lanes": ("64 B", (4, 16, 0, 0)),
    "96 B aligned to 128": ("96 B, at a multiple of 128 B", (4, 32, 24, 0)),
    "124 B, 4 off 128": ("124 B, 4 B after a multiple of 128 B", (4, 32, 31, 1)),
    "128 B, 32 lanes": ("128 B", (4, 32, 0, 0)),
    "contiguous 16 B a lane": ("contiguous, 16 B a lane", (16, 0, 0, 0)),
}
GROUPS = 1 << 18  # the groups of a sender in the longer of two simulated runs


def machines(core: Any) -> dict[str, tuple[Any, Any]]:
    """Return each variant of the machine, as a description and as an object of `core`."""
    from interlace.machine.compiled import to_core
    from interlace.machine.reading import parse_machine, read_machine

    _, text = read_machine(MACHINE)
    made = {}
    for variant, without in VARIANTS.items():
        lines = [line for line in text.splitlines() if not line.startswith(without or ("\0",))]
        machine = parse_machine("\n".join(lines), MACHINE, f"{MACHINE} with {variant}")
        made[variant] = (to_core(machine, core), machine)
    return made


def simulate() -> None:
    """Simulate all rows with all variants of the machine, and write the file."""
    from interlace.base.native import load_core
    from interlace.model.results import provenance
    from interlace.study.calibration import definitions

    core = load_core()
    measured = {row["row"]: row["value"] for row in json.loads(MEASURED.read_text("utf-8"))["rows"]}
    found = {row.key: row for row in definitions()}
    made: dict[str, dict[str, float]] = {
        row["row"]: {"measured": measured[row["row"]], "answers": row["answers"]}
        for row in json.loads(FILE.read_text(encoding="utf-8"))["rows"]
    }
    for variant, (described, machine) in machines(core).items():
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


def pieces() -> dict[str, dict[str, Any]]:
    """Return the measured rates and bytes of each row of BOTH_ROWS."""
    found: dict[str, dict[str, Any]] = {}
    for file in PIECES:
        for row in json.loads(file.read_text(encoding="utf-8"))["rows"]:
            rates = row["GB_per_s"] if isinstance(row["GB_per_s"], list) else [row["GB_per_s"]]
            ways = "both" if len(rates) > 1 else "one"
            one = found.setdefault(row["row"], {})
            one.setdefault(ways, sum(rates) / len(rates))
            if "raw_sent" in row:
                one.setdefault("wire", row["raw_sent"])
    return found


def rate(core: Any, machine: Any, senders: int, stores: tuple[int, ...]) -> tuple[float, float]:
    """Return the simulated GB/s of each sender and the bytes on the wire per byte that is stored.

    The measured launches are long. Two simulated runs of different lengths give a rate without the
    times of the launch and of the end of an epoch.
    """
    element, together, lanes, shift = stores
    elements = GROUPS * (together or 8)
    short, long = (
        core.simulate_stores(machine, 2, senders, element, count, together, lanes, shift)
        for count in (elements // 2, elements)
    )
    payload = long[1] - short[1]
    return 1e-9 * payload / senders / (long[0] - short[0]), (long[2] - short[2]) / payload


def simulate_both() -> None:
    """Simulate all rows between two GPUs, and write the file."""
    from interlace.base.native import load_core
    from interlace.model.results import provenance

    core = load_core()
    measured, made = pieces(), machines(core)
    bytes_of = {
        row["row"]: row["bytes"] for row in json.loads(PIECES[1].read_text("utf-8"))["rows"]
    }
    rows = []
    for row in json.loads(BOTH_FILE.read_text(encoding="utf-8"))["rows"]:
        key = row["row"]
        stores = BOTH_ROWS[key][1]
        alone, wire = rate(core, made["limit"][0], 1, stores)
        found = {"one": alone, "wire": wire * bytes_of[key]}
        for variant in ("sectors", "limit"):
            found[variant], _ = rate(core, made[variant][0], 2, stores)
        found["answers"] = row["simulated"]["answers"]
        one: dict[str, Any] = {"row": key, "measured": measured[key], "simulated": found}
        print(json.dumps(one), flush=True)
        rows.append(one)
    document = {
        "format": 1,
        **provenance(),
        "machine": MACHINE,
        "measured": [file.name for file in PIECES],
        "rows": rows,
    }
    document["command"] = "bench/packets_table.py both --simulate"
    BOTH_FILE.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


def print_both() -> None:
    """Print the table of rates between two GPUs."""

    def beside(value: float, measured: float | None) -> str:
        return f"{value:.1f}" + (f" ({100 * (value / measured - 1):+.0f} %)" if measured else "")

    print(
        "| stores | bytes on the link, measured | bytes on the link, model "
        "| one direction, measured | model | both directions, measured | sectors | answers "
        "| limited packets | packets per ns |"
    )
    print(f"|{'---|' * 10}")
    errors: dict[str, list[float]] = {variant: [] for variant in BOTH_SHOWN}
    for row in json.loads(BOTH_FILE.read_text(encoding="utf-8"))["rows"]:
        was, found = row["measured"], row["simulated"]
        for variant in BOTH_SHOWN:
            errors[variant].append(abs(found[variant] / was["both"] - 1))
        name, (element, together, lanes, _) = BOTH_ROWS[row["row"]]
        packet = element * (lanes or together or 8)  # lanes that store in turn fill 128 bytes
        cells = [
            name,
            f"{was['wire']:.1f}" if "wire" in was else "-",
            f"{found['wire']:.0f}",
            f"{was['one']:.1f}" if "one" in was else "-",
            beside(found["one"], was.get("one")),
            f"{was['both']:.1f}",
            *(beside(found[variant], was["both"]) for variant in BOTH_SHOWN),
            f"{2 * was['both'] / packet:.1f}",
        ]
        print(f"| {' | '.join(cells)} |")
    means = [f"{100 * sum(values) / len(values):.1f} %" for values in errors.values()]
    print(f"| mean error | | | | | | {' | '.join(means)} | |")


def print_four() -> None:
    """Print the table of rates on four GPUs."""
    print(
        "| stores | measured | packets of NVLink 2 | sectors | sectors and answers "
        "| sectors and limited packets | use |"
    )
    print("|---|---|---|---|---|---|---|")
    for row in json.loads(FILE.read_text(encoding="utf-8"))["rows"]:
        rates = [
            f"{row[variant]:.1f} ({100 * (row[variant] / row['measured'] - 1):+.0f} %)"
            for variant in SHOWN
        ]
        cells = [row["row"], f"{row['measured']:.1f}", *rates, ROLES[row["row"]]]
        print(f"| {' | '.join(cells)} |")


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", nargs="?", choices=("four", "both"), default="four")
    parser.add_argument("--simulate", action="store_true")
    asked = parser.parse_args()
    if asked.table == "four":
        if asked.simulate:
            simulate()
        print_four()
    else:
        if asked.simulate:
            simulate_both()
        print_both()


if __name__ == "__main__":
    main()
