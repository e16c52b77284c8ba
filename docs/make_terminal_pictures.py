#!/usr/bin/env python3
"""Draw a picture of a terminal for each text in docs/how-to/terminals.

    python docs/make_terminal_pictures.py

The texts are output that was captured in a terminal. Lines that begin with "$ " are commands that
the user typed.
"""

from __future__ import annotations

from pathlib import Path
from xml.sax.saxutils import escape

FOLDER = Path(__file__).resolve().parent / "how-to"
COLUMN, LINE = 7.8, 19  # pixels of a character and of a line
MARGIN, BAR = 16, 28
COLUMNS = 108  # longer lines are broken, as a terminal breaks them
FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"


def broken(text: str) -> list[str]:
    """Return the lines as a terminal with COLUMNS columns shows them."""
    return [
        line[at : at + COLUMNS]
        for line in text.splitlines()
        for at in range(0, max(1, len(line)), COLUMNS)
    ]


def draw(text: str) -> str:
    """Return the picture of a terminal that shows the text, as SVG."""
    lines = broken(text)
    width = round(COLUMNS * COLUMN + 2 * MARGIN)
    height = BAR + len(lines) * LINE + MARGIN
    made = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="{FONT}" font-size="13">',
        f'<rect width="{width}" height="{height}" rx="8" fill="#161b22"/>',
    ]
    made += [
        f'<circle cx="{MARGIN + 16 * k}" cy="{BAR / 2:g}" r="5" fill="{color}"/>'
        for k, color in enumerate(("#f47067", "#c69026", "#57ab5a"))
    ]
    for number, line in enumerate(lines):
        color = "#8ddb8c" if line.startswith("$ ") else "#d1d7e0"
        made.append(
            f'<text x="{MARGIN}" y="{BAR + number * LINE + 13}" fill="{color}" '
            f'textLength="{len(line) * COLUMN:g}" xml:space="preserve">{escape(line)}</text>'
        )
    return "\n".join([*made, "</svg>"]) + "\n"


def made() -> dict[str, str]:
    """Return the text of each picture by its file's name."""
    return {
        f"{file.stem}.svg": draw(file.read_text(encoding="utf-8"))
        for file in sorted((FOLDER / "terminals").glob("*.txt"))
    }


def main() -> None:
    """Write all pictures."""
    folder = FOLDER / "pictures"
    folder.mkdir(exist_ok=True)
    for name, picture in made().items():
        (folder / name).write_text(picture, encoding="utf-8")


if __name__ == "__main__":
    main()
