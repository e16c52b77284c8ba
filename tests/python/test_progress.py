"""Tests that commands print the progress of long work if there is no terminal."""

from __future__ import annotations

import errno
import io
import sys

import pytest

from interlace.base import progress as module
from interlace.base.progress import progress


def test_long_work_prints_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(module, "FIRST_LINE_S", 15.0)
    now = iter((100.0, 110.0, 120.0, 121.0, 160.0, 300.0))
    monkeypatch.setattr(module.time, "monotonic", lambda: next(now))
    with progress("reproduce x", 5) as tick:
        for _ in range(5):
            tick()
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        "reproduce x: 2 of 5 runs, 20 s gone, about 30 s left",
        "reproduce x: 4 of 5 runs, 60 s gone, about 15 s left",
    ]


class Full(io.StringIO):
    """A stream on a full disk."""

    def write(self, text: str) -> int:  # noqa: ARG002
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_ends_no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_LINE_S", 0.0)
    monkeypatch.setattr(sys, "stderr", Full())
    with progress("x", 3) as tick:
        tick()
