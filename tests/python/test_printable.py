"""Tests that no escape sequence in a name or a file reaches the terminal."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlace.base import table
from interlace.base.printable import printable
from study_helpers import Run

SEQUENCE = "\x1b]0;title\x07"
ESCAPED = "\\x1b]0;title\\x07"


def test_only_what_a_terminal_acts_on_is_escaped() -> None:
    assert printable("a\tb\nä →\U0001f680") == "a\tb\nä →\U0001f680"
    assert printable(f"{SEQUENCE}\r\x9b\u202e") == f"{ESCAPED}\\x0d\\x9b\\x202e"


def test_messages_and_tables_are_printable(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = run("topo", tmp_path / f"{SEQUENCE}.toml")
    assert ran.code == 2
    assert f"{ESCAPED}.toml" in ran.err
    assert "\x1b" not in ran.err
    column = table.Column("name", "", [SEQUENCE], number=False)
    table.print_table(SEQUENCE, [column], [0], [""], [SEQUENCE])
    out = capsys.readouterr().out
    assert out.count(ESCAPED) == 3
    assert "\x1b" not in out
