"""Random changes of files that people write, for tests and for long fuzzing."""

from __future__ import annotations

import re
from random import Random

_NUMBER = re.compile(r"(?<![\w.])\d[\d_.]*")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_*]*")
_NUMBERS = (
    "0", "-1", "1", "2", "3", "16", "17", "64", "65", "1e300", "1e-300", "1e400", "nan", "-inf",
    "0.5", "4096", "4294967296", "9223372036854775807", "9223372036854775808",
    "99999999999999999999999999", "true", '""', '"x"', '"gpu*"', "[]", "[1]", "{}", "{ a = 1 }",
    "1979-05-27", "07:32:00", "0x10", "0b1", "1_000",
)  # fmt: skip
_PIECES = (
    "[", "]", "[[", "]]", "{", "}", '"', "'", '"""', "=", ".", ",", "#", "\n", "\t", "\\",
    "\\u0000", "\0", "é", "\u2028", "𝄞", "*", "-", "gpu", "gpu0-99999", "link", "..",
    "[a]\n", "x = 1\n",
    "[" * 40, "a." * 300, "= [" + "[" * 2000,
)  # fmt: skip


def _one(text: str, random: Random) -> str:
    lines = text.splitlines(keepends=True)
    kind = random.randrange(9)
    if kind == 0 and (found := list(_NUMBER.finditer(text))):
        at = random.choice(found)
        return text[: at.start()] + random.choice(_NUMBERS) + text[at.end() :]
    if kind == 1 and (words := list(_WORD.finditer(text))):
        at, other = random.choice(words), random.choice(words)
        return text[: at.start()] + other[0] + text[at.end() :]
    if kind == 2 and lines:
        del lines[random.randrange(len(lines))]
        return "".join(lines)
    if kind == 3 and lines:
        lines.insert(random.randrange(len(lines) + 1), random.choice(lines))
        return "".join(lines)
    if kind == 4 and len(lines) > 1:
        a, b = random.randrange(len(lines)), random.randrange(len(lines))
        lines[a], lines[b] = lines[b], lines[a]
        return "".join(lines)
    at_character = random.randrange(len(text) + 1)
    if kind == 5:
        return text[:at_character]
    if kind == 6:
        return text[:at_character] + text[at_character + 1 + random.randrange(8) :]
    if kind == 7:
        return text[:at_character] + chr(random.randrange(1, 128)) + text[at_character + 1 :]
    return text[:at_character] + random.choice(_PIECES) + text[at_character:]


def mutated(text: str, random: Random) -> str:
    """Return the text with one to four changes."""
    for _ in range(1 + random.randrange(4)):
        text = _one(text, random)
    return text
