#!/usr/bin/env python3
"""Doxygen's filter for our public headers: it marks their comments as Doxygen wants them.

    python3 tools/doxygen_comments.py HEADER

Our headers have plain comments: one at the top that is about the whole file, one in front of each
declaration, or one after a member on its line. Doxygen wants marks that tell them from other
comments, and takes some characters for commands. An indented block in a comment is code.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

FULL_LINE = re.compile(r"^(\s*)// ?(?!NOLINT)(.*)$")
TRAILING = re.compile(r"^(.*\S)(\s+)// (.*)$")
# Friends, declarations in advance, and the namespace, which the page names once.
NOT_SHOWN = re.compile(
    r"\s*friend .*;$|(class|struct) \w+;|namespace interlace {$|}  // namespace interlace$"
)
INNER = re.compile(r"namespace interlace::([\w:]+ {)$")  # shown without the outer namespace
ITEM = re.compile(r"(- |\d+\. )")  # the mark of an item of a list
CODE_INDENT = 2  # more blanks before a line of code in a comment


def escaped(text: str) -> str:
    """A line of text for Doxygen, where only spans of code are markup."""
    parts = re.split(r"(`[^`]*`)", text)
    for k in range(0, len(parts), 2):
        parts[k] = re.sub(r"([\\@#<>&%*_~\[\]])", r"\\\1", parts[k]).replace("\\*", "*")
        parts[k] = parts[k].replace("\\_", "_").replace("\\[", "[").replace("\\]", "]")
        parts[k] = parts[k].replace("\\~", "~")
    return "".join(parts)


def documentation(lines: list[str], head: str = "") -> list[str]:
    """A comment's lines as one comment of Doxygen's, each paragraph and item on one line."""
    made = ["/**" + head]
    code = joins = False  # in a block of code; the next line goes on with the last one
    for line in lines:
        indent = len(line) - len(line.lstrip())
        if not line.strip():
            made.append("")
            joins = False
            continue
        is_code = indent >= CODE_INDENT and (code or not joins)
        if is_code != code:
            made.append("@code{.unparsed}" if is_code else "@endcode")
            code, joins = is_code, False
        if code:
            made.append(line[CODE_INDENT:])
        elif joins and not ITEM.match(line):
            made[-1] += " " + escaped(line.strip())
        else:
            made.append(escaped(line.strip()))
            joins = True
    if code:
        made.append("@endcode")
    return [*made, "*/"]


def c_comments(text: str) -> str:
    """The comments of a header in C: /* ... */ before a declaration or after a member."""

    def mark(found: re.Match[str]) -> str:
        before, inner = found[1], found[2]
        if before.strip():
            return f"{before}/**< {escaped(inner.strip())} */"
        lines = [re.sub(r"^\s*\* ?", "", line) for line in inner.strip().split("\n")]
        head = " @file" if found.start() == 0 else ""
        return "\n".join(documentation(lines, head))

    text = re.sub(r"^([^\n]*?)/\*(?!\*)(.*?)\*/", mark, text, flags=re.MULTILINE | re.DOTALL)
    # One entry for the two names of a type that are the same.
    return re.sub(r"typedef ((?:enum|struct) \w+ \{[^}]*\}) \w+;", r"\1;", text)


def cpp_comments(text: str) -> str:
    """The comments of a header in C++."""
    made: list[str] = []
    lines = text.split("\n")
    k = 0
    while k < len(lines):
        run = []
        while k < len(lines) and (found := FULL_LINE.match(lines[k])):
            run.append(found[2])
            k += 1
        if run:
            made += documentation(run, " @file" if k == len(run) else "")
            continue
        line = lines[k]
        k += 1
        if NOT_SHOWN.match(line):
            continue
        line = INNER.sub(r"namespace \1", line)
        found = TRAILING.match(line)
        if found and not line.startswith("#") and re.search(r"[;,\w]$", found[1]):
            line = f"{found[1]}  /**< {escaped(found[3])} */"
        made.append(line)
    return "\n".join(made)


def main() -> int:
    """Print the header with its comments marked."""
    file = Path(sys.argv[1])
    text = file.read_text(encoding="utf-8")
    sys.stdout.write(c_comments(text) if file.suffix == ".h" else cpp_comments(text))
    return 0


if __name__ == "__main__":
    sys.exit(main())
