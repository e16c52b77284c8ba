#!/usr/bin/env python3
"""Draw the pictures of mechanisms in docs/explanation/pictures, for light and for dark pages.

    python docs/make_mechanism_pictures.py

A picture shows how a mechanism moves data in one epoch. It has one row for the kernel, one row for
the agent, the queue or the copies that move the kernel's data, and one row for each link. Time goes
to the right. The lengths show the principle and were not measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from make_picture import THEMES, framed

FOLDER = Path(__file__).resolve().parent / "explanation/pictures"
WIDTH, LEFT, TOP = 520, 104, 6
ROW, BAR = 32, 25  # the height of a row, and the height of a bar
END = 26.0  # the length of the longest epoch, in units of time
UNIT = (WIDTH - LEFT - 4) / END  # the number of pixels for a unit of time

KERNEL = 16.0  # how long a kernel computes
COPY = 9.0  # the time of a plain copy of all data that the kernel writes
CHUNKS = 6


class Bar(NamedTuple):
    """A bar in a row of the picture: one activity with its start and end."""

    start: float
    end: float
    # "compute", "link", "gain" (an agent or a queue), "faint" (a header) or "track" (a wait)
    colour: str = "link"
    label: str = ""


class Picture(NamedTuple):
    """The picture of one mechanism."""

    text: str  # the text for people who do not see the picture
    rows: dict[str, list[Bar]]
    # for each event: its time, its row, and the row of the work that the event starts
    steps: tuple[tuple[float, int, int], ...] = ()


def kernel(start: float = 0, end: float = KERNEL, label: str = "kernel") -> Bar:
    return Bar(start, end, "compute", label)


def ready() -> Iterator[float]:
    """Yield the time at which each chunk of the kernel's output is complete."""
    for index in range(CHUNKS):
        yield KERNEL * (index + 1) / CHUNKS


def chunks(delay: float, length: float = COPY / CHUNKS, colour: str = "link") -> list[Bar]:
    """Return a bar for each chunk. The bar begins `delay` after the chunk is complete."""
    return [Bar(time + delay, time + delay + length, colour) for time in ready()]


def packets(times: list[float], head: float, payload: float) -> list[Bar]:
    """Return the bars of a packet at each time: its header, followed by its payload."""
    made = []
    for time in times:
        made += [Bar(time, time + head, "faint"), Bar(time + head, time + head + payload)]
    return made


def steady(count: int, first: float, last: float) -> list[float]:
    return [first + (last - first) * k / (count - 1) for k in range(count)]


LATER = KERNEL + 0.6  # the start of an activity that waits for the kernel's end
STORES = [Bar(t, t + 0.22, "compute") for t in steady(28, 0.4, KERNEL - 0.4)]
PART = COPY / 4

WINDOW = "lines of a window of addresses"  # the text in the bars of a queue


def bursts(flush_at: Callable[[float], list[Bar]]) -> list[Bar]:
    """Return the bars of all four flushes of a queue.

    `flush_at` returns the bars of the flush that starts at the given time.
    """
    return [bar for time in steady(4, 4, KERNEL + 0.6) for bar in flush_at(time)]


def queued(text: str, label: str, link: list[Bar]) -> Picture:
    """Return the picture of a mechanism whose stores wait in a queue before they go to the link."""
    queue = [Bar(0.6, KERNEL + 0.4, "gain", label)]
    return Picture(text, {"stores": STORES, "queue": queue, "link": link})


