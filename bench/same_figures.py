#!/usr/bin/env python3
"""Tells whether two builds of Interlace print the same simulated figures, bit for bit.

    bench/same_figures.py record FOLDER [--interlace COMMAND] [--only PATTERN]
    bench/same_figures.py compare BEFORE AFTER

`record` runs the commands below. It writes the JSON of each command to a file in FOLDER. If the
file exists, `record` skips the command.

- small studies of all workloads by all simulated mechanisms on three machines
- all programs of `interlace locality`
- the sweep of docs/example
- `interlace reproduce PAPER --quick` of the four papers

`compare` prints each value that differs. If a value differs, the exit code is 1. `compare` ignores
values that differ in every run: dates, commits, commands, and the time and memory of the host.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
MACHINES = ("4x-volta-nvlink2", "4x-gv100-pcie4", "hgx-h200-4")
WORKLOADS = {
    "pagerank": "--rmat 10 --iterations 2",
    "pagerank-needed": "--rmat 9 --iterations 2 --subscribe needed --kernel warp-per-row",
    "jacobi": "--rows 4096 --iterations 2",
    "jacobi-halo": "--rows 4096 --iterations 2 --halo",
    "sssp": "--rmat 9",
    "als": "--users 128 --items 64 --ratings 1024 --iterations 1",
    "als-sgd": "--users 128 --items 64 --ratings 1024 --iterations 1 --method sgd --subscribe all",
    "ct": "--size 32 --angles 8 --iterations 1",
    "diffusion": "--size 16 --iterations 2",
    "diffusion-burgers": "--size 64 --dimensions 2 --equation burgers --iterations 2",
    "eqwp": "--size 12 --iterations 1",
    "eqwp-tiles": "--size 12 --iterations 1 --kernel tiles",
    "hit": "--size 16 --iterations 1",
    "halo-jacobi": "--columns 1024 --iterations 3",
}
MECHANISMS = (
    "bulk-copy,split,inline,polling,device-launch,copy-engine,proact-hardware,serial-copy,"
    "write-combining,finepack,config-packet,gps,infinite-bandwidth"
)
TREATMENTS = (
    "direct,page-migration,griffin,bypass,fine-grained,coalesced,rdma-cache,dualopt,"
    "dualopt-adaptive,dualopt-pages"
)
PROGRAMS = ("fir mt", "mm atax", "spmv bicg", "bs aes", "bfs pr", "km st sc")
PAPERS = ("proact", "finepack", "multipath", "dualopt")

# The values of these keys differ between runs or builds. They are not simulated figures.
PASSING = re.compile(
    r"^(date|commit|command|version|cpu_s|peak_rss_mb|seconds|jobs|accesses_per_cpu_s|host)$"
)


def commands() -> Iterator[tuple[str, str]]:
    """Yield the name of each file without its suffix, and the arguments of the command that writes
    the file.
    """
    for name, options in WORKLOADS.items():
        workload = name if name == "halo-jacobi" else name.split("-")[0]
        for machine in MACHINES:
            yield (
                f"study-{name}-{machine}",
                f"study {workload} {options} --machine {machine} --gpus 1,2,4 --no-profile "
                f"--mechanisms {MECHANISMS} --split 2,8 --chunks 16K --inside",
            )
    for programs in PROGRAMS:
        yield (
            f"locality-{programs.replace(' ', '-')}",
            f"locality {programs} --gpus 4 --mechanism {TREATMENTS}",
        )
    yield "sweep", "sweep docs/example/sweep.toml --runs {folder}/sweep.runs.jsonl"
    for paper in PAPERS:
        yield f"reproduce-{paper}", f"reproduce {paper} --quick"


def record(folder: Path, interlace: str, only: str) -> int:
    """Run the commands whose files are missing. Return the number of failed commands."""
    folder.mkdir(parents=True, exist_ok=True)
    failed = 0
    for name, arguments in commands():
        file = folder / f"{name}.json"
        if file.exists() or not re.search(only, name):
            continue
        began = time.monotonic()
        words = shlex.split(arguments.format(folder=shlex.quote(str(folder))))
        done = subprocess.run(
            [*shlex.split(interlace), *words, "--json", str(file)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        took = time.monotonic() - began
        if done.returncode == 0:
            print(f"{name}: {took:.0f} s", flush=True)
            continue
        failed += 1
        file.unlink(missing_ok=True)
        last = (done.stderr.strip().splitlines() or ["the command printed no reason"])[-1]
        print(f"{name}: exit code {done.returncode}: {last}", flush=True)
    return failed


def differences(path: str, before: Any, after: Any) -> Iterator[str]:
    """Yield a line for each value that differs."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted({*before, *after}):
            if PASSING.match(key):
                continue
            if key not in before or key not in after:
                yield f"{path}.{key}: only {'after' if key in after else 'before'}"
            else:
                yield from differences(f"{path}.{key}", before[key], after[key])
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from differences(f"{path}[{index}]", one, other)
    elif before != after:
        yield f"{path}: {str(before)[:80]} before, {str(after)[:80]} after"


def compare(before: Path, after: Path) -> int:
    """Print the values that differ, and return the number of these values."""
    names = sorted({file.name for folder in (before, after) for file in folder.glob("*.json")})
    if not names:
        raise SystemExit(f"same_figures.py: there are no files in {before} and {after}")
    found = 0
    for name in names:
        files = before / name, after / name
        missing = [file for file in files if not file.exists()]
        if missing:
            found += 1
            print(f"{missing[0]} is missing")
            continue
        lines = list(differences(name, *(json.loads(file.read_text("utf-8")) for file in files)))
        found += len(lines)
        for line in lines[:20]:
            print(line)
        if len(lines) > 20:
            print(f"{name}: {len(lines) - 20} more")
    print(f"{len(names)} files, {found} differences")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    actions = parser.add_subparsers(dest="action", required=True)
    recording = actions.add_parser("record")
    recording.add_argument("folder", type=Path)
    recording.add_argument("--interlace", default=".venv/bin/interlace")
    recording.add_argument("--only", default="", metavar="PATTERN")
    comparing = actions.add_parser("compare")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    given = parser.parse_args()
    if given.action == "record":
        found = record(given.folder.resolve(), given.interlace, given.only)
    else:
        found = compare(given.before, given.after)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
