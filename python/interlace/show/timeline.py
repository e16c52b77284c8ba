"""Writes timelines in the Trace Event Format, which ui.perfetto.dev and chrome://tracing open.

The format is described in "Trace Event Format", Google, 2016. Times are in microseconds.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from interlace.model.mechanisms import Config, label

if TYPE_CHECKING:
    from interlace.model.inside import Inside
    from interlace.model.results import Study, Timelines
    from interlace.model.run import Event

TRACKS = ("kernel", "agent", "copy", "exchange")  # all other tracks follow by name


def track_order(track: str) -> tuple[int, str]:
    """The key that sorts tracks in the order of display."""
    return (TRACKS.index(track) if track in TRACKS else len(TRACKS), track)


def lanes(events: Iterable[Event]) -> dict[str, list[Event]]:
    """A device's events by lane. A lane is a track, or `copy 2` for events that overlap others.

    The events of a lane ascend and do not overlap. Lanes are in the order of display.
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
    """The timelines as a trace: a process for each mechanism and device, a thread for each lane.

    Each mechanism also has a process with a counter for each link direction, which shows the
    direction's use over the whole run. All mechanisms start at time 0 in the same trace.
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
                    events.append(
                        {
                            "ph": "X",
                            "name": event.name,
                            "cat": event.track,
                            "pid": process,
                            "tid": thread,
                            "ts": round(event.start_s * 1e6, 6),
                            "dur": round((event.end_s - event.start_s) * 1e6, 6),
                        }
                    )
    for shown in study.rows:
        seen = shown.inside
        if seen is not None and shown.gpus == timelines.gpus and seen.links:
            process += 1
            name = f"{label(shown.mechanism, Config.of(shown.config))}: links"
            events += _link_counters(process, name, seen)
    first = study.rows[0]
    document = {
        "displayTimeUnit": "ns",
        "otherData": {
            "command": study.command,
            "version": study.version,
            "machine": first.machine,
            "node": first.node,
            "data": first.data,
            "gpus": timelines.gpus,
        },
        "traceEvents": events,
    }
    return json.dumps(document, separators=(",", ":"), allow_nan=False) + "\n"


def _link_counters(process: int, name: str, seen: Inside) -> list[dict[str, Any]]:
    """A counter for each link direction: the percentage of each time bin in which it was busy."""
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
            # # A last value sets the counter to 0.
            for index, part in enumerate([*link.by_bin, 0.0])
        ]
    return events


def _named(kind: str, process: int, thread: int, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": process, "tid": thread, "ts": 0, "args": arguments}
