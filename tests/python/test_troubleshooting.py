"""Tests that the messages on the troubleshooting page are those in the sources."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/how-to/troubleshooting.md"
SOURCES = ("src/**/*.cpp", "src/**/*.hpp", "src/**/*.cu", "python/**/*.py")
LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
FIELD = re.compile(r"\{[^{}]*\}")  # a field of an f-string
SHORTEST = 4  # shorter parts of a message are not looked up
MESSAGES = [
    line.strip().removeprefix("interlace: ").removeprefix("warning: ").removeprefix("note: ")
    for block in re.findall(r"```text\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    for line in block.splitlines()
    if line.strip()
]


@cache
def literals() -> set[str]:
    """Return all strings of the sources, cut at fields. Adjacent strings are joined, as a compiler
    does.
    """
    text = "\n".join(
        file.read_text(encoding="utf-8") for glob in SOURCES for file in sorted(ROOT.glob(glob))
    )
    text = re.sub(r'(?<!\\)"\s*\n\s*f?"', "", text)
    found = (literal.replace('\\"', '"') for literal in LITERAL.findall(text))
    return {part for literal in found for part in FIELD.split(literal) if part}


@cache
def joined() -> str:
    return "\n".join(literals())


def is_made_of_literals(part: str) -> bool:
    """Return whether a fixed part of a message is in one string, or in several strings that code
    joins.
    """
    if part in joined():
        return True
    lines = "\n" + joined() + "\n"
    # The rest of the part must consist of whole strings, followed by the beginning of another
    # string.
    whole = [len(part)]
    for at in range(len(part) - 1, 0, -1):
        rest = part[at:]
        if f"\n{rest}" in lines or any(part[at:end] in literals() for end in whole):
            whole.append(at)
    return any(f"{part[:at]}\n" in lines for at in whole)


def fixed_parts(message: str) -> list[str]:
    return [part for part in message.split("...") if len(part) >= SHORTEST]


@pytest.mark.parametrize("message", MESSAGES)
def test_a_message_is_one_of_the_sources(message: str) -> None:
    parts = fixed_parts(message)
    assert max(map(len, parts)) >= 16, "quote a longer part of the message"
    for part in parts:
        assert is_made_of_literals(part), part


def test_every_kind_of_source_is_read() -> None:
    assert is_made_of_literals("the kernel that writes it hangs")
    assert is_made_of_literals("connecting with rank ")
    assert is_made_of_literals("never looked for a CUDA driver, so there was")
    assert not is_made_of_literals("connecting from rank ")
    assert not is_made_of_literals("the kernel that reads it hangs")
    assert len(MESSAGES) > 25
