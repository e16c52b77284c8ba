"""Tests `interlace reproduce finepack` on tiny inputs: its rows must match its runs."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, cast

import pytest

from interlace.model.mechanism_table import BULK_COPY, FINEPACK, INLINE
from interlace.model.run import Outcome
from interlace.reproduce import finepack, finepack_described
from interlace.reproduce import finepack_experiments as experiments
from interlace.reproduce import finepack_inputs as given
from interlace.reproduce.finepack_inputs import Sizes
from interlace.reproduce.runs import Results
from study_helpers import REGION_WORKLOADS, Run

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
    """Use tiny inputs for four workloads, and do the work in this process."""
    pytest.importorskip("interlace._core")
    for name in ("FOUR_GPUS", "SIXTEEN_GPUS", "QUICK_FOUR_GPUS", "QUICK_SIXTEEN_GPUS"):
        monkeypatch.setattr(given, name, TINY)
    monkeypatch.setattr(given, "ANGLES", 4)
    kept = {name: finepack.LOADED[name] for name in ("jacobi", "pagerank", "als", "hit")}
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
    assert len(rows) == len(document["rows"])  # all keys are different
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
    assert len(document["runs"]) == finepack.steps(True, None)
    product = 1.0
    for name in finepack.LOADED:
        single = times[name, 1, BULK_COPY]
        ours = rows[f"speedup-finepack-{name}"]["simulated"]
        assert ours == pytest.approx(single / times[name, 4, FINEPACK])
        product *= times[name, 4, INLINE] / times[name, 4, FINEPACK]
        kinds = ("useful", "protocol", "wasted")
        shares = [rows[f"bytes-{kind}-bulk-copy-{name}"]["simulated"] for kind in kinds]
        assert sum(shares) == pytest.approx(1)
    assert rows["vs-inline"]["simulated"] == pytest.approx(product ** (1 / len(finepack.LOADED)))
    check_programs_as_described(rows)
    check_counters(rows)
    check_experiments(document, rows)


def check_counters(rows: dict[str, dict[str, Any]]) -> None:
    counts = []
    for name in finepack.LOADED:
        shares = [rows[f"flushes-{why}-{name}"]["simulated"] for why in finepack.REASONS]
        assert sum(shares) == pytest.approx(1)
        counts.append(rows[f"stores-per-packet-{name}"]["simulated"])
        for key in ("gps-line-filled", "issue-one-gpu", "memory-one-gpu"):
            assert 0 < rows[f"{key}-{name}"]["simulated"] <= 1
        assert 0 <= rows[f"waits-for-others-{name}"]["simulated"] < 1
    assert rows["stores-per-packet-median"]["simulated"] == pytest.approx(
        sum(sorted(counts)[1:3]) / 2
    )
    product = math.prod(counts) ** (1 / len(counts))
    assert rows["stores-per-packet-geometric-mean"]["simulated"] == pytest.approx(product)
    gains = [rows[f"vs-gps-{name}"]["simulated"] for name in finepack.LOADED]
    assert rows["vs-gps"]["simulated"] == pytest.approx(math.prod(gains) ** (1 / len(gains)))


def check_experiments(document: dict[str, Any], rows: dict[str, dict[str, Any]]) -> None:
    names = tuple(finepack.LOADED)
    for which, keys in experiments.SHOWN.items():
        for key in keys:
            assert rows[f"{key}-{which}"]["published"] == rows[key]["published"]
            assert rows[f"{key}-{which}"]["note"] == experiments.NOTES[which]
    plain = {name: rows[f"speedup-inline-{name}"]["simulated"] for name in names}
    packed = {name: rows[f"speedup-finepack-{name}"]["simulated"] for name in names}
    varied = {
        "lane-by-lane": {"hit": "lane-by-lane"},
        "to-all": {"als": "to-all"},
        "both": {"hit": "lane-by-lane", "als": "to-all"},
        "whole-lines": {"pagerank": "whole-lines", "als": "whole-lines"},
        "whole-lines-to-all": {"pagerank": "whole-lines", "als": "whole-lines-to-all"},
    }
    for which, changed in varied.items():
        product = 1.0
        for name in names:
            suffix = f"{name}-{changed[name]}" if name in changed else name
            product *= rows[f"speedup-finepack-{suffix}"]["simulated"]
            product /= rows[f"speedup-inline-{suffix}"]["simulated"]
        assert rows[f"vs-inline-{which}"]["simulated"] == pytest.approx(product ** (1 / len(names)))
    # The elements are complex numbers of 8 bytes. Each element has its own packet, whose other
    # parts take 26 bytes.
    assert rows["speedup-inline-hit-lane-by-lane"]["simulated"] < plain["hit"]
    assert (
        rows["stores-per-packet-hit-lane-by-lane"]["simulated"]
        > (rows["stores-per-packet-hit"]["simulated"])
    )
    assert rows["stores-under-32B-lane-by-lane"]["simulated"] == pytest.approx(
        rows["stores-under-32B"]["simulated"] + (1 - rows["stores-under-32B-hit"]["simulated"]) / 4
    )
    of_lanes = {
        one["mechanism"]: one["time_s"]
        for one in document["runs"]
        if one["machine"] == experiments.lane_machine(finepack.SIXTEEN)[0]
    }
    assert rows["16-vs-inline-hit-lane-by-lane"]["simulated"] == pytest.approx(
        of_lanes[INLINE] / of_lanes[FINEPACK]
    )
    # A line has 128 bytes, and a factor has 64. A packet holds 4 KiB.
    assert 1 < rows["stores-per-packet-pagerank-whole-lines"]["simulated"] < 64
    assert 1 < rows["stores-per-packet-als-whole-lines-to-all"]["simulated"] <= 4096 / 64
    assert rows["speedup-inline-als-to-all"]["simulated"] < plain["als"]
    assert rows["speedup-finepack-als-to-all"]["simulated"] < packed["als"]
    times = {
        (one["workload"], one["gpus"]): one["time_s"]
        for one in document["runs"]
        if one["machine"] == finepack.SIXTEEN
        and (one["gpus"], one["mechanism"]) in ((1, BULK_COPY), experiments.TWICE[:2])
    }
    for name in names:
        assert rows[f"opportunity-{name}-twice-the-size"]["simulated"] == pytest.approx(
            times[name, 1] / times[name, 4]
        )


def test_stores_leave_by_lanes_on_a_machine_of_its_own() -> None:
    name, described = experiments.lane_machine(finepack.MACHINE)
    assert described.gpu.remote_store_bytes == 4
    assert name != finepack.MACHINE


def test_what_an_experiment_did_not_run_stays() -> None:
    kept, old, new = (cast("Outcome", object()) for _ in range(3))
    single, other = finepack.SINGLE, experiments.TWICE
    own, varied = Results(), Results()
    own.outcomes = {single: kept, other: old}
    varied.outcomes = {other: new}
    assert experiments.replaced(own, None, varied).outcomes == {single: kept, other: new}
    assert experiments.replaced(own, None).outcomes == own.outcomes == {single: kept, other: old}


def test_a_machine_has_other_subheaders() -> None:
    name, described = finepack.subheader_machine(3)
    assert described.gpu.remote_write_queue.subheader_bytes == 3
    assert "3 B" in name


def test_the_workloads_are_those_of_the_paper(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    # The reproduction of multi-path uses halo-jacobi.
    assert set(finepack.LOADED) == set(REGION_WORKLOADS) - {"halo-jacobi"}


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


@pytest.mark.parametrize(
    ("name", "kernel", "over_one_gpu", "under_32", "expected"),
    [
        ("jacobi", "own", 3.9, 0.0, True),
        ("jacobi", "own", 3.9, 0.1, False),
        ("diffusion", "own", 0.9, 0.0, False),
        ("als", "own", 0.9, 1.0, False),  # ALS sends values only to their readers
        ("als", "to-all", 0.9, 1.0, True),
        ("sssp", "whole-lines-to-all", 1.1, 0.0, False),
        ("ct", "own", 0.6, 0.0, False),
        ("ct", "lane-by-lane", 0.6, 1.0, True),
        ("eqwp", "own", 2.3, 0.0, False),
        ("hit", "own", 0.9, 0.3, True),
    ],
)
def test_the_description_decides(
    name: str, kernel: str, over_one_gpu: float, under_32: float, expected: bool
) -> None:
    assert finepack_described.fits(name, kernel, over_one_gpu, under_32) == expected


def check_programs_as_described(rows: dict[str, dict[str, Any]]) -> None:
    for name in finepack.LOADED:
        kernels = [
            kernel
            for kernel in finepack_described.KERNELS
            if f"described-stores-{name}-{kernel}" in rows
        ]
        fitting = [
            kernel
            for kernel in kernels
            if finepack_described.fits(
                name,
                kernel,
                rows[f"described-stores-{name}-{kernel}"]["simulated"],
                rows[f"described-under-32B-{name}-{kernel}"]["simulated"],
            )
        ]
        shown = rows[f"described-kernel-{name}"]["simulated"]
        assert shown == (fitting[0] if fitting else "none; own")
        assert rows[f"described-receivers-{name}"]["published"]
    assert rows["vs-inline-as-described"]["published"] == rows["vs-inline"]["published"]
