"""Writes timelines in the Trace Event Format, which ui.perfetto.dev and chrome://tracing open.

"Trace Event Format", Google, 2016, describes the format. Times are in microseconds.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from interlace.model.mechanisms import Config, label
from interlace.model.results import provenance

if TYPE_CHECKING:
    from interlace.model.inside import Inside
    from interlace.model.results import Study, Timelines
    from interlace.model.run import Event
    from interlace.runtime.preload import Counted

TRACKS = (
    "kernel",
    "agent",
    "copy",
    "exchange",
)  # all other tracks come after these, sorted by name


def track_order(track: str) -> tuple[int, str]:
    """Return the key that sorts tracks in the order of display."""
    return (TRACKS.index(track) if track in TRACKS else len(TRACKS), track)


def lanes(events: Iterable[Event]) -> dict[str, list[Event]]:
    """Divide a device's events among lanes.

    A lane is a track. If events of a track overlap, the track has additional lanes, such as `copy
    2`. The events of a lane are sorted by time and do not overlap. The lanes are in the order of
    display.
    """
    found: dict[tuple[tuple[int, str], int], list[Event]] = {}
    for event in sorted(events, key=lambda e: (e.start_s, e.end_s, e.track, e.name)):
        lane = 1
        order = track_order(event.track)
        while (order, lane) in found and found[order, lane][-1].end_s > event.start_s:
            lane += 1
        found.setdefault((order, lane), []).append(event)
    return {
        own[0].track + (f" {lane}" if lane > 1 else ""): own
        for (_, lane), own in sorted(found.items(), key=lambda item: item[0])
    }


def chrome_trace(study: Study, timelines: Timelines) -> str:
    """Return the timelines as a trace.

    Each device of each mechanism is a process, and each lane is a thread. Each mechanism has one
    additional process with a counter for each direction of each link. The counter shows how busy
    the direction is over the whole run. All mechanisms start at time 0 of the same trace.
    """
    events: list[dict[str, Any]] = []
    process = 0
    for mechanism, row in timelines.rows:
        for device in sorted({event.device for event in row}):
            process += 1
            name = f"{mechanism}: GPU {device}"
            events.append(_named("process_name", process, 0, {"name": name}))
            events.append(_named("process_sort_index", process, 0, {"sort_index": process}))
            own = lanes(event for event in row if event.device == device)
            for thread, (lane, spans) in enumerate(own.items(), start=1):
                events.append(_named("thread_name", process, thread, {"name": lane}))
                events.append(_named("thread_sort_index", process, thread, {"sort_index": thread}))
                for event in spans:
                    took_s = event.end_s - event.start_s
                    events.append(
                        _span(event.name, event.track, process, thread, event.start_s, took_s)
                    )
    for shown in study.rows:
        seen = shown.inside
        if seen is not None and shown.gpus == timelines.gpus and seen.links:
            process += 1
            name = f"{label(shown.mechanism, Config.of(shown.config))}: links"
            events += _link_counters(process, name, seen)
    first = study.rows[0]
    return _document(
        {
            "command": study.command,
            "version": study.version,
            "machine": first.machine,
            "node": first.node,
            "data": first.data,
            "gpus": timelines.gpus,
        },
        events,
    )


def program_trace(counted: Counted, words: Sequence[str]) -> str:
    """Return the copying calls of a program as a trace.

    The trace has the program's processes and threads. A span is the time that the host spends in a
    call of the driver. The copy itself can take longer.
    """
    events: list[dict[str, Any]] = []
    first_s = min((call.begin_s for call in counted.calls), default=0.0)
    for slot in sorted({call.slot for call in counted.calls}):
        process = counted.processes[slot]
        events.append(_named("process_name", process.process, 0, {"name": process.name}))
        own = [call for call in counted.calls if call.slot == slot]
        for thread in sorted({call.thread for call in own}):
            name = {"name": f"thread {thread}"}
            events.append(_named("thread_name", process.process, thread, name))
        for call in sorted(own, key=lambda one: one.begin_s):
            span = _span(
                call.function,
                call.direction,
                process.process,
                call.thread,
                call.begin_s - first_s,
                call.took_s,
            )
            span["args"] = {
                "bytes": call.bytes,
                "copies": call.pieces,
                "direction": call.direction,
                "outcome": call.outcome,
            }
            events.append(span)
    about = {"program": list(words), "calls_without_room": counted.lost_calls, **provenance()}
    return _document(about, events)


def _document(about: dict[str, Any], events: list[dict[str, Any]]) -> str:
    document = {"displayTimeUnit": "ns", "otherData": about, "traceEvents": events}
    return json.dumps(document, separators=(",", ":"), allow_nan=False) + "\n"


def _span(
    name: str, category: str, process: int, thread: int, start_s: float, took_s: float
) -> dict[str, Any]:
    return {
        "ph": "X",
        "name": name,
        "cat": category,
        "pid": process,
        "tid": thread,
        "ts": round(start_s * 1e6, 6),
        "dur": round(took_s * 1e6, 6),
    }


def _link_counters(process: int, name: str, seen: Inside) -> list[dict[str, Any]]:
    """Return a counter for each direction of each link.

    The counter shows how busy the direction is in each time bin, in percent.
    """
    events = [
        _named("process_name", process, 0, {"name": name}),
        _named("process_sort_index", process, 0, {"sort_index": process}),
    ]
    for link in seen.links:
        events += [
            {
                "ph": "C",
                "name": link.name,
                "pid": process,
                "tid": 0,
                "ts": round(seen.bin_s * index * 1e6, 6),
                "args": {"busy %": round(100 * part, 2)},
            }
            # The last value sets the counter to 0.
            for index, part in enumerate([*link.by_bin, 0.0])
        ]
    return events


def _named(kind: str, process: int, thread: int, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": process, "tid": thread, "ts": 0, "args": arguments}
