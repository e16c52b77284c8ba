"""Tests sampled runs. A sampled run does not simulate iterations that repeat."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

from interlace.model.mechanism_table import BULK_COPY, COPY_ENGINE, GPS, INLINE
from study_helpers import MACHINE, REGION_WORKLOADS, Run

# Maps a workload to a small run. The test file of the workload defines this run.
TINY = {
    name: importlib.import_module(f"test_{name.replace('-', '_')}").TINY
    for name in REGION_WORKLOADS
}
ITERATIONS = 9
TIMED = 4
MOST = 0.02  # the largest allowed relative error of the time of a sampled run


def studied(run: Run, path: Path, *words: object) -> tuple[list[dict[str, Any]], str]:
    """Return the rows of a study, and its output."""
    pytest.importorskip("interlace._core")
    done = run("study", *words, "--machine", MACHINE, "--json", path)
    assert done.code == 0, done.err
    return json.loads(path.read_text(encoding="utf-8"))["rows"], done.out


@pytest.mark.parametrize("workload", REGION_WORKLOADS)
def test_a_sampled_run_is_near_the_whole_one(run: Run, tmp_path: Path, workload: str) -> None:
    words = (
        workload, *TINY[workload], "--iterations", ITERATIONS, "--gpus", 4, "--mechanisms",
        f"{BULK_COPY},{INLINE},{COPY_ENGINE},{GPS}", "--chunks", "16K",
    )  # fmt: skip
    sampled, said = studied(run, tmp_path / "sampled.json", *words)
    whole, plain = studied(run, tmp_path / "whole.json", *words, "--whole")
    assert f"In every row {TIMED} of {ITERATIONS} iterations were simulated" in said
    assert "iterations were simulated" not in plain
    for row, full in zip(sampled, whole, strict=True):
        assert row["sim"]["timed_iterations"] == TIMED
        assert "timed_iterations" not in full["sim"]
        assert row["time_s"] == pytest.approx(full["time_s"], rel=MOST)
        assert row["sim"]["accesses"] == pytest.approx(full["sim"]["accesses"], rel=MOST)
        assert sum(row["wire"].values()) == pytest.approx(sum(full["wire"].values()), rel=MOST)
        assert row["verified"]
        assert row["iterations"] == ITERATIONS


def test_short_runs_and_insides_are_whole(run: Run, tmp_path: Path) -> None:
    words = ("jacobi", *TINY["jacobi"], "--gpus", 2, "--mechanisms", BULK_COPY)
    for more in (("--iterations", TIMED), ("--iterations", ITERATIONS, "--inside")):
        rows, said = studied(run, tmp_path / "out.json", *words, *more)
        assert "iterations were simulated" not in said
        assert all("timed_iterations" not in row["sim"] for row in rows)


def test_whole_is_for_simulated_machines(run: Run) -> None:
    ran = run("study", "jacobi", *TINY["jacobi"], "--whole")
    assert ran.code == 2
    assert "--whole is for simulated machines" in ran.err
