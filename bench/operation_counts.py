#!/usr/bin/env python3
"""Counts the operations that the GPU executes in the kernels of the traced workloads.

The script runs the test `operations.workloads` of interlace_gpu_tests under Nsight Compute.
(bench/gpu_check.sh builds interlace_gpu_tests.) The script writes, for each workload, kernel and
kind of operation, how many operations all threads together executed. Kernels state their operations
with `compute`. The test tests/cpp/sim/trace_test.cpp compares these statements with the file.

    bench/operation_counts.py --tests build/gpu-check/interlace_gpu_tests --json FILE
"""

from __future__ import annotations

import argparse
import csv
import datetime
import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

# Maps a kind of interlace::operation to the profiler's counters for this kind. The counters leave
# out threads whose predicate is false.
METRICS = {
    "fp32": ("smsp__sass_thread_inst_executed_op_fp32_pred_on.sum",),
    "fp64": ("smsp__sass_thread_inst_executed_op_fp64_pred_on.sum",),
    "integer": (
        "smsp__sass_thread_inst_executed_op_integer_pred_on.sum",
        "smsp__sass_thread_inst_executed_op_bit_pred_on.sum",
    ),
}
# maps a part of a kernel's name to the workload that launches the kernel
KERNELS = {
    "rank_update": "pagerank",
    "jacobi": "jacobi",
    "stencil_step": "stencil",
    "bitonic": "bitonic",
    "spmv_rows": "spmv",
    "path_update": "sssp",
    "renew_rows": "als",
    "squared_errors": "als",
    "project_rays": "ct",
    "renew_pixels": "ct",
    "heat_change": "diffusion",
    "burgers_change": "burgers",
    "renew_stresses": "eqwp",
    "renew_velocities": "eqwp",
    "rotate": "hit",
    "send_planes": "hit",
    "take_planes": "hit",
    "cross": "hit",
    "send_lines": "hit",
    "take_lines": "hit",
    "advance": "hit",
}


def profile(ncu: str, tests: str) -> str:
    """Return the profiler's table, with one line for each kernel."""
    command = [ncu, "--csv", "--page", "raw", "--print-units", "base", "--clock-control", "none"]
    command += ["--kernel-name", "regex:run_grid", "--print-kernel-base", "demangled"]
    command += ["--metrics", ",".join(m for group in METRICS.values() for m in group)]
    command += [tests, "--gtest_filter=operations.workloads"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != 0:
        sys.exit(f"{ncu} failed with exit code {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout


def by_kernel(table: str) -> dict[str, dict[str, int]]:
    """Return the number of operations, for each part of a kernel's name and each kind of
    operation.
    """
    lines = [line for line in table.splitlines() if line.startswith('"')]
    rows = csv.DictReader(io.StringIO("\n".join(lines)))
    counts = {part: dict.fromkeys(METRICS, 0) for part in KERNELS}
    seen = set()
    for row in rows:
        part = next((part for part in KERNELS if part in row["Kernel Name"]), None)
        if part is None:
            continue
        seen.add(part)
        for kind, metrics in METRICS.items():
            counts[part][kind] += sum(int(row[m].replace(",", "")) for m in metrics)
    missing = [part for part in KERNELS if part not in seen]
    if missing:
        sys.exit(f"the profiler's output has no kernel of {', '.join(missing)}")
    return counts


def by_workload(kernels: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
    counts: dict[str, dict[str, int]] = {}
    for part, executed in kernels.items():
        of = counts.setdefault(KERNELS[part], dict.fromkeys(METRICS, 0))
        for kind in METRICS:
            of[kind] += executed[kind]
    return counts


def first_line(*command: str) -> str | None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip().splitlines()[0] if done.returncode == 0 and done.stdout else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--tests", default="build/gpu-check/interlace_gpu_tests")
    parser.add_argument("--json", required=True)
    given = parser.parse_args()
    ncu = shutil.which("ncu") or shutil.which("/usr/local/cuda/bin/ncu")
    if ncu is None:
        sys.exit("there is no ncu in PATH or /usr/local/cuda/bin; install Nsight Compute")
    kernels = by_kernel(profile(ncu, given.tests))
    query = ["nvidia-smi", "--format=csv,noheader"]
    result = {
        "command": f"bench/operation_counts.py --tests {given.tests} --json {given.json}",
        "commit": os.environ.get("INTERLACE_COMMIT") or first_line("git", "rev-parse", "HEAD"),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "gpu": first_line(*query, "--query-gpu=name"),
        "driver": first_line(*query, "--query-gpu=driver_version"),
        "metrics": METRICS,
        "operations": by_workload(kernels),
        "kernels": kernels,
    }
    Path(given.json).write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
