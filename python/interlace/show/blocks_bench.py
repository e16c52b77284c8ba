"""Prints measured batches of blocks as tables."""

from __future__ import annotations

from typing import Any

from interlace.base import table
from interlace.model.mechanisms import size_text
from interlace.show.page import BLUE, GREY, ORANGE, SKY, Chart, html_table, measured_page
from interlace.study.blocks_bench import DRIVER, LOOP, OWN, TORCH, BlocksResults, BlocksRow

COLOURS = {OWN: BLUE, DRIVER: ORANGE, LOOP: GREY, TORCH: SKY}

Key = tuple[str, int, int]


def _keys(results: BlocksResults) -> list[Key]:
    return [(row.direction, row.block_bytes, row.blocks) for row in results.rows]


def _columns(rows: list[BlocksRow]) -> list[table.Column]:
    return [
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


def _head(results: BlocksResults) -> str:
    name = results.machine["name"]
    return f"batches of blocks at random places, in page-locked memory; measured on {name}"


def _foot(results: BlocksResults) -> list[str]:
    rows = results.rows
    links = ", ".join(f"{name} {rate:.1f} GB/s" for name, rate in results.link_gb_per_s.items())
    own = [row for row in rows if row.method == OWN and row.slower is not None]
    slowest = max(own, key=lambda row: row.slower or 0)
    foot = [
        f"Rate of the link, measured by one copy of 256 MiB: {links}.",
        f"time: the median of {results.repeats} repeats, from the call on an idle stream until all "
        "bytes have arrived; in a row: the time of a batch when eight batches run back to back.",
        "Compared with the fastest other method, interlace does worst for "
        f"{slowest.blocks} x {size_text(slowest.block_bytes)} {slowest.direction}, where its time "
        f"differs by {100 * (slowest.slower or 0):+.1f} %.",
    ]
    wrong = sum(row.wrong for row in rows)
    foot.append(f"{wrong} blocks wrong." if wrong else "All bytes right.")
    return foot


def print_blocks(results: BlocksResults) -> None:
    """Print the tables."""
    rows, keys = results.rows, _keys(results)
    fastest: dict[Key, float] = {}
    for key, row in zip(keys, rows, strict=True):
        fastest[key] = min(row.median_us, fastest.get(key, row.median_us))
    groups = [sorted(fastest).index(key) for key in keys]
    styles = [
        table.BEST if row.median_us == fastest[key] else ""
        for key, row in zip(keys, rows, strict=True)
    ]
    table.print_table(_head(results), _columns(rows), groups, styles, _foot(results))
    if results.beside:
        _print_beside(results)


def page(results: BlocksResults) -> str:
    """Return a page with the table and with a chart for each direction and number of blocks."""
    rows = html_table(_columns(results.rows), _keys(results))
    return measured_page(results, _head(results), _charts(results), rows, _foot(results))


def _charts(results: BlocksResults) -> list[Chart]:
    charts: list[Chart] = []
    caption = (
        "The bytes of a batch, divided by the time from the call until all bytes have arrived."
    )
    for direction in dict.fromkeys(row.direction for row in results.rows):
        for blocks in dict.fromkeys(row.blocks for row in results.rows):
            rows = [r for r in results.rows if (r.direction, r.blocks) == (direction, blocks)]
            layout = {
                "xaxis": {"type": "category", "title": {"text": "bytes of a block"}},
                "yaxis": {"title": {"text": "GB/s"}, "rangemode": "tozero"},
            }
            title = f"{blocks} blocks, {direction.replace('-', ' the ').replace('gpu', 'GPU')}"
            figure = {"data": _traces(results, direction, rows), "layout": layout}
            charts.append((f"blocks-{direction}-{blocks}", title, caption, figure))
    return charts


def _traces(results: BlocksResults, direction: str, rows: list[BlocksRow]) -> list[dict[str, Any]]:
    traces: list[dict[str, Any]] = []
    for method in dict.fromkeys(row.method for row in rows):
        own = [row for row in rows if row.method == method]
        traces.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": method,
                "x": [size_text(row.block_bytes) for row in own],
                "y": [row.gb_per_s for row in own],
                "line": {"color": COLOURS[method]},
                "hovertemplate": f"%{{y:.2f}} GB/s, %{{x}}<extra>{method}</extra>",
            }
        )
    sizes = [size_text(size) for size in dict.fromkeys(row.block_bytes for row in rows)]
    traces.append(
        {
            "type": "scatter",
            "mode": "lines",
            "name": "one copy of 256 MiB",
            "x": sizes,
            "y": [results.link_gb_per_s[direction]] * len(sizes),
            "line": {"color": GREY, "dash": "dash"},
        }
    )
    return traces


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
        "slowdown of a kernel on the GPU while batches of 4 KiB blocks run back to back",
        columns,
        groups,
        ["" for _ in rows],
        ["0 thread blocks means that there is no limit."],
    )
