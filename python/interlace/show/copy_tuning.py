"""Prints a copy profile as a table."""

from __future__ import annotations

from pathlib import Path

from interlace.base import table
from interlace.model.mechanisms import size_text
from interlace.tuning.copy_tuning import DIRECT, CopyProfile, label_of
from interlace.tuning.search import Tried


def print_copy_profile(profile: CopyProfile, path: Path) -> None:
    """Print, for each class of sizes, the way to copy that the tuning picked."""
    rows: list[tuple[str, int, Tried, Tried]] = []
    for name, direction in profile.directions.items():
        for one in direction.measured:
            plain = one.search.best(DIRECT)
            assert plain is not None
            rows.append((name, one.bytes, one.search.picked, plain))

    def rate(size: int, tried: Tried) -> str:
        return f"{1e-9 * size / (tried.median_s or 1):.2f}"

    columns = [
        table.Column("direction", "", [name for name, *_ in rows], number=False),
        table.Column("size", "", [size_text(size) for _, size, *_ in rows]),
        table.Column("direct", "GB/s", [rate(size, plain) for _, size, _, plain in rows]),
        table.Column("picked", "GB/s", [rate(size, picked) for _, size, picked, _ in rows]),
        table.Column(
            "gain", "x",
            [f"{(plain.median_s or 0) / (it.median_s or 1):.2f}" for *_, it, plain in rows],
        ),
        table.Column(
            "spread", "%",
            [f"{100 * (it.spread_s or 0) / (it.median_s or 1):.1f}" for *_, it, _ in rows],
        ),
        table.Column(
            "", "", [label_of(it.mechanism, it.parameters) for *_, it, _ in rows], number=False
        ),
    ]  # fmt: skip
    names = list(profile.directions)
    sections = [names.index(name) for name, *_ in rows]
    styles = ["" if it.mechanism == DIRECT else table.BEST for *_, it, _ in rows]
    samples = sum(
        len(times.times_s)
        for direction in profile.directions.values()
        for one in direction.measured
        for tried in one.search.candidates
        for times in tried.samples
    )
    foot = [f"{samples} copies measured, all bytes right.", f"Profile: {path}"]
    table.print_table(f"copies, tuned on {profile.machine.name}", columns, sections, styles, foot)
