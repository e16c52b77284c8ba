"""Counts as words."""

from __future__ import annotations


def counted(number: int, one: str, many: str | None = None) -> str:
    """A number and its noun: `1 vertex`, `2,000 vertices`.

    Without `many`, the plural is `one` with an s.
    """
    return f"{number:,} {one if number == 1 else many or one + 's'}"
