"""Prints environment variables as a table."""

from __future__ import annotations

from interlace.base import table
from interlace.runtime.environment import ENVIRONMENT, Setting

UNSET = "-"  # the table shows this for a variable that is not set


def print_variables(found: list[Setting]) -> None:
    columns = [
        table.Column("variable", "", [one.name for one in found], number=False),
        table.Column("value", "", [one.value or UNSET for one in found], number=False, wraps=True),
        table.Column("from", "", [one.source for one in found], number=False),
        table.Column("default", "", [one.default or UNSET for one in found], number=False),
        table.Column("meaning", "", [one.meaning for one in found], number=False, wraps=True),
    ]
    uses = list(dict.fromkeys(one.used_by for one in found))
    sections = [uses.index(one.used_by) for one in found]
    styles = [table.BEST if one.source == ENVIRONMENT else "" for one in found]
    table.print_table("environment variables", columns, sections, styles, [])
