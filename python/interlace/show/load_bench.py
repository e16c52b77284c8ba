"""Shows measured loads of a checkpoint as a table, and as a page with a chart."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from interlace.base import table
from interlace.show.page import BLUE, GREY, ORANGE, SKY, Chart, html_table, measured_page
from interlace.study.load_bench import LoadResults, LoadRow
from interlace.study.load_methods import LIMITS

PLACES = {"cache": "page cache", "tmpfs": "tmpfs", "cold": "disk"}


def _rates(results: LoadResults, seconds: Iterable[float | None]) -> list[str]:
    return [table.UNKNOWN if s is None else f"{1e-9 * results.bytes / s:.2f}" for s in seconds]


def _megabytes(sizes: Iterable[int | None]) -> list[str]:
    return [table.UNKNOWN if size is None else f"{1e-6 * size:.0f}" for size in sizes]


def _columns(results: LoadResults) -> list[table.Column]:
    rows = results.rows
    speedups = [table.UNKNOWN if r.speedup is None else f"{r.speedup:.2f}" for r in rows]
    tensors = table.fixed([row.first_tensor_s for row in rows])
    wrong = [table.UNKNOWN if r.wrong is None else str(r.wrong) for r in rows]
    fresh = [row.first_without_context_s for row in rows]
    return [
        table.Column("method", "", [row.method for row in rows], number=False),
        table.Column("from", "", [PLACES[row.place] for row in rows], number=False),
        table.Column("memory", "", [row.memory for row in rows], number=False),
        table.Column("cores", "", [str(row.cores) for row in rows]),
        table.Column("bandwidth", "GB/s", [f"{row.gb_per_s:.2f}" for row in rows]),
        table.Column("first", "GB/s", _rates(results, [row.first_s for row in rows])),
        table.Column("no context", "GB/s", _rates(results, fresh)),
        table.Column("1st tensor", "s", tensors),
        table.Column("speedup", "x", speedups),
        table.Column("host", "MB", _megabytes(row.host_peak for row in rows)),
        table.Column("GPU", "MB", _megabytes(row.device_peak for row in rows)),
        table.Column("#wrong", "", wrong),
    ]


def _head(results: LoadResults) -> str:
    halved = f", all sizes halved {results.halvings} times" if results.halvings else ""
    return (
        f"load, {1e-9 * results.bytes:.3f} GB in {results.tensors} tensors ({results.layers} layers"
        f"{halved}) to {results.device} as {results.framework}; measured on "
        f"{results.machine['name']}"
    )


def _foot(results: LoadResults) -> list[str]:
    foot = [
        f"bandwidth: from the median of {results.repeats} repeats, which includes the allocation "
        f"of memory; {results.threads} threads. memory: fresh from the driver, or reused by the "
        "allocator.",
        "first: the first call in a process that has a context; no context: the first call in a "
        "process that has none. host, GPU: the peak of memory beyond the tensors.",
    ]
    if results.device == "cpu":
        foot.append(
            "The time of safetensors includes touching every "
            "page, because safetensors maps the file."
        )
    foot += [f"Left out: {note}." for note in results.notes]
    wrong = wrong_tensors(results)
    foot.append(f"{wrong} tensors wrong." if wrong else "All bytes right.")
    return foot


def wrong_tensors(results: LoadResults) -> int:
    """Return the number of wrong tensors in the first loads of all methods."""
    return sum(row.wrong or 0 for row in results.rows if row.memory == "fresh")


def print_loads(results: LoadResults) -> None:
    """Print the table."""
    rows = results.rows
    groups = [list(PLACES).index(row.place) for row in rows]
    fastest: dict[tuple[str, str], LoadRow] = {}
    for row in rows:
        best = fastest.setdefault((row.place, row.memory), row)
        if row.method not in LIMITS and (best.method in LIMITS or row.median_s < best.median_s):
            fastest[row.place, row.memory] = row
    styles = [table.BEST if row in fastest.values() else "" for row in rows]
    table.print_table(_head(results), _columns(results), groups, styles, _foot(results))


def page(results: LoadResults) -> str:
    """Return a page with a chart for each place, and with the table.

    The page makes no network request.
    """
    rows = html_table(_columns(results), [row.place for row in results.rows])
    return measured_page(results, _head(results), _charts(results), rows, _foot(results))


def _charts(results: LoadResults) -> list[Chart]:
    cores = max((row.cores for row in results.rows), default=0)
    charts: list[Chart] = []
    for place in dict.fromkeys(row.place for row in results.rows):
        rows = [r for r in results.rows if r.place == place and r.cores == cores]
        names = list(dict.fromkeys(row.method for row in rows))[::-1]
        firsts = {row.method: row.first_s for row in rows if row.first_s is not None}
        medians = {
            memory: {row.method: row.median_s for row in rows if row.memory == memory}
            for memory in ("reused", "fresh")
        }
        traces = [
            _trace(results, "first call", ORANGE, names, firsts),
            _trace(results, "reused memory", SKY, names, medians["reused"]),
            _trace(results, "fresh memory", BLUE, names, medians["fresh"]),
        ]
        layout = {
            "barmode": "group",
            "height": 90 + 60 * len(names),
            "xaxis": {"title": {"text": "GB/s"}},
            "yaxis": {"ticksuffix": " "},
        }
        caption = "The bytes of the file, divided by the time from the call to the last byte."
        figure = {"data": [t for t in traces if any(t["x"])], "layout": layout}
        charts.append((f"load-{place}", f"From the {PLACES[place]}", caption, figure))
    return charts


def _trace(
    results: LoadResults, name: str, colour: str, names: list[str], seconds: dict[str, float]
) -> dict[str, Any]:
    rates = [1e-9 * results.bytes / seconds[n] if n in seconds else None for n in names]
    return {
        "type": "bar",
        "orientation": "h",
        "name": name,
        "y": names,
        "x": rates,
        "text": ["" if rate is None else f"{rate:.1f}" for rate in rates],
        "textposition": "outside",
        "cliponaxis": False,
        "marker": {"color": [GREY if n in LIMITS else colour for n in names]},
        "hovertemplate": "%{x:.2f} GB/s<extra>%{y}</extra>",
    }
