#!/usr/bin/env python3
"""Doxygen's filter for the public headers. It marks their comments in the way that Doxygen needs.

    python3 tools/doxygen_comments.py HEADER

The headers have plain comments: one at the top about the whole file, one before each declaration,
or one after a member on the same line. Doxygen needs marks on these comments, and would take some
characters for commands. An indented block in a comment is code.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

FULL_LINE = re.compile(r"^(\s*)// ?(?!NOLINT)(.*)$")
TRAILING = re.compile(r"^(.*\S)(\s+)// (.*)$")
# The page leaves out these lines: friends, forward declarations, and the beginning and the end of
# the outer namespace. The page names the outer namespace only once.
NOT_SHOWN = re.compile(
    r"\s*friend .*;$|(class|struct) \w+;|namespace interlace {$|}  // namespace interlace$"
)
# The page shows these names without the outer namespace.
INNER = re.compile(r"namespace interlace::([\w:]+ {)$")
ITEM = re.compile(r"(- |\d+\. )")  # the mark of a list item
CODE_INDENT = 2  # in a comment, a line of code begins with more blanks than this


def escaped(text: str) -> str:
    """Return a line of text in which Doxygen takes only spans of code for markup."""
    parts = re.split(r"(`[^`]*`)", text)
    for k in range(0, len(parts), 2):
        parts[k] = re.sub(r"([\\@#<>&%*_~\[\]])", r"\\\1", parts[k]).replace("\\*", "*")
        parts[k] = parts[k].replace("\\_", "_").replace("\\[", "[").replace("\\]", "]")
        parts[k] = parts[k].replace("\\~", "~")
    return "".join(parts)


def documentation(lines: list[str], head: str = "") -> list[str]:
    """Return the lines of a comment as one Doxygen comment. Each paragraph and each item is on one
    line.
    """
    made = ["/**" + head]
    # `code`: in a block of code; `joins`: in a paragraph that the next line continues.
    code = joins = False
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
    """Mark the comments of a C header: /* ... */ before a declaration or after a member."""

    def mark(found: re.Match[str]) -> str:
        before, inner = found[1], found[2]
        if before.strip():
            return f"{before}/**< {escaped(inner.strip())} */"
        lines = [re.sub(r"^\s*\* ?", "", line) for line in inner.strip().split("\n")]
        head = " @file" if found.start() == 0 else ""
        return "\n".join(documentation(lines, head))

    text = re.sub(r"^([^\n]*?)/\*(?!\*)(.*?)\*/", mark, text, flags=re.MULTILINE | re.DOTALL)
    # A struct or enum and its typedef get one entry.
    return re.sub(r"typedef ((?:enum|struct) \w+ \{[^}]*\}) \w+;", r"\1;", text)


def cpp_comments(text: str) -> str:
    """Mark the comments of a header in C++."""
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
    """Print the header with marked comments."""
    file = Path(sys.argv[1])
    text = file.read_text(encoding="utf-8")
    sys.stdout.write(c_comments(text) if file.suffix == ".h" else cpp_comments(text))
    return 0


if __name__ == "__main__":
    sys.exit(main())
