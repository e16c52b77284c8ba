"""Tests that prose uses the word "behind" in one sense only: a place in space.

For time and order, prose uses "after". Prose is the documents, comments, docstrings and messages.
Names of variables are not prose.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WORD = re.compile(r"\bbehind\b", re.IGNORECASE)
# Uses of the word for places in space, and one use in a name of stored results. Each entry has a
# file and, for each use, the words around it.
IN_SPACE: dict[str, tuple[str, ...]] = {
    "docs/explanation/planner.md": ("behind an NVSwitch",),
    "docs/how-to/transfers.md": ("Behind an NVSwitch",),
    "docs/tutorials/first-study.md": ("hides behind the",),
    "python/interlace/study/calibration.py": ("copies behind waits",),
    "src/workload/eqwp.hpp": ("`behind` is the difference",),
    "tests/python/test_calibrate.py": ("copies behind waits",),
}
C_COMMENT_OR_TEXT = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"', re.DOTALL)
FOLDERS = (
    "docs",
    "include",
    "src",
    "python",
    "tests",
    "bench",
    "tools",
    "cmake",
    "machines",
    "data",
)


def prose(path: Path) -> Iterator[str]:
    """Yield the texts of a file that people read."""
    text = path.read_text(encoding="utf-8")
    if path.suffix in {".md", ".toml", ".cmake", ".in"} or not path.suffix:
        yield text
    elif path.suffix == ".py":
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                yield token.string
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
                yield node.value
    else:
        for found in C_COMMENT_OR_TEXT.finditer(text):
            if " " in found[0]:
                yield found[0]


def files() -> Iterator[Path]:
    yield from (ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md"))
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in {".md", ".toml", ".cmake", ".in", ".py"} or re.fullmatch(
                r"\.(?:[ch]pp|cuh?|[ch])", path.suffix
            ):
                yield path


def uses(path: Path) -> list[str]:
    """Return the words around each use in a file, except the uses that the list allows."""
    allowed = IN_SPACE.get(path.relative_to(ROOT).as_posix(), ())
    found = []
    for piece in prose(path):
        text = " ".join(re.sub(r"^\s*(?://+|#|\*)\s?", "", piece, flags=re.MULTILINE).split())
        for words in allowed:
            text = text.replace(words, "")
        found += [text[max(0, m.start() - 40) : m.end() + 40] for m in WORD.finditer(text)]
    return found


def test_behind_is_a_place_in_space() -> None:
    this = Path(__file__).resolve()
    wrong = [
        f"{path.relative_to(ROOT)}: {words}"
        for path in files()
        if path != this
        for words in uses(path)
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", sorted(IN_SPACE))
def test_what_is_allowed_is_there(name: str) -> None:
    text = " ".join(" ".join(prose(ROOT / name)).replace("//", " ").split())
    for words in IN_SPACE[name]:
        assert words in text


def test_prose_is_found() -> None:
    assert any("behind" in piece for piece in prose(ROOT / "src/workload/eqwp.hpp"))
    assert any("behind" in piece for piece in prose(ROOT / "python/interlace/study/calibration.py"))
