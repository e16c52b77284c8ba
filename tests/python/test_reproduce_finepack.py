"""`interlace reproduce finepack`: its rows against what its runs say, on tiny inputs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from interlace.reproduce import finepack
from interlace.reproduce import finepack_inputs as given
from interlace.reproduce.finepack_inputs import Sizes
from interlace.workloads import WORKLOADS
from study_helpers import Run

TINY = Sizes(
    jacobi_rows=4096, pagerank_rows=2048, sssp_pages=2048, als_vertices=128, ct_size=32,
    eqwp_size=16, diffusion_size=16, hit_size=16,
)  # fmt: skip
NEEDED = (
    "vs-inline", "vs-bulk-copy", "vs-one-gpu", "bulk-copy-vs-inline", "bytes-vs-inline",
    "bytes-vs-bulk-copy", "bytes-vs-write-combining", "stores-per-packet", "stores-under-32B",
    "best-subheader", "vs-gps", "vs-config-packet", "16-vs-inline", "16-vs-bulk-copy",
)  # fmt: skip


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch, in_this_process: None) -> None:  # noqa: ARG001
    """Tiny inputs of three workloads, and work in this process."""
    pytest.importorskip("interlace._core")
    for name in ("FOUR_GPUS", "SIXTEEN_GPUS", "QUICK_FOUR_GPUS", "QUICK_SIXTEEN_GPUS"):
        monkeypatch.setattr(given, name, TINY)
    monkeypatch.setattr(given, "ANGLES", 4)
    kept = {name: finepack.LOADED[name] for name in ("jacobi", "pagerank", "hit")}
    monkeypatch.setattr(finepack, "LOADED", kept)


@pytest.fixture
def document(run: Run, tmp_path: Path) -> dict[str, Any]:
    file = tmp_path / "figures.json"
    ran = run("reproduce", "finepack", "--quick", "--json", file)
    assert ran.code == 0, ran.err
    read: dict[str, Any] = json.loads(file.read_text())
    return read


def rows_of(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    rows = {one["key"]: one for one in document["rows"]}
    assert len(rows) == len(document["rows"])  # keys are unique
    return rows


def test_rows_follow_from_the_runs(document: dict[str, Any]) -> None:
    rows = rows_of(document)
    assert set(NEEDED) <= set(rows)
    for key in NEEDED:
        assert rows[key]["published"] is not None
        assert rows[key]["simulated"] > 0
    times = {
        (one["workload"], one["gpus"], one["mechanism"]): one["time_s"]
        for one in document["runs"]
        if one["machine"] == finepack.MACHINE
    }
    assert all(one["max_error"] is not None for one in document["runs"])
    product = 1.0
    for name in finepack.LOADED:
        single = times[name, 1, "bulk-copy"]
        ours = rows[f"speedup-finepack-{name}"]["simulated"]
        assert ours == pytest.approx(single / times[name, 4, "finepack"])
        product *= times[name, 4, "inline"] / times[name, 4, "finepack"]
        kinds = ("useful", "protocol", "wasted")
        shares = [rows[f"bytes-{kind}-bulk-copy-{name}"]["simulated"] for kind in kinds]
        assert sum(shares) == pytest.approx(1)
    assert rows["vs-inline"]["simulated"] == pytest.approx(product ** (1 / len(finepack.LOADED)))


def test_a_machine_has_other_subheaders() -> None:
    name, described = finepack.subheader_machine(3)
    assert described.gpu.remote_write_queue.subheader_bytes == 3
    assert "3 B" in name


def test_the_workloads_are_those_of_the_paper(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert set(finepack.LOADED) == set(WORKLOADS) - {"halo-jacobi"}  # of the multi-path paper


@pytest.mark.parametrize("name", sorted(finepack.LOADED))
def test_every_workload_loads(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    workload = finepack.LOADED[name](TINY)
    assert workload.name == name
    assert workload.iterations == given.ITERATIONS


def test_storage_contradicts_the_paper_on_four_gpus_alone() -> None:
    rows = {one.key: one for one in finepack._storage()}
    assert rows["queue-KiB-4"].simulated == 24
    assert not rows["queue-KiB-4"].possible
    assert rows["queue-KiB-16"].ratio == 1
