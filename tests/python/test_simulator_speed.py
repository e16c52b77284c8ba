"""Tests `interlace bench simulator` on small inputs."""

from __future__ import annotations

import json
import statistics
from pathlib import Path

import pytest

from interlace.cli import bench_simulator
from interlace.reproduce.finepack_inputs import Sizes
from interlace.reproduce.simulator_workloads import workloads
from interlace.study import simulator_speed
from study_helpers import Run

TINY = Sizes(
    jacobi_rows=1 << 11, pagerank_rows=1024, sssp_pages=1024, als_vertices=128, ct_size=32,
    eqwp_size=16, diffusion_size=16, hit_size=12,
)  # fmt: skip


def test_a_row_for_every_workload(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("interlace._core")
    monkeypatch.setattr(bench_simulator, "workloads", lambda: workloads(TINY))
    monkeypatch.setattr(simulator_speed, "LONG_ACCESSES", 20_000)
    monkeypatch.setattr(simulator_speed, "STORED", 1024)
    out = tmp_path / "out.json"
    ran = run("bench", "simulator", "--repeats", 1, "--long", "--json", out)
    assert ran.code == 0, ran.err
    document = json.loads(out.read_text())
    assert [row["workload"] for row in document["rows"]] == list(workloads(TINY))
    for row in document["rows"]:
        assert row["accesses"] > 0
        assert row["accesses_per_s"] == row["accesses"] / row["cpu_s"]
        assert row["remote_transactions_per_s"] == row["remote_transactions"] / row["cpu_s"]
    rates = [row["accesses_per_s"] for row in document["rows"]]
    assert document["accesses_per_s"] == pytest.approx(statistics.geometric_mean(rates))
    assert document["long"]["accesses"] >= 20_000
    stores = document["stores"]
    stored = 2 * stores["gpus"] * (stores["gpus"] - 1) * stores["elements"]
    assert 0.9 * stored < stores["remote_transactions"] <= stored
    assert stores["remote_transactions_per_s"] == stores["remote_transactions"] / stores["cpu_s"]
    assert "Geometric means" in ran.out


def test_more_threads_than_a_machine_has(run: Run) -> None:
    for threads in (1025, 1 << 32):
        ran = run("bench", "simulator", "--threads", threads)
        assert ran.code == 2
        assert ran.err == f"interlace: --threads {threads}: give a number of at most 1024\n"
