"""Prints a block profile as a table."""

from __future__ import annotations

from pathlib import Path

from interlace.base import table
from interlace.model.mechanisms import size_text
from interlace.tuning.block_tuning import WAYS, BlockProfile


def print_block_profile(profile: BlockProfile, path: Path) -> None:
    """Print, for each way to move blocks, its fixed cost and its cost per block."""
    rows = [
        (direction, one) for direction, classes in profile.directions.items() for one in classes
    ]
    columns = [
        table.Column("direction", "", [name for name, _ in rows], number=False),
        table.Column("block", "", [size_text(one.bytes) for _, one in rows]),
    ]
    for way in WAYS:
        times = [one.ways.get(way) for _, one in rows]
        columns += [
            table.Column(
                way, "us", ["-" if it is None else f"{1e-3 * it.start_ns:.1f}" for it in times]
            ),
            table.Column(
                "a block",
                "us",
                ["-" if it is None else f"{1e-6 * it.block_ps:.3f}" for it in times],
            ),
        ]
    names = list(profile.directions)
    sections = [names.index(name) for name, _ in rows]
    foot = [
        "The time of a batch is its fixed cost plus the cost of its blocks. The times are medians "
        f"of {profile.repeats} repeats.",
        f"Profile: {path}",
    ]
    title = f"ways to move blocks, tuned on {profile.machine.model}"
    table.print_table(title, columns, sections, [""] * len(rows), foot)
