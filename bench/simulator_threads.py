#!/usr/bin/env python3
"""Measures the wall time of one simulation with different numbers of threads.

    bench/simulator_threads.py [--threads 1,4,16] [--sizes quick,larger] [--workloads NAMES]
                               [--limit SECONDS] [--json FILE]

The script runs the workloads of `interlace bench simulator` on 16 GPUs, with stores by kernels
(`inline`). All workloads run with the quick inputs for 16 GPUs first. They then run with larger
inputs until the limit is reached. Each row is the faster of two runs. If the first run takes more
than three seconds, there is no second run. The size `papers` has the inputs of the 16 GPUs of
`interlace reproduce finepack`. The script writes the file after each row. It ends with exit code 1
if two numbers of threads give different bits.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from interlace.base.native import load_core
from interlace.base.statistics import geometric_mean
from interlace.machine.compiled import to_core
from interlace.machine.reading import load_machine
from interlace.model.mechanism_table import INLINE
from interlace.model.results import provenance
from interlace.model.run import Case, Outcome
from interlace.reproduce.finepack_inputs import QUICK_SIXTEEN_GPUS, SIXTEEN_GPUS
from interlace.reproduce.simulator_workloads import workloads

MACHINE = "16x-gv100-pcie6"
GPUS = 16
SIZES = {
    "quick": QUICK_SIXTEEN_GPUS,
    "larger": QUICK_SIXTEEN_GPUS._replace(
        jacobi_rows=1 << 21, pagerank_rows=524_288, sssp_pages=262_144, als_vertices=6144,
        ct_size=724, eqwp_size=80, diffusion_size=120, hit_size=72,
    ),
    "papers": SIXTEEN_GPUS,
}  # fmt: skip
LONG_S = 3.0


def bits_of(outcome: Outcome) -> str:
    """Return a hash of a run's simulated figures and values."""
    figures = (outcome.time_s, outcome.accesses, outcome.remote_transactions, outcome.stores,
               outcome.wire)  # fmt: skip
    assert outcome.values is not None
    return hashlib.sha256(repr(figures).encode() + outcome.values.tobytes()).hexdigest()[:16]


def measure(core: Any, machine: Any, workload: Any, threads: int) -> tuple[float, Outcome]:
    """Return the duration of a run in seconds, and its outcome."""
    best = None
    while True:
        began = time.perf_counter()
        outcome = workload.simulate(core, machine, Case(GPUS, INLINE), threads=threads)
        took = time.perf_counter() - began
        if best is not None or took > LONG_S:
            return min(took, best or took), outcome
        best = took


def write(asked: argparse.Namespace, rows: list[dict[str, Any]]) -> None:
    """Write the rows that exist so far, if the user asked for a file."""
    if not asked.json:
        return
    head = {"format": 1, **provenance(), "machine": MACHINE,
            "command": f"bench/simulator_threads.py --threads {asked.threads} --sizes {asked.sizes}"
                       + (f" --workloads {asked.workloads}" if asked.workloads else ""),
            "cores": len(os.sched_getaffinity(0)), "load": os.getloadavg()}  # fmt: skip
    asked.json.write_text(json.dumps({**head, "rows": rows}, indent=1) + "\n", encoding="utf-8")


def main() -> int:
    """Measure the runs, print a table and write the results file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", default="1,4,16")
    parser.add_argument("--sizes", default="quick,larger")
    parser.add_argument("--workloads", help="names in the order of their runs [default: all]")
    parser.add_argument(
        "--limit", type=float, default=600.0, help="no workload starts after this number of seconds"
    )
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    numbers = [int(word) for word in asked.threads.split(",")]
    chosen = asked.workloads.split(",") if asked.workloads else list(workloads())
    if not set(chosen) <= set(workloads()):
        parser.error(f"--workloads: give some of {', '.join(workloads())}")
    core, began = load_core(), time.perf_counter()
    machine = to_core(load_machine(MACHINE), core)
    rows: list[dict[str, Any]] = []
    for sizes_name in asked.sizes.split(","):
        gains: dict[int, list[float]] = {}
        loads = workloads(SIZES[sizes_name])
        for name in chosen:
            if time.perf_counter() - began > asked.limit:
                continue
            workload = loads[name]()
            first: tuple[float, str] | None = None
            for threads in numbers:
                seconds, outcome = measure(core, machine, workload, threads)
                bits = bits_of(outcome)
                first = first or (seconds, bits)
                row = {
                    "sizes": sizes_name, "workload": name, "data": workload.data_name,
                    "gpus": GPUS, "mechanism": INLINE, "threads": threads, "seconds": seconds,
                    "cpu_s": outcome.cpu_s, "accesses": outcome.accesses, "bits": bits,
                    "speedup": first[0] / seconds, "same": bits == first[1],
                }  # fmt: skip
                rows.append(row)
                gains.setdefault(threads, []).append(first[0] / seconds)
                write(asked, rows)
                same = "same" if row["same"] else "DIFFERENT"
                print(f"{sizes_name} {name} ({workload.data_name}): {threads} threads "
                      f"{seconds:.3f} s, speedup {first[0] / seconds:.2f}, {same} bits",
                      flush=True)  # fmt: skip
        for threads, found in gains.items():
            mean = geometric_mean(found) or 0.0
            print(f"{sizes_name}, mean of {len(found)}: {threads} threads, speedup {mean:.2f}")
    return 0 if all(row["same"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