PICTURES = {
    "bulk-copy": Picture(
        "The kernel runs to its end. Then the link copies its output.",
        {"GPU": [kernel()], "link": [Bar(LATER, LATER + COPY, "link", "copy")]},
        ((KERNEL, 0, 1),),
    ),
    "multi-path": Picture(
        "After the kernel, one part of the output takes the direct link. The other part goes "
        "through another GPU, in chunks.",
        {
            "GPU": [kernel()],
            "direct link": [Bar(LATER, LATER + COPY * 0.55, "link", "copy")],
            "to GPU 2": [Bar(LATER + k * 1.2, LATER + k * 1.2 + 1.1) for k in range(3)],
            "from GPU 2": [
                Bar(LATER + 1.2 * (k + 1), LATER + 1.2 * (k + 1) + 1.1) for k in range(3)
            ],
        },
        ((KERNEL, 0, 2),),
    ),
    "split": Picture(
        "The kernel is launched four times, each time over a quarter of its blocks. The output of "
        "a launch is copied while the next launch runs.",
        {
            "GPU": [kernel(4.3 * k, 4.3 * k + 4, f"{k + 1}") for k in range(4)],
            "link": [
                Bar(4.3 * (k + 1), 4.3 * (k + 1) + PART, "link", f"{k + 1}") for k in range(4)
            ],
        },
        tuple((4.3 * k + 4, 0, 1) for k in range(4)),
    ),
    "inline": Picture(
        "Each store of the kernel also goes to the other GPUs at once, as a small packet with "
        "its own header. The link finishes soon after the kernel.",
        {"GPU": [kernel()], "link": packets(steady(28, 0.7, KERNEL + 0.1), 0.16, 0.22)},
    ),
    "polling": Picture(
        "An agent is a small kernel that runs at the same time as the kernel. It checks which "
        "chunks are complete, and stores each complete chunk to the other GPUs.",
        {
            "GPU": [kernel()],
            "agent": [Bar(0, KERNEL + 1.9, "track"), *chunks(0.3, colour="gain")],
            "link": chunks(0.4),
        },
        tuple((time, 0, 1) for time in ready()),
    ),
    "device-launch": Picture(
        "The block that completes a chunk launches a kernel that stores the chunk to the other "
        "GPUs.",
        {
            "GPU": [kernel()],
            "launched": chunks(0.8, colour="gain"),
            "link": chunks(0.9),
        },
        tuple((time, 0, 1) for time in ready()),
    ),
    "copy-engine": Picture(
        "A stream waits for each chunk. When the chunk is complete, a copy engine copies the "
        "chunk.",
        {
            "GPU": [kernel()],
            "stream": [
                Bar(a, b - 0.1, "track", "waits")
                for a, b in zip([0.0, *list(ready())[:-1]], ready(), strict=True)
            ],
            "link": chunks(0.6),
        },
        tuple((time, 1, 2) for time in ready()),
    ),
    "proact-hardware": Picture(
        "Each store updates the counter of its chunk. A hardware unit of the GPU reads a "
        "descriptor and copies each complete chunk.",
        {
            "GPU": [kernel()],
            "unit": chunks(0.05, 0.35, "gain"),
            "link": chunks(0.4),
        },
        tuple((time, 0, 1) for time in ready()),
    ),
    "serial-copy": Picture(
        "After the kernel, the copies to the other GPUs run one after another, because each copy "
        "waits for all earlier copies from or to one of its two GPUs.",
        {
            "GPU": [kernel()],
            "to GPU 1": [Bar(LATER, LATER + 3)],
            "to GPU 2": [Bar(LATER + 3.1, LATER + 6.1)],
            "to GPU 3": [Bar(LATER + 6.2, LATER + 9.2)],
        },
        ((KERNEL, 0, 1),),
    ),
    "write-combining": queued(
        "Stores to other GPUs wait in a queue. Stores to the same line become one packet with "
        "one header.",
        "lines",
        packets(steady(12, 2.2, KERNEL + 0.6), 0.16, 0.6),
    ),
    "finepack": queued(
        "Stores to other GPUs wait in a queue until many stores fill one packet. The packet has "
        "one header, and each store in the packet has a short sub-header.",
        WINDOW,
        bursts(
            lambda t: [
                Bar(t, t + 0.16, "faint"),
                *(Bar(t + 0.22 + 0.3 * k, t + 0.46 + 0.3 * k) for k in range(7)),
            ]
        ),
    ),
    "config-packet": queued(
        "Stores wait in the same queue as under finepack, but each store leaves as a separate "
        "packet. A configuration packet with the common fields of these stores precedes them.",
        WINDOW,
        bursts(
            lambda t: [
                Bar(t, t + 0.3, "gain"),
                *packets([t + 0.4 + 0.38 * k for k in range(7)], 0.08, 0.24),
            ]
        ),
    ),
    "gps": queued(
        "Stores to other GPUs wait in a queue and leave as whole lines, including the bytes that "
        "no store wrote. The lines go to the GPUs that read the page in the first iteration.",
        "whole lines",
        packets(steady(12, 2.2, KERNEL + 0.6), 0.12, 1.0),
    ),
    "packed": Picture(
        "Updates of other GPUs' elements wait in shared memory. Full packets take the link to a "
        "queue at the owner. After the exchange, the owner combines the updates with its part.",
        {
            "updates": STORES,
            "shared mem.": [Bar(0.6, KERNEL + 0.2, "gain", "a packet for each warp and owner")],
            "link": packets(steady(8, 2.2, KERNEL + 0.3), 0.14, 0.9),
            "owner": [Bar(KERNEL + 2.2, KERNEL + 5.2, "compute", "combine")],
        },
        ((KERNEL + 1.4, 2, 3),),
    ),
    "nccl": Picture(
        "After the kernel, a kernel of NCCL on each GPU delivers the parts over the links.",
        {
            "GPU": [kernel(), Bar(LATER, LATER + COPY, "gain", "NCCL's kernel")],
            "link": [Bar(LATER + 0.3, LATER + COPY - 0.1)],
        },
        ((LATER, 0, 1),),
    ),
    "nvshmem": Picture(
        "Each GPU has its own process. After the kernel, the process puts its part into the "
        "memory of every other GPU, with a separate stream for each of them.",
        {
            "GPU": [kernel()],
            "put to 1": [Bar(LATER, LATER + COPY, "link", "put")],
            "put to 2": [Bar(LATER, LATER + COPY, "link", "put")],
        },
        ((KERNEL, 0, 2),),
    ),
    "unified-memory": Picture(
        "All GPUs share one copy of the data. Without hints, a kernel that touches a page of "
        "another GPU waits while the driver moves the page.",
        {
            "GPU": [
                bar
                for k in range(4)
                for bar in (kernel(6 * k, 6 * k + 4, ""), Bar(6 * k + 4, 6 * k + 5.9, "track"))
            ],
            "driver": [Bar(6 * k + 4, 6 * k + 5.9, "gain", "page") for k in range(4)],
            "link": [Bar(6 * k + 4.8, 6 * k + 5.6) for k in range(4)],
        },
        tuple((6.0 * k + 4, 0, 1) for k in range(4)),
    ),
    "infinite-bandwidth": Picture(
        "The kernel runs, and its output is on all GPUs at once, because transfers take no time.",
        {"GPU": [kernel()], "link": []},
        ((KERNEL, 0, 1),),
    ),
}


