"""Prints the findings of `interlace doctor` as a table."""

from __future__ import annotations

from collections.abc import Sequence

from interlace.base import table
from interlace.study.doctor import BROKEN, FEATURES, WORKS, Finding, broken

STYLES = {BROKEN: "bold red"}


def print_findings(found: Sequence[Finding]) -> None:
    topics = list(dict.fromkeys(one.topic for one in found))
    columns = [
        table.Column("", "", [one.name for one in found], number=False),
        table.Column("state", "", [one.state for one in found], number=False),
        table.Column("", "", [one.text for one in found], number=False, wraps=True),
    ]
    sections = [topics.index(one.topic) for one in found]
    features = [one for one in found if one.topic == FEATURES]
    working = sum(one.state == WORKS for one in features)
    ill = broken(found)
    foot = [f"{working} of {len(features)} features work here."]
    foot += [f"BROKEN: {one.name}: {one.text}" for one in ill]
    if not ill:
        foot.append("Nothing is broken.")
    styles = [STYLES.get(one.state, "") for one in found]
    table.print_table("what Interlace can do on this machine", columns, sections, styles, foot)
