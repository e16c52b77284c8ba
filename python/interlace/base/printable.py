"""Text from files and names, made safe for a terminal."""

from __future__ import annotations

import re

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    """Return the text with its control characters as escapes, so that no terminal acts on them.

    Line ends and tabs are not escaped. Characters that change the direction of text are escaped.
    """
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)
