"""Prints a sweep as tables, and writes it as CSV."""

from __future__ import annotations

import csv
import io
import itertools
import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from interlace.base.counts import counted
from interlace.model.mechanisms import BOUND, Config, label
from interlace.show.study import captured, legend
from interlace.study.sweep import SweepResult, SweepRow

if TYPE_CHECKING:
    from interlace.base.table import Column


SHOWN = 20  # the table shows at most this many points


def _best(rows: Sequence[SweepRow]) -> SweepRow:
    """Return the fastest row on the largest number of GPUs.

    The result is a row of the bound only if there is no other row.
    """
    most = max(row.gpus for row in rows)
    mechanisms = [row for row in rows if row.gpus == most and row.mechanism != BOUND]
    return min(mechanisms or [row for row in rows if row.gpus == most], key=lambda r: r.time_s)


def _columns(rows: Sequence[SweepRow]) -> list[Column]:
    from interlace.base import table

    time, unit = table.scale((row.time_s for row in rows), table.SECONDS)
    names = [label(row.mechanism, Config.of(row.config), short=True) for row in rows]
    found = [
        table.Column("fastest", "mechanism", names, number=False),
        table.Column("time", unit, table.fixed([row.time_s / time for row in rows])),
        table.Column("speedup", "x", [f"{row.speedup:.2f}" for row in rows]),
    ]
    if any(row.captured is not None for row in rows if row.gpus > 1):
        cells = [captured(row.speedup, row.captured) for row in rows]
        found.append(table.Column("captured", "%", cells))
    return found


def _point_columns(keys: Sequence[str], rows: Sequence[SweepRow]) -> list[Column]:
    from interlace.base import table

    return [
        table.Column(
            key.rpartition(".")[0], key.rpartition(".")[2], [f"{row.point[key]}" for row in rows]
        )
        for key in keys
    ]


def _by_point(rows: Sequence[SweepRow]) -> list[SweepRow]:
    """Return the fastest row of each point, sorted from the fastest point to the slowest."""
    groups = itertools.groupby(rows, key=lambda row: row.point)
    return sorted((_best(list(group)) for _, group in groups), key=lambda row: row.time_s)


class _AxisValue(NamedTuple):
    """One value of a key, and the rows of all points that have this value.

    All of these rows are for the largest number of GPUs.
    """

    key: str
    value: Any
    rows: list[SweepRow]

    def mean_s(self, mechanism: str) -> float:
        """Return the geometric mean, over the points, of the mechanism's fastest time."""
        own = [row for row in self.rows if row.mechanism == mechanism]
        points = itertools.groupby(own, key=lambda row: row.point)
        return statistics.geometric_mean(min(r.time_s for r in group) for _, group in points)


def _by_axis(keys: Sequence[str], rows: Sequence[SweepRow]) -> list[_AxisValue]:
    """Return an _AxisValue for each value of each key."""
    most = max(row.gpus for row in rows)
    return [
        _AxisValue(
            key, value, [row for row in rows if row.gpus == most and row.point[key] == value]
        )
        for key in keys
        for value in sorted({row.point[key] for row in rows}, key=_order)
    ]


def _order(value: Any) -> tuple[bool, Any]:
    return (True, value) if isinstance(value, str) else (False, value)


def print_sweep(result: SweepResult) -> None:
    """Print the best run for each value of each axis, then the points from fastest to slowest."""
    from interlace.base import table

    keys = list(result.rows[0].point)
    points = _by_point(result.rows)
    print(
        f"{result.workload}, {result.data['name']} ({result.data['size']}); "
        f"{counted(len(points), 'machine')} from {result.machine}, "
        f"{counted(len(result.rows), 'run')}, simulated"
    )
    axis = _by_axis(keys, result.rows)
    groups = [keys.index(one.key) for one in axis]
    names = [
        table.Column("key", "", [one.key for one in axis], number=False),
        table.Column("value", "", [str(one.value) for one in axis]),
    ]
    gpus = max(row.gpus for row in result.rows)
    print(f"\nThe fastest run on {gpus} GPU{'s' if gpus > 1 else ''} for each value:\n")
    print(table.plain([*names, *_columns([_best(one.rows) for one in axis])], groups))
    means = {
        mechanism: [one.mean_s(mechanism) for one in axis]
        for mechanism in dict.fromkeys(row.mechanism for row in axis[0].rows)
    }
    size, unit = table.scale(itertools.chain.from_iterable(means.values()), table.SECONDS)
    print("\nTime of each mechanism: the geometric mean over all points with this value:\n")
    columns = [
        table.Column(mechanism, unit, table.fixed([mean / size for mean in values]))
        for mechanism, values in means.items()
    ]
    print(table.plain([*names, *columns], groups))
    shown = points[:SHOWN]
    print("\nThe points, the fastest first:\n")
    print(table.plain([*_point_columns(keys, shown), *_columns(shown)]))
    if len(points) > len(shown):
        print(f"The files of --json and --csv have {len(points) - len(shown)} more points.")
    for line in legend(row.mechanism for row in points):
        print(line)
    worst = max(row.max_error for row in result.rows)
    print(f"\nAll runs verified; the largest relative error is {worst:.1e}.")


def csv_text(result: SweepResult) -> str:
    """Return every run as a line, with one column for each axis."""
    keys = list(result.rows[0].point)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    plain = (
        "iterations", "time_s", "speedup", "opportunity", "captured", "max_error", "accesses",
        "remote_transactions", "cpu_s",
    )  # fmt: skip
    wire = ("useful", "protocol", "wasted")
    config = Config._fields
    bytes_of = [f"{kind}_bytes" for kind in wire]
    head = ["workload", "data", "machine", *keys, "gpus", "mechanism", *config, *plain, *bytes_of]
    writer.writerow(head)
    for row in result.rows:
        values = [
            result.workload,
            result.data["name"],
            result.machine,
            *(row.point[key] for key in keys),
            row.gpus,
            row.mechanism,
            *(row.config.get(name) for name in config),
            *(getattr(row, name) for name in plain),
            *(getattr(row.wire, kind) for kind in wire),
        ]
        writer.writerow(["" if value is None else value for value in values])
    return text.getvalue()
