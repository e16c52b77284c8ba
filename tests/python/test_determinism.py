"""Tests that a repeated command gives the same counters, and that one core gives the same counters
as eight processes.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from study_helpers import MACHINE, Run

pytest.importorskip("interlace._core")

COMMAND = (
    "study", "pagerank", "--rmat", 8, "--iterations", 3, "--machine", MACHINE, "--gpus", 4,
    "--chunks", "64K", "--split", 2, "--inside",
)  # fmt: skip


def _counters(run: Run, file: Path, jobs: int) -> Any:
    ran = run(*COMMAND, "--jobs", jobs, "--json", file)
    assert ran.code == 0, ran.err
    study = json.loads(file.read_text())
    for row in [*study["rows"], *study["candidates"]]:
        del row["sim"]["cpu_s"], row["sim"]["peak_rss_mb"]
    del study["date"], study["command"]
    return study


def test_one_core_and_eight_processes(run: Run, tmp_path: Path) -> None:
    first = _counters(run, tmp_path / "a.json", 1)
    assert first["rows"][-2]["sim"]["accesses"] > 0
    assert _counters(run, tmp_path / "b.json", 8) == first
    assert _counters(run, tmp_path / "c.json", 8) == first
