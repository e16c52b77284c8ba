"""Writes a number together with its noun."""

from __future__ import annotations


def counted(number: int, one: str, many: str | None = None) -> str:
    """Return a number and its noun, such as `1 vertex` or `2,000 vertices`.

    Without `many`, the plural is the singular `one` with an s at its end.
    """
    return f"{number:,} {one if number == 1 else many or one + 's'}"
