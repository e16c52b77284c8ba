"""Prints a calibration as one table for each group of rows."""

from __future__ import annotations

from interlace.base import table
from interlace.base.printable import printable
from interlace.study.calibrate import GROUPS, CalibrationResults


def print_calibration(of: CalibrationResults) -> None:
    """Print the rows of each group, followed by the errors of each family."""
    head = (
        f"{of.machine}, simulated, compared with measurements on {of.measured['machine']}, driver "
        f"{of.measured['driver']}, CUDA {of.measured['cuda']}, {of.measured['date']}"
    )
    print(printable(head))
    for group, headline in GROUPS.items():
        rows = [row for row in of.rows if row.group == group]
        if not rows:
            continue
        print()
        columns = [
            table.Column("row", "", [row.row for row in rows], number=False),
            table.Column("measured", "", [_figure(row.measured) for row in rows]),
            table.Column("simulated", "", [_figure(row.simulated) for row in rows]),
            table.Column("", "", [row.unit for row in rows], number=False),
            table.Column("error", "%", [f"{100 * row.error:+.1f}" for row in rows]),
        ]
        order = list(dict.fromkeys(row.family for row in rows))
        foot = [
            f"{it.family}: mean error {100 * it.mean:.1f} %, largest {100 * it.worst:.1f} % "
            f"({it.worst_row})"
            for it in of.families
            if it.group == group
        ]
        groups = [order.index(row.family) for row in rows]
        table.print_table(headline + ".", columns, groups, [""] * len(rows), foot)
    if of.not_measured:
        print()
        print("Rows without a measurement are left out:")
        for reason in dict.fromkeys(it.reason for it in of.not_measured):
            names = ", ".join(it.row for it in of.not_measured if it.reason == reason)
            print(f"  {names}: {reason}")


def _figure(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"
