"""Prints the observations inside simulated runs: bytes between GPUs, use of links, idle GPUs."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from interlace.base import table
from interlace.model.inside import Inside, matrix

if TYPE_CHECKING:
    from interlace.model.results import StudyRow


SPARKS = " ▁▂▃▄▅▆▇█"
SPARK_WIDTH = 32


def print_inside(rows: Sequence[StudyRow]) -> None:
    """Print the traffic, the links and the GPUs of each row that has several GPUs."""
    for row in rows:
        inside = row.inside
        if inside is not None and row.gpus > 1:
            print("\n".join(["", *text(f"{row.short_label} on {row.gpus} GPUs", inside)]))


def text(title: str, inside: Inside) -> list[str]:
    """Return lines of text about the traffic, the links and the GPUs of one run."""
    lines = [f"Inside {title}"]
    if inside.pairs:
        size, unit = table.scale(
            (float(p.payload_bytes + p.protocol_bytes) for p in inside.pairs), table.BYTES
        )
        lines += _matrix(f"payload, {unit}", matrix(inside, lambda p: p.payload_bytes / size))
        lines += _matrix(f"protocol, {unit}", matrix(inside, lambda p: p.protocol_bytes / size))
        lines += _matrix("packets", matrix(inside, lambda p: p.packets), places=0)
        lines += _matrix("mean latency, us", matrix(inside, lambda p: p.mean_latency_s * 1e6))
        lines += _matrix("max latency, us", matrix(inside, lambda p: p.max_latency_s * 1e6))
        lines += _links(inside)
    return [*lines, *_gpus(inside)]


def _matrix(what: str, cells: list[list[float | None]], *, places: int | None = None) -> list[str]:
    flat = [value for line in cells for value in line]
    if places is None:
        shown = table.fixed(flat)
    else:
        shown = [table.UNKNOWN if v is None else f"{v:.{places}f}" for v in flat]
    count = len(cells)
    columns = [
        table.Column("from", what, [f"gpu{index}" for index in range(count)], number=False),
        *(
            table.Column("to" if to == 0 else "", f"gpu{to}", shown[to::count])
            for to in range(count)
        ),
    ]
    return ["", table.plain(columns)]


def _links(inside: Inside) -> list[str]:
    size, unit = table.scale((float(link.wire_bytes) for link in inside.links), table.BYTES)
    columns = [
        table.Column("link", "", [link.name for link in inside.links], number=False),
        table.Column("", "", [link.protocol for link in inside.links], number=False),
        table.Column("wire", unit, table.fixed([n.wire_bytes / size for n in inside.links])),
        table.Column("busy", "%", [f"{100 * link.busy:.1f}" for link in inside.links]),
        table.Column(
            "over time",
            f"from 0 to {_seconds(inside.time_s)}; a full block is 100 %",
            [f"|{spark(link.by_bin)}|" for link in inside.links],
            number=False,
        ),
    ]
    return ["", table.plain(columns)]


def _seconds(seconds: float) -> str:
    size, unit = table.scale([seconds], table.SECONDS)
    return f"{seconds / size:.4g} {unit}"


def spark(parts: Sequence[float]) -> str:
    """Draw fractions as block characters of different heights.

    If there are more time bins than characters, a character shows the mean of several bins.
    """
    width = min(SPARK_WIDTH, len(parts))
    cuts = [len(parts) * k // width for k in range(width + 1)] if width else [0]
    means = [sum(parts[begin:end]) / (end - begin) for begin, end in itertools.pairwise(cuts)]
    # A fraction above 0 has at least the lowest block.
    steps = len(SPARKS) - 1
    return "".join(SPARKS[min(steps, max(int(mean > 0), round(mean * steps)))] for mean in means)


def _gpus(inside: Inside) -> list[str]:
    columns = [
        table.Column("GPU", "", [f"gpu{index}" for index in range(len(inside.gpus))], number=False)
    ]
    for name, unit, value in (
        ("kernel", "% of time", "kernel"),
        ("copies", "% of time", "copy"),
        ("idle", "% of time", "idle"),
        ("while others", "compute, %", "idle_while_others_compute"),
        ("issue slots", "% used", "issue"),
        ("memory", "% of GB/s", "memory"),
    ):
        cells = [f"{100 * getattr(gpu, value):.1f}" for gpu in inside.gpus]
        columns.append(table.Column(name, unit, cells))
    return ["", table.plain(columns)]
