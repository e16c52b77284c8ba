"""Prints measured cycles of parked memory as a table."""

from __future__ import annotations

import statistics
from typing import Any

from interlace.base import table
from interlace.show.page import BLUE, ORANGE, SKY, Chart, html_table, measured_page
from interlace.study.park_bench import ParkResults, ParkRow


def _columns(rows: list[ParkRow]) -> list[table.Column]:
    return [
        table.Column("method", "", [row.method for row in rows], number=False),
        table.Column("first park", "s", table.fixed([row.first_park_s for row in rows])),
        table.Column("", "GB/s", [f"{row.first_park_gb_per_s:.2f}" for row in rows]),
        table.Column("park", "s", table.fixed([statistics.median(row.park_s) for row in rows])),
        table.Column("", "GB/s", [f"{row.park_gb_per_s:.2f}" for row in rows]),
        table.Column("resume", "s", table.fixed([statistics.median(row.resume_s) for row in rows])),
        table.Column("", "GB/s", [f"{row.resume_gb_per_s:.2f}" for row in rows]),
        table.Column("#wrong", "", [str(row.wrong) for row in rows]),
    ]


def _head(results: ParkResults) -> str:
    return (
        f"park, {1e-9 * results.bytes:.3f} GB in {results.tensors} tensors of PyTorch; measured on "
        f"{results.machine['name']}"
    )


def _notes(row: ParkRow) -> list[str]:
    notes = []
    if row.prepare_s is not None:
        notes.append(
            f"{row.method}: before the first park, prepare_park page-locked the memory in "
            f"{row.prepare_s:.3f} s."
        )
    if (again := row.second_process_first_park_s) is not None:
        notes.append(
            f"{row.method}: the first park of a second process took {again:.3f} s, "
            f"{1e-9 * row.bytes / again:.2f} GB/s."
        )
    return notes


def _foot(results: ParkResults) -> list[str]:
    rows = results.rows
    foot = [
        "first park: the first park of the process, which page-locks memory; park, resume: the "
        f"medians of {results.repeats} later cycles.",
        *(note for row in rows for note in _notes(row)),
        f"One copy of page-locked memory reaches {results.link_to_host_gb_per_s:.2f} GB/s to the "
        f"host and {results.link_to_gpu_gb_per_s:.2f} GB/s to the GPU.",
        *(f"{name} is left out: {why}." for name, why in results.left_out.items()),
    ]
    wrong = sum(row.wrong for row in rows)
    foot.append(f"{wrong} tensors wrong." if wrong else "All bytes right.")
    return foot


def print_parks(results: ParkResults) -> None:
    """Print the table."""
    rows = results.rows
    fastest = max(row.park_gb_per_s for row in rows)
    styles = [table.BEST if row.park_gb_per_s == fastest else "" for row in rows]
    table.print_table(_head(results), _columns(rows), [0] * len(rows), styles, _foot(results))


def page(results: ParkResults) -> str:
    """Return a page with a chart of all methods, and with the table."""
    rows = html_table(_columns(results.rows), [0] * len(results.rows))
    return measured_page(results, _head(results), [_chart(results)], rows, _foot(results))


def _chart(results: ParkResults) -> Chart:
    names = [row.method for row in results.rows][::-1]

    def bars(name: str, colour: str, rates: list[float]) -> dict[str, Any]:
        return {
            "type": "bar",
            "orientation": "h",
            "name": name,
            "x": rates[::-1],
            "y": names,
            "marker": {"color": colour},
            "hovertemplate": f"%{{x:.2f}} GB/s<extra>{name}</extra>",
        }

    rows = results.rows
    traces = [
        bars("first park", ORANGE, [row.first_park_gb_per_s for row in rows]),
        bars("park", SKY, [row.park_gb_per_s for row in rows]),
        bars("resume", BLUE, [row.resume_gb_per_s for row in rows]),
    ]
    layout = {
        "barmode": "group",
        "height": 90 + 90 * len(names),
        "xaxis": {"title": {"text": "GB/s"}},
        "yaxis": {"ticksuffix": " "},
    }
    caption = (
        "The bytes of the tensors, divided by the time of the call. One copy of page-locked memory "
        f"moves {results.link_to_host_gb_per_s:.1f} GB/s to the host."
    )
    figure = {"data": traces, "layout": layout}
    return ("park", "Parked memory, by method", caption, figure)