def svg(picture: Picture, theme: dict[str, str]) -> str:
    """Return the picture in the colours of a theme."""
    height = TOP + ROW * len(picture.rows) + 4
    lines = []
    for number, (name, bars) in enumerate(picture.rows.items()):
        y = TOP + ROW * number
        lines.append(
            f'<text x="{LEFT - 10}" y="{y + BAR / 2 + 5}" text-anchor="end" '
            f'fill="{theme["faint"]}">{name}</text>'
        )
        lines.append(
            f'<rect x="{LEFT}" y="{y}" width="{END * UNIT:.1f}" height="{BAR}" rx="3" '
            f'fill="{theme["track"]}"/>'
        )
        for bar in bars:
            x, width = LEFT + bar.start * UNIT, (bar.end - bar.start) * UNIT
            outline = f' stroke="{theme["faint"]}" stroke-dasharray="3 3"'
            lines.append(
                f'<rect x="{x:.1f}" y="{y}" width="{max(width - 0.8, 1):.1f}" height="{BAR}" '
                f'rx="{min(3.0, width / 4):.1f}" fill="{theme[bar.colour]}"'
                f"{outline if bar.colour == 'track' else ''}/>"
            )
            if bar.label:
                ink = theme["faint" if bar.colour == "track" else "on_bar"]
                size = 11 if width < 10 * len(bar.label) else 14
                lines.append(
                    f'<text x="{x + width / 2:.1f}" y="{y + BAR / 2 + 5}" font-size="{size}" '
                    f'text-anchor="middle" fill="{ink}">{bar.label}</text>'
                )
    for time, above, below in picture.steps:
        x = LEFT + time * UNIT
        lines.append(
            f'<line x1="{x:.1f}" y1="{TOP + ROW * above}" x2="{x:.1f}" '
            f'y2="{TOP + ROW * below + BAR}" stroke="{theme["text"]}" stroke-dasharray="3 3"/>'
        )
    return framed(WIDTH, height, picture.text, lines, font_size=14)


def made() -> dict[str, str]:
    """Return the text of each file by its name."""
    return {
        f"{name}-{theme}.svg": svg(picture, colours)
        for name, picture in PICTURES.items()
        for theme, colours in THEMES.items()
    }


def main() -> None:
    """Write all pictures."""
    for name, text in made().items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
