"""Prints simulated times of workloads beside measured times."""

from __future__ import annotations

from interlace.base.table import SECONDS, Column, fixed, print_table, scale
from interlace.study.workload_calibration import SIZES, WorkloadCalibration


def print_workloads(of: WorkloadCalibration) -> None:
    """Print a row for each workload and size, and the mean error."""
    rows = of.rows
    unit, name = scale((row.measured_s for row in rows), SECONDS)
    columns = [
        Column("workload", "", [row.workload for row in rows], number=False),
        Column("data", "", [row.size for row in rows], number=False),
        Column("measured", name, fixed([row.measured_s / unit for row in rows])),
        Column("simulated", name, fixed([row.simulated_s / unit for row in rows])),
        Column("ratio", "", [f"{row.ratio:.2f}" for row in rows]),
        Column("kernels", "%", [f"{100 * row.kernel:.0f}" for row in rows]),
        Column("idle", "%", [f"{100 * row.idle:.0f}" for row in rows]),
        Column("issue", "%", [f"{100 * row.issue:.0f}" for row in rows]),
        Column("memory", "%", [f"{100 * row.memory:.0f}" for row in rows]),
    ]
    order = list(SIZES)
    head = (
        f"A warm iteration on one GPU of {of.machine}, simulated, compared with measurements on "
        f"{of.measured['machine']}, driver {of.measured['driver']}, CUDA {of.measured['cuda']}, "
        f"{of.measured['date']}"
    )
    worst = max(rows, key=lambda row: abs(row.ratio - 1))
    foot = [
        f"Mean error {100 * of.mean_error:.1f} %, worst {100 * of.worst_error:.1f} % "
        f"({worst.workload}, {worst.size}); geometric mean of the ratios {of.ratio:.2f}.",
        "The columns show shares of the simulated time: kernels run, or nothing runs. They also "
        "show the used shares of the issue slots and of the memory's bandwidth.",
        *(f"Not compared: {it.workload}, {it.size}: {it.reason}" for it in of.not_compared),
    ]
    print_table(head, columns, [order.index(row.workload) for row in rows], [""] * len(rows), foot)
