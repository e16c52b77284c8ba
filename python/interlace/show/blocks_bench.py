"""Prints measured batches of blocks as tables."""

from __future__ import annotations

from interlace.base import table
from interlace.model.mechanisms import size_text
from interlace.study.blocks_bench import OWN, BlocksResults


def print_blocks(results: BlocksResults) -> None:
    rows = results.rows
    keys = [(row.direction, row.block_bytes, row.blocks) for row in rows]
    fastest: dict[tuple[str, int, int], float] = {}
    for key, row in zip(keys, rows, strict=True):
        fastest[key] = min(row.median_us, fastest.get(key, row.median_us))
    columns = [
        table.Column("direction", "", [row.direction for row in rows], number=False),
        table.Column("block", "", [size_text(row.block_bytes) for row in rows]),
        table.Column("blocks", "", [str(row.blocks) for row in rows]),
        table.Column("method", "", [row.method for row in rows], number=False),
        table.Column("way", "", [row.way or "" for row in rows], number=False),
        table.Column("time", "us", table.fixed([row.median_us for row in rows])),
        table.Column("bandwidth", "GB/s", [f"{row.gb_per_s:.2f}" for row in rows]),
        table.Column(
            "in a row",
            "GB/s",
            [
                table.UNKNOWN
                if row.in_a_row_us is None
                else f"{1e-3 * row.block_bytes * row.blocks / row.in_a_row_us:.2f}"
                for row in rows
            ],
        ),
        table.Column("host", "ns/block", [f"{row.host_ns:.1f}" for row in rows]),
        table.Column("#wrong", "", [str(row.wrong) for row in rows]),
    ]
    groups = [sorted(fastest).index(key) for key in keys]
    styles = [
        table.BEST if row.median_us == fastest[key] else ""
        for key, row in zip(keys, rows, strict=True)
    ]
    links = ", ".join(f"{name} {rate:.1f} GB/s" for name, rate in results.link_gb_per_s.items())
    own = [row for row in rows if row.method == OWN and row.slower is not None]
    slowest = max(own, key=lambda row: row.slower or 0)
    foot = [
        f"The link, by one copy of 256 MiB: {links}.",
        f"time: the median of {results.repeats}, from the call on an idle stream until all bytes "
        "have arrived; in a row: eight batches follow each other.",
        f"interlace's time is at most {100 * (slowest.slower or 0):+.1f} % from the fastest other "
        f"one: {slowest.blocks} x {size_text(slowest.block_bytes)} {slowest.direction}.",
    ]
    wrong = sum(row.wrong for row in rows)
    foot.append(f"{wrong} blocks wrong." if wrong else "All bytes right.")
    head = f"blocks, scattered at random, page-locked memory; measured on {results.machine['name']}"
    table.print_table(head, columns, groups, styles, foot)
    if results.beside:
        _print_beside(results)


def _print_beside(results: BlocksResults) -> None:
    rows = results.beside
    columns = [
        table.Column("kernel", "", [row.kernel for row in rows], number=False),
        table.Column("direction", "", [row.direction for row in rows], number=False),
        table.Column("method", "", [row.method for row in rows], number=False),
        table.Column("most thread blocks", "", [str(row.most_thread_blocks) for row in rows]),
        table.Column("alone", "ms", table.fixed([row.alone_ms for row in rows])),
        table.Column("beside", "ms", table.fixed([row.beside_ms for row in rows])),
        table.Column("lost", "%", [f"{100 * row.lost:.1f}" for row in rows]),
        table.Column("batches", "GB/s", [f"{row.gb_per_s:.2f}" for row in rows]),
    ]
    keys = [(row.kernel, row.direction) for row in rows]
    groups = [sorted(set(keys)).index(key) for key in keys]
    table.print_table(
        "what a kernel on the GPU loses while batches of 4 KiB blocks follow each other",
        columns,
        groups,
        ["" for _ in rows],
        ["0 thread blocks: as many as the choice takes."],
    )
