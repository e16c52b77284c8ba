#!/usr/bin/env python3
"""Draw the picture of the README: docs/overlap-light.svg and docs/overlap-dark.svg.

    python docs/make_picture.py

The picture shows three epochs of one GPU and its link, in two ways: with copies after the kernels,
and with transfers during the kernels. The lengths show the principle and were not measured.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
WIDTH, HEIGHT = 880, 344
LEFT, UNIT = 76, 9.4  # the place of time 0, and the pixels for a unit of time
BAR = 34
FONT = "system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif"

COMPUTE, TRANSFER = 17.0, 10.0  # the times of an epoch's kernel and of its transfer
LAUNCH = 0.9  # the time from the last byte to the next epoch
CHUNKS = 6

THEMES = {
    "light": {
        "text": "#1f2328",
        "faint": "#59636e",
        "track": "#eff2f5",
        "compute": "#2f6fb2",
        "link": "#c75b12",
        "on_bar": "#ffffff",
        "gain": "#1a7f37",
    },
    "dark": {
        "text": "#f0f6fc",
        "faint": "#9198a1",
        "track": "#1c2128",
        "compute": "#5a9be0",
        "link": "#e8904a",
        "on_bar": "#0d1117",
        "gain": "#4ac26b",
    },
}


def framed(
    width: int, height: int, title: str, lines: Iterable[str], font_size: int | None = None
) -> str:
    """Return a file of SVG with these elements, in the font of all pictures."""
    size = "" if font_size is None else f' font-size="{font_size}"'
    body = "\n  ".join(lines)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" font-family="{FONT}"{size} role="img">\n'
        f"  <title>{title}</title>\n  {body}\n</svg>\n"
    )


class Drawing:
    """The elements of one picture."""

    def __init__(self, theme: dict[str, str]) -> None:
        self.theme = theme
        self.lines: list[str] = []

    def bar(self, row: float, start: float, end: float, colour: str, label: str = "") -> None:
        x, width = LEFT + start * UNIT, (end - start) * UNIT
        self.lines.append(
            f'<rect x="{x:.1f}" y="{row:.1f}" width="{width - 1.5:.1f}" height="{BAR}" rx="3" '
            f'fill="{self.theme[colour]}"/>'
        )
        if label:
            ink = "faint" if colour == "track" else "on_bar"
            self.text(x + width / 2, row + BAR / 2 + 5, label, ink, anchor="middle")

    def text(
        self, x: float, y: float, words: str, ink: str = "text", *, anchor: str = "start",
        size: int = 14, weight: int = 400,
    ) -> None:  # fmt: skip
        self.lines.append(
            f'<text x="{x:.1f}" y="{y:.1f}" fill="{self.theme[ink]}" font-size="{size}" '
            f'font-weight="{weight}" text-anchor="{anchor}">{words}</text>'
        )

    def track(self, row: float, name: str, end: float) -> None:
        self.text(LEFT - 12, row + BAR / 2 + 5, name, "faint", anchor="end")
        self.lines.append(
            f'<rect x="{LEFT}" y="{row:.1f}" width="{end * UNIT:.1f}" height="{BAR}" rx="3" '
            f'fill="{self.theme["track"]}"/>'
        )

    def dashed(self, time: float, top: float, bottom: float, ink: str) -> None:
        x = LEFT + time * UNIT
        self.lines.append(
            f'<line x1="{x:.1f}" y1="{top}" x2="{x:.1f}" y2="{bottom}" '
            f'stroke="{self.theme[ink]}" stroke-width="1.5" stroke-dasharray="5 4"/>'
        )

    def svg(self, description: str) -> str:
        return framed(WIDTH, HEIGHT, description, self.lines)


def after_compute(drawing: Drawing, top: float) -> float:
    """Draw three epochs whose copies follow the kernels. Return the time at which the last epoch
    ends.
    """
    gpu, link = top + 12, top + 12 + BAR + 8
    end = 3 * (COMPUTE + TRANSFER) + 2 * LAUNCH
    drawing.text(LEFT, top, "Copy after compute", weight=600, size=15)
    drawing.track(gpu, "GPU", end)
    drawing.track(link, "link", end)
    for epoch in range(3):
        start = epoch * (COMPUTE + TRANSFER + LAUNCH)
        drawing.bar(gpu, start, start + COMPUTE, "compute", f"compute {epoch + 1}")
        middle, done = start + COMPUTE, start + COMPUTE + TRANSFER
        drawing.text(
            LEFT + (middle + done) / 2 * UNIT, gpu + BAR / 2 + 5, "waits", "faint", anchor="middle"
        )
        drawing.text(
            LEFT + (start + middle) / 2 * UNIT, link + BAR / 2 + 5, "idle", "faint", anchor="middle"
        )
        drawing.bar(link, middle, done, "link", f"copy {epoch + 1}")
    return end


def overlapped(drawing: Drawing, top: float, scale_end: float) -> float:
    """Draw three epochs whose chunks leave while the kernel runs. Return the time of their end."""
    gpu, link = top + 12, top + 12 + BAR + 8
    chunk = TRANSFER / CHUNKS
    tail = chunk  # only the transfer of the last chunk is not hidden
    end = 3 * (COMPUTE + tail) + 2 * LAUNCH
    drawing.text(LEFT, top, "Overlapped: data leave as soon as they are ready", weight=600, size=15)
    drawing.track(gpu, "GPU", end)
    drawing.track(link, "link", end)
    for epoch in range(3):
        start = epoch * (COMPUTE + tail + LAUNCH)
        drawing.bar(gpu, start, start + COMPUTE, "compute", f"compute {epoch + 1}")
        for index in range(CHUNKS):
            ready = start + COMPUTE * (index + 1) / CHUNKS
            drawing.bar(link, ready, ready + chunk, "link")
    bottom = link + BAR + 14
    drawing.dashed(end, gpu - 8, bottom, "gain")
    drawing.dashed(scale_end, 30, bottom, "gain")
    middle = LEFT + (end + scale_end) / 2 * UNIT
    left, right = LEFT + end * UNIT + 5, LEFT + scale_end * UNIT - 5
    y = gpu + BAR + 4
    green = drawing.theme["gain"]
    drawing.lines.append(
        f'<path d="M{left:.1f} {y} H{right:.1f} M{left + 8:.1f} {y - 5} L{left:.1f} {y} '
        f"L{left + 8:.1f} {y + 5} M{right - 8:.1f} {y - 5} L{right:.1f} {y} "
        f'L{right - 8:.1f} {y + 5}" fill="none" stroke="{green}" stroke-width="1.8"/>'
    )
    drawing.text(middle, y - 12, "time gained", "gain", anchor="middle", weight=600)
    return end


def draw(theme: dict[str, str]) -> str:
    """Return the picture as SVG."""
    drawing = Drawing(theme)
    end = after_compute(drawing, 24)
    overlapped(drawing, 164, end)
    y = HEIGHT - 46
    drawing.text(LEFT, y + 12, "time", "faint", size=13)
    drawing.lines.append(
        f'<path d="M{LEFT + 40} {y + 8} H{LEFT + 150} m-7 -4 l7 4 l-7 4" fill="none" '
        f'stroke="{theme["faint"]}" stroke-width="1.3"/>'
    )
    drawing.text(
        LEFT, y + 34,
        "The picture has three epochs of one GPU and its link. Every GPU sends its part of the "
        "result to all other GPUs.", "faint", size=13,
    )  # fmt: skip
    return drawing.svg(
        "Copy after compute: the link is idle while the GPU computes, and the GPU waits while the "
        "link copies. Overlapped: chunks of the result cross the link while the GPU computes on, "
        "so that the same work ends earlier."
    )


def main() -> None:
    """Write both pictures."""
    for name, theme in THEMES.items():
        (FOLDER / f"overlap-{name}.svg").write_text(draw(theme), encoding="utf-8")


if __name__ == "__main__":
    main()
