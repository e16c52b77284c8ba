"""Writes a study as a self-contained HTML page with charts, timelines, a table and a glossary.

page.html, page.css and page.js are the frame of the page. The page includes plotly's script, which
draws the charts. The colours are those of Okabe and Ito, "Color Universal Design" (2008). People
with any kind of colour vision can distinguish them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from importlib import resources
from string import Template
from typing import TYPE_CHECKING, Any

from interlace.base import table
from interlace.model import inside
from interlace.model.mechanism_table import ROWS
from interlace.model.mechanisms import BASELINE, BOUND, Config, label
from interlace.show.study import columns, duration, summary, verification
from interlace.show.timeline import track_order

if TYPE_CHECKING:
    from interlace.model.inside import Inside
    from interlace.model.results import BenchmarkFile, Study, StudyRow, Timelines
    from interlace.model.run import Event

PALETTE = {
    "BLACK": "#000000", "ORANGE": "#E69F00", "SKY": "#56B4E9", "GREEN": "#009E73",
    "YELLOW": "#F0E442", "BLUE": "#0072B2", "VERMILION": "#D55E00", "PURPLE": "#CC79A7",
    "GREY": "#8a8a8a",
}  # fmt: skip
BLACK, ORANGE, SKY, GREEN, YELLOW, BLUE, VERMILION, PURPLE, GREY = PALETTE.values()
MECHANISM_COLOURS = {row.name: PALETTE[row.colour] for row in ROWS}
WIRE_KINDS = (("useful", GREEN, ""), ("protocol", SKY, "."), ("wasted", VERMILION, "/"))
TRACK_COLOURS = {"kernel": BLUE, "agent": GREEN, "copy": ORANGE, "exchange": PURPLE}
HEAT = [
    [0, "#f4f5f7"],
    [0.02, "#d6eaf8"],
    [0.5, BLUE],
    [1, "#001d33"],
]  # the first colour, for 0, is nearly white
INSIDE_HEIGHT = 300
MOST_NUMBERED = 8  # a heat map of more GPUs shows no numbers in its cells
MAX_BARS = 1500  # a timeline shows at most this many events, and says how many events it leaves out

GLOSSARY = (
    ("speedup", "The time on one GPU of the same node, divided by the row's time."),
    (
        "opportunity",
        f"The speedup if transfers took no time ({BOUND}). The difference from a row's speedup is "
        f"the cost of communication. On real GPUs, the opportunity is derived: {BASELINE} runs "
        "again without its copies.",
    ),
    (
        "captured",
        "The row's speedup as a share of the opportunity. It is not shown if the row is slower "
        "than one GPU.",
    ),
    (
        "overlap",
        "The fraction of the bulk copy's transfer time that is hidden: 1 - (t - t_infinite) / "
        "(t_bulk_copy - t_infinite). A negative value means that the row is slower than bulk "
        "copies.",
    ),
    (
        "wire bytes",
        "All bytes that left the devices. Useful bytes are payload that a receiver reads. Protocol "
        "bytes are headers, framing and padding. Wasted bytes are payload that is overwritten "
        "before the exchange or never read.",
    ),
    *((row.name, row.sentence) for row in ROWS),
    (
        "inside",
        "The traffic between the GPUs of a simulated run. A message is a unit that the simulator "
        "routes as a whole: the stores of a warp to a line, a read request, a reply, a flag, or a "
        "segment of a copy. The latency of a message is the time from its request for the first "
        "link to its delivery.",
    ),
    (
        "simulated, measured",
        "Whether the times come from a model of a described machine or from real GPUs.",
    ),
)


# A chart has an id, a title, a caption and a figure.
Chart = tuple[str, str, str, dict[str, Any]]


def page(study: Study, timelines: Timelines) -> str:
    """Return the page as text. The page makes no network request."""
    charts = _charts(study)
    insides = _inside_charts(study)
    spans = _timeline_charts(timelines)
    first = study.rows[0]
    how = "simulated" if first.node == "sim" else "measured"
    return frame(
        [*charts, *insides, *spans],
        title=escape(f"{first.workload} on {first.machine}: {how}"),
        workload=escape(first.workload),
        machine=escape(first.machine),
        how=how,
        summary=escape(summary(study)),
        facts="\n".join(f"<dt>{escape(k)}</dt><dd>{v}</dd>" for k, v in _facts(study)),
        charts="\n".join(card(*chart[:3]) for chart in charts),
        insides=_inside_section(study, insides),
        timelines=_timeline_section(timelines, spans),
        rows_text=(
            "Times cover the whole run with all iterations. kB, MB and GB are 1e3, 1e6 and 1e9 "
            "bytes. * marks derived values."
        ),
        rows=_html_table(study.rows),
        candidates=_candidates(study),
        notes="\n".join(f"<li>{escape(note)}</li>" for note in study.notes),
        glossary="\n".join(f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in GLOSSARY),
    )


def frame(drawn: Sequence[Chart], /, **parts: str) -> str:
    """Return the whole page: the frame, the parts and the script that draws the charts.

    The parts are HTML.
    """
    from plotly.offline import get_plotlyjs

    figures = [{"id": key, **figure} for key, _, _, figure in drawn]
    return Template(_file("page.html")).substitute(
        parts,
        style=_file("page.css"),
        script=_file("page.js"),
        figures=json.dumps(figures, separators=(",", ":")).replace("</", "<\\/"),
        plotly=get_plotlyjs(),
    )


def measured_page(
    results: BenchmarkFile, head: str, charts: Sequence[Chart], rows: str, foot: Sequence[str]
) -> str:
    """Return the page of a benchmark.

    The page has charts, the table `rows` (as HTML), and notes below the table.
    """
    machine = str(results.machine["name"])
    facts = {
        "Machine": machine,
        "Driver": results.driver,
        "Version": f"Interlace {results.version}",
        "Date": results.date,
        "Command": results.command,
    }
    return frame(
        charts,
        title=escape(f"{results.benchmark} on {machine}: measured"),
        workload=escape(results.benchmark),
        machine=escape(machine),
        how="measured",
        summary=escape(head),
        facts="\n".join(f"<dt>{k}</dt><dd>{escape(v)}</dd>" for k, v in facts.items() if v),
        charts="\n".join(card(*chart[:3]) for chart in charts),
        insides="",
        timelines="",
        rows_text="MB and GB are 1e6 and 1e9 bytes.",
        rows=rows,
        candidates="",
        notes="\n".join(f"<li>{escape(note)}</li>" for note in foot),
        glossary="",
    )


def _file(name: str) -> str:
    """Return the text of a file in the folder of this module."""
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


# --- parts of the page ----------------------------------------------------------------------------


def _facts(study: Study) -> list[tuple[str, str]]:
    """Return the names and the values for the top of the page. The values are HTML."""
    first, data, machine = study.rows[0], study.data, study.machine
    found = []
    found.append(("Data", escape(f"{first.data}: {data['size']}")))
    found.append(("Machine", escape(str(machine.get("title") or machine["name"]))))
    counts = sorted({row.iterations for row in study.rows})
    found.append(("Iterations", " to ".join(map(str, dict.fromkeys((counts[0], counts[-1]))))))
    if "damping" in data:
        found.append(("Damping", f"{data['damping']:g}"))
    which, worst = verification(study)
    found.append(("Verified", f"{which}, largest relative error {worst}"))
    if study.driver is not None:
        cuda = f", CUDA {machine['cuda']}" if "cuda" in machine else ""
        found.append(("Driver", escape(f"{study.driver}{cuda}")))
    number, _, dirty = (study.commit or "").partition("-")
    commit = f" ({number[:12]}{'-' if dirty else ''}{dirty})" if number else ""
    found.append(("Version", escape(f"Interlace {study.version}{commit}")))
    found.append(("Date", escape(study.date)))
    found.append(("Command", f"<code>{escape(study.command)}</code>"))
    return found


def card(key: str, title: str, caption: str) -> str:
    return (
        f'<section class="card"><h2>{escape(title)}</h2><p>{escape(caption)}</p>'
        f'<div class="chart" id="{key}"></div></section>'
    )


def _timeline_section(
    timelines: Timelines, spans: list[tuple[str, str, str, dict[str, Any]]]
) -> str:
    if not spans:
        return ""
    gpus = f"{timelines.gpus} GPU{'s' if timelines.gpus > 1 else ''}"
    charts = "".join(
        f"<h3>{escape(title)}</h3>{f'<p>{escape(caption)}</p>' if caption else ''}"
        f'<div class="chart" id="{key}"></div>'
        for key, title, caption, _ in spans
    )
    return (
        f'<section class="card wide"><h2>Timeline on {gpus}</h2>'
        "<p>The first epochs by GPU and track, all on the same scale. Overlapping transfers of a "
        f"GPU are drawn over each other.</p>{charts}</section>"
    )


def _inside_section(study: Study, charts: list[Chart]) -> str:
    if not charts:
        return ""
    gpus = _gpus(study.rows[-1].gpus)
    shown = "".join(
        f"<div><h3>{escape(title)}</h3><p>{escape(caption)}</p>"
        f'<div class="chart" id="{key}"></div></div>'
        for key, title, caption, _ in charts
    )
    return (
        f'<section class="card wide"><h2>Inside on {gpus}</h2>'
        "<p>The bytes that each GPU sends to every other GPU, and "
        "how busy each direction of the links is "
        f'over the whole run.</p><div class="pairs">{shown}</div></section>'
    )


def _html_table(rows: list[StudyRow]) -> str:
    groups = [row.gpus for row in rows]
    return html_table(columns(rows, full=True), groups)


def html_table(cut: Sequence[table.Column], groups: Sequence[Any]) -> str:
    """Return a table as HTML, with a line between rows of different groups."""
    sides = ["number" if column.number else "text" for column in cut]
    head = "".join(
        f'<th class="{side}">{escape(column.name)}'
        + (f"<br><small>{escape(column.unit)}</small>" if column.unit else "")
        + "</th>"
        for column, side in zip(cut, sides, strict=True)
    )
    lines = []
    for index, group in enumerate(groups):
        new = " class='group'" if index and group != groups[index - 1] else ""
        cells = "".join(
            f'<td class="{side}">{escape(column.cells[index])}</td>'
            for column, side in zip(cut, sides, strict=True)
        )
        lines.append(f"<tr{new}>{cells}</tr>")
    return (
        f'<div class="scroll" tabindex="0"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table></div>"
    )


def _candidates(study: Study) -> str:
    if not study.candidates:
        return ""
    return (
        "<details><summary>Configurations that were tried and were slower "
        f"({len(study.candidates)})</summary>{_html_table(study.candidates)}</details>"
    )


# --- charts ---------------------------------------------------------------------------------------


def _colours(rows: list[StudyRow]) -> dict[str, str]:
    return {row.mechanism: MECHANISM_COLOURS[row.mechanism] for row in rows}


def _gpus(count: int) -> str:
    return f"{count} GPU{'s' if count > 1 else ''}"


def _bars(
    rows: list[StudyRow], value: str, unit: str, hover: str, factor: float = 1.0
) -> list[dict[str, Any]]:
    """Return bars by number of GPUs, with one trace per mechanism. The bound has no bars."""
    colours = _colours(rows)
    traces = []
    for mechanism in dict.fromkeys(row.mechanism for row in rows):
        own = [r for r in rows if r.mechanism == mechanism and getattr(r, value) is not None]
        if mechanism == BOUND or not own:
            continue
        heights = [factor * getattr(row, value) for row in own]
        traces.append(
            {
                "type": "bar",
                "name": mechanism,
                "x": [_gpus(row.gpus) for row in own],
                "y": heights,
                "text": [f"{height:.{0 if unit == '%' else 2}f}" for height in heights],
                "textposition": "outside",
                "textangle": 0,
                "cliponaxis": False,
                "customdata": [
                    Config.of(row.config).words() or duration(row.time_s) for row in own
                ],
                "hovertemplate": f"{hover}<br>%{{customdata}}<extra>%{{fullData.name}}</extra>",
                "marker": {"color": colours[mechanism]},
            }
        )
    return traces


def _opportunity(rows: list[StudyRow], x: list[Any]) -> dict[str, Any]:
    """Return the line of the opportunity. `x` has the number of GPUs at each point of the line."""
    derived = any(row.derived for row in rows)
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": "opportunity" + (" (derived)" if derived else ""),
        "x": x,
        "y": [row.opportunity for row in rows],
        "line": {"color": BLACK, "dash": "dash", "width": 1.5},
        "marker": {"symbol": "diamond", "size": 9, "color": BLACK},
        "hovertemplate": "%{y:.2f} x<extra>opportunity</extra>",
    }


def _charts(study: Study) -> list[tuple[str, str, str, dict[str, Any]]]:
    """Return the id, title, caption and figure of each chart that has data."""
    many = [row for row in study.rows if row.gpus > 1]
    found = []
    if many:
        found.append(_speedup_chart(many))
        found.append(_scaling_chart(study.rows))
        if any(row.wire.useful is not None for row in many):
            found.append(_wire_chart(many))
        if any(row.overlap is not None for row in many):
            found.append(_overlap_chart(many))
    return found


def _first_of_each(rows: list[StudyRow]) -> list[StudyRow]:
    """Return one row for each number of GPUs.

    If there are a derived row and a measured row, return the derived row.
    """
    found: dict[int, StudyRow] = {}
    for row in rows:
        if row.gpus not in found or row.derived:
            found[row.gpus] = row
    return list(found.values())


def _speedup_chart(rows: list[StudyRow]) -> tuple[str, str, str, dict[str, Any]]:
    traces = _bars(rows, "speedup", "x", "%{y:.2f} x")
    known = [row for row in _first_of_each(rows) if row.opportunity is not None]
    if known:
        traces.append(_opportunity(known, [_gpus(row.gpus) for row in known]))
    layout = {
        "barmode": "group",
        "yaxis": {"title": {"text": "speedup over one GPU (x)"}, "rangemode": "tozero"},
        "shapes": [_level(1)],
    }
    caption = (
        "The speedup over one GPU; higher is better. The thin line is the speedup of one GPU, "
        "which is 1."
    )
    return "speedup", "Speedup by mechanism", caption, {"data": traces, "layout": layout}


def _level(y: float) -> dict[str, Any]:
    return {
        "type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": y, "y1": y,
        "line": {"color": "#666", "width": 1}, "layer": "below",
    }  # fmt: skip


def _scaling_chart(rows: list[StudyRow]) -> tuple[str, str, str, dict[str, Any]]:
    colours = _colours(rows)
    counts = sorted({row.gpus for row in rows})
    single = rows[0]
    traces = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": "linear",
            "x": counts,
            "y": counts,
            "line": {"color": "#666", "dash": "dot", "width": 1.5},
            "hoverinfo": "skip",
        }
    ]
    for mechanism in dict.fromkeys(row.mechanism for row in rows if row.gpus > 1):
        if mechanism == BOUND:
            continue
        own = [single, *(r for r in rows if r.mechanism == mechanism and r.gpus > 1)]
        traces.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": mechanism,
                "x": [row.gpus for row in own],
                "y": [row.speedup for row in own],
                "customdata": [duration(row.time_s) for row in own],
                "hovertemplate": "%{x} GPUs: %{y:.2f} x<br>%{customdata}"
                "<extra>%{fullData.name}</extra>",
                "line": {"color": colours[mechanism], "width": 2.5},
                "marker": {"size": 8},
            }
        )
    known = [row for row in _first_of_each(rows) if row.opportunity is not None]
    if len(known) > 1:
        traces.append(_opportunity(known, [row.gpus for row in known]))
    highest = max(max(row.speedup, row.opportunity or 0) for row in rows)
    layout = {
        "xaxis": {"title": {"text": "GPUs"}, "tickvals": counts},
        # The line of linear speedup may leave the chart. A chart that showed all of this line would
        # leave too little room between the other lines.
        "yaxis": {"title": {"text": "speedup (x)"}, "range": [0, 1.4 * highest]},
    }
    caption = "The speedup for each number of GPUs, starting with one GPU."
    return "scaling", "Scaling", caption, {"data": traces, "layout": layout}


def _wire_height(rows: list[StudyRow]) -> int:
    return max(380, 130 + 32 * sum(row.mechanism != BOUND for row in rows))


def _wire_chart(rows: list[StudyRow]) -> tuple[str, str, str, dict[str, Any]]:
    rows = [row for row in rows if row.mechanism != BOUND and row.wire.useful is not None]
    known = [v for r in rows for v in (r.wire.useful, r.wire.protocol, r.wire.wasted) if v]
    size, unit = table.scale(known, table.BYTES)
    labels = [f"{row.mechanism}, {_gpus(row.gpus)} " for row in rows]
    traces = [
        {
            "type": "bar",
            "orientation": "h",
            "name": kind,
            "y": labels,
            "x": [(getattr(row.wire, kind) or 0) / size for row in rows],
            "hovertemplate": f"%{{x:.4g}} {unit}<extra>{kind}</extra>",
            "marker": {
                "color": colour,
                "pattern": {"shape": shape, "fgcolor": "#fff", "fillmode": "overlay", "size": 7},
            },
        }
        for kind, colour, shape in WIRE_KINDS
    ]
    layout = {
        "barmode": "stack",
        "height": _wire_height(rows),
        "xaxis": {"title": {"text": f"bytes on the wire ({unit})"}, "rangemode": "tozero"},
        "yaxis": {"autorange": "reversed", "automargin": True, "ticks": "", "showgrid": False},
    }
    caption = "The bytes of all devices in the whole run, by kind."
    if any(row.wire.protocol is None for row in rows):
        caption += (
            " A bar without protocol bytes means that they are unknown, because there are no "
            "counters."
        )
    return "wire", "Bytes on the wire", caption, {"data": traces, "layout": layout}


def _overlap_chart(rows: list[StudyRow]) -> tuple[str, str, str, dict[str, Any]]:
    traces = [
        trace
        for trace in _bars(rows, "overlap", "%", "%{y:.1f} % of the copy time hidden", 100)
        if trace["name"] != BASELINE
    ]
    layout = {
        "barmode": "group",
        "height": _wire_height(rows),  # the charts stand side by side
        "yaxis": {"title": {"text": "transfer time hidden (%)"}, "rangemode": "tozero"},
        "shapes": [_level(0)],
    }
    caption = "The fraction of the bulk copy's transfer time that is hidden. 100 % is the bound."
    if any(row.derived for row in rows):
        caption += " The bound is derived."
    return "overlap", "Overlap", caption, {"data": traces, "layout": layout}


def _inside_charts(study: Study) -> list[Chart]:
    """Return two charts for each row with the most GPUs: bytes by pair, and the use of links."""
    most = study.rows[-1].gpus
    found: list[tuple[StudyRow, Inside]] = []
    for row in study.rows:
        seen = row.inside
        if row.gpus == most and seen is not None and seen.links:
            found.append((row, seen))
    highest = max((part for _, it in found for link in it.links for part in link.by_bin), default=0)
    charts: list[Chart] = []
    for index, (row, seen) in enumerate(found):
        name = label(row.mechanism, Config.of(row.config))
        charts.append((f"pairs-{index}", name, *_pair_chart(seen)))
        charts.append((f"links-{index}", f"{name}: links", *_link_chart(seen, 100 * highest)))
    return charts


def _pair_chart(seen: Inside) -> tuple[str, dict[str, Any]]:
    """Return a heat map of the bytes that each GPU sends to every other GPU."""
    bytes_of = inside.matrix(seen, lambda p: p.payload_bytes + p.protocol_bytes)
    largest = [value for line in bytes_of for value in line if value is not None]
    size, unit = table.scale(largest, table.BYTES)
    pairs = {(pair.source, pair.to): pair for pair in seen.pairs}
    names = [f"gpu{gpu}" for gpu in range(len(seen.gpus))]

    def words(source: int, to: int) -> str:
        pair = pairs.get((source, to))
        if pair is None:
            return "nothing"
        return (
            f"{pair.payload_bytes:,} B payload, {pair.protocol_bytes:,} B protocol<br>"
            f"{pair.packets:,} packets in {pair.messages:,} messages<br>latency "
            f"{1e6 * pair.mean_latency_s:.3g} us, at most {1e6 * pair.max_latency_s:.3g} us"
        )

    trace = {
        "type": "heatmap",
        "x": names,
        "y": names,
        "z": [[None if v is None else v / size for v in line] for line in bytes_of],
        "customdata": [[words(a, b) for b in range(len(names))] for a in range(len(names))],
        "texttemplate": "%{z:.3g}" if len(names) <= MOST_NUMBERED else "",
        "hovertemplate": "%{y} to %{x}: %{z:.4g} " + unit + "<br>%{customdata}<extra></extra>",
        "hoverongaps": False,
        "colorscale": HEAT,
        "zmin": 0,
        "zmax": max(largest, default=1.0) / size,
        "xgap": 2,
        "ygap": 2,
        "colorbar": {"title": {"text": unit}, "thickness": 12},
    }
    layout = {
        "height": INSIDE_HEIGHT,
        "xaxis": {"title": {"text": "to"}, "showgrid": False, "ticks": ""},
        "yaxis": {"title": {"text": "from"}, "autorange": "reversed", "showgrid": False},
    }
    return f"Bytes on the wire ({unit}), payload and protocol.", {"data": [trace], "layout": layout}


def _link_chart(seen: Inside, highest: float) -> tuple[str, dict[str, Any]]:
    """Return a heat map of the use of links over time."""
    size, unit = table.scale([seen.time_s], table.SECONDS)
    bins = len(seen.links[0].by_bin)
    trace = {
        "type": "heatmap",
        "x": [(k + 0.5) * seen.bin_s / size for k in range(bins)],
        "y": [link.name for link in seen.links],
        "z": [[round(100 * part, 2) for part in link.by_bin] for link in seen.links],
        "customdata": [[100 * link.busy] * bins for link in seen.links],
        "hovertemplate": f"%{{y}} at %{{x:.4g}} {unit}: %{{z:.3g}} %<br>"
        "%{customdata:.3g} % of the whole time<extra></extra>",
        "colorscale": HEAT,
        "zmin": 0,
        "zmax": highest,
        "colorbar": {"title": {"text": "%"}, "thickness": 12},
    }
    layout = {
        "height": max(INSIDE_HEIGHT, 110 + 16 * len(seen.links)),
        "xaxis": {"title": {"text": f"time ({unit})"}, "showgrid": False},
        "yaxis": {"autorange": "reversed", "showgrid": False, "dtick": 1},
    }
    caption = "The fraction of the time in which each direction of a link is busy."
    return caption, {"data": [trace], "layout": layout}


def _timeline_charts(timelines: Timelines) -> list[tuple[str, str, str, dict[str, Any]]]:
    ends = [event.end_s for _, row in timelines.rows for event in row]
    if not ends:
        return []
    size, unit = table.scale(ends, table.SECONDS)
    found = []
    for index, (mechanism, row) in enumerate(timelines.rows):
        kept = sorted(row, key=lambda event: event.start_s)[:MAX_BARS]
        caption = ""
        if len(row) > len(kept):
            caption = f"The first {MAX_BARS} of {len(row)} events."
        figure = _gantt(kept, max(ends) / size, size, unit)
        found.append((f"timeline-{index}", mechanism, caption, figure))
    return found


def _gantt(events: list[Event], end: float, size: float, unit: str) -> dict[str, Any]:
    lines = sorted({(e.device, track_order(e.track), e.track) for e in events})
    tracks = sorted({event.track for event in events}, key=track_order)
    traces = []
    for track in tracks:
        own = [event for event in events if event.track == track]
        traces.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": track,
                "y": [f"GPU {event.device} {track} " for event in own],
                "base": [event.start_s / size for event in own],
                "x": [(event.end_s - event.start_s) / size for event in own],
                "text": [event.name for event in own],
                "textposition": "none",
                "customdata": [event.end_s / size for event in own],
                "hovertemplate": f"%{{text}}<br>%{{base:.4g}} to %{{customdata:.4g}} {unit}"
                "<extra>%{y}</extra>",
                "marker": {
                    "color": TRACK_COLOURS.get(track, VERMILION),
                    "opacity": 0.75,
                    "line": {"color": "#fff", "width": 0.5},
                },
            }
        )
    layout = {
        "barmode": "overlay",
        "bargap": 0.25,
        "height": 110 + 20 * len(lines),
        "xaxis": {"title": {"text": f"time ({unit})"}, "range": [0, end * 1.01]},
        "yaxis": {
            "categoryorder": "array",
            "categoryarray": [f"GPU {device} {track} " for device, _, track in reversed(lines)],
            "automargin": True,
            "ticks": "",
            "showgrid": False,
            "tickmode": "linear",
            "dtick": 1,
        },
    }
    return {"data": traces, "layout": layout}
