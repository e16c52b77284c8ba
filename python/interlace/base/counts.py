"""Counts in words."""

from __future__ import annotations


def counted(number: int, one: str, many: str | None = None) -> str:
    """A number and its noun: `1 vertex`, `2,000 vertices`; without `many`, the plural adds an s."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"
