"""Tests `interlace calibrate --workloads`: its sizes, its file of measured workloads, and its
errors.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from fake_core import REAL, FakeCuda
from interlace.model.mechanisms import BASELINE
from interlace.study import workload_calibration
from interlace.study.workload_calibration import KEYS, LARGE, MEDIUM, MORE, SIZES, SMALL, Key
from study_helpers import REGION_WORKLOADS, Run

TINY = {
    "pagerank": {"rmat": 7},
    "sssp": {"rmat": 7},
    "jacobi": {"rows": 512},
    "als": {"users": 64, "items": 32, "ratings": 512},
    "ct": {"size": 16, "angles": 12},
    "diffusion": {"size": 16},
    "eqwp": {"size": 16},
    "hit": {"size": 16},
}


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the input of every size small."""
    for workload, options in TINY.items():
        monkeypatch.setitem(SIZES, workload, dict.fromkeys((SMALL, MEDIUM, LARGE), options))


def measured(tmp_path: Path, rows: list[Any], **more: Any) -> Path:
    path = tmp_path / "measured.json"
    head = {
        "format": 1, "benchmark": "workloads", "machine": "test", "driver": "1", "cuda": "13.0",
        "date": "2026-01-01", "method": "none",
    }  # fmt: skip
    path.write_text(json.dumps({**head, **more, "rows": rows}))
    return path


def row(key: Key, iteration_s: float = 1e-5) -> dict[str, Any]:
    return {"workload": key.workload, "size": key.size, "iteration_s": iteration_s}


def test_every_workload_of_one_region_is_compared() -> None:
    # halo-jacobi is a benchmark of messages.
    assert set(SIZES) == set(REGION_WORKLOADS) - {"halo-jacobi"}
    assert len(KEYS) == 3 * len(SIZES)


def test_the_simulated_time_is_of_a_warm_iteration(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("interlace._core")
    keys = [Key(workload, SMALL) for workload in SIZES]
    out = tmp_path / "out.json"
    file = measured(tmp_path, [row(key) for key in keys])
    ran = run("calibrate", "--workloads", "--measured", file, "--json", out, "--jobs", 1)
    assert ran.code == 0, ran.err
    document = json.loads(out.read_text())
    assert [found["workload"] for found in document["rows"]] == list(SIZES)
    for found in document["rows"]:
        assert found["ratio"] == pytest.approx(found["simulated_s"] / 1e-5)
        assert 1e-6 < found["simulated_s"] < 1e-3
        assert found["options"] == TINY[found["workload"]]
        assert 0 < found["kernel"] <= 1
    errors = [abs(found["ratio"] - 1) for found in document["rows"]]
    assert document["mean_error"] == pytest.approx(sum(errors) / len(errors))
    assert document["worst_error"] == max(errors)
    missing = {(it["workload"], it["size"]): it["reason"] for it in document["not_compared"]}
    assert missing == {key: "not measured" for key in KEYS if key.size != SMALL}
    assert f"Mean error {100 * document['mean_error']:.1f} %" in ran.out


def test_blocks_are_cut_as_on_the_gpu() -> None:
    core = pytest.importorskip("interlace._core")
    from interlace.machine.compiled import to_core
    from interlace.machine.reading import load_machine

    machine = to_core(load_machine("hgx-h200-4"), core)
    for name in ("pagerank", "ct"):
        workload = workload_calibration.load(Key(name, SMALL))
        simulate = [
            workload.simulate(core, machine, workload_calibration.CASE, cut_like_gpus=cut)
            for cut in (False, True)
        ]
        for found in simulate:
            workload.verify(found)
        assert simulate[0].time_s != simulate[1].time_s


def test_measured_times_are_differences(
    run: Run, tmp_path: Path, cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("interlace._core")
    monkeypatch.setitem(sys.modules, "interlace._core", REAL)
    keys = (Key("jacobi", SMALL), Key("pagerank", SMALL))
    monkeypatch.setattr(workload_calibration, "KEYS", keys)
    saved = tmp_path / "saved.json"
    ran = run("calibrate", "--workloads", "--save-measured", saved, "--jobs", 1)
    assert ran.code == 0, ran.err
    given = workload_calibration.read_measured(saved)
    assert given.format == 2
    assert given.command is not None
    assert given.command.startswith("interlace calibrate --workloads ")
    assert tuple(it.key for it in given.rows) == keys
    assert all(it.iteration_s > 0 for it in given.rows)
    assert [call[3] for call in cuda.calls] == [workload_calibration.FEWER, MORE] * 2


def test_a_wrong_measured_result_has_no_row(
    run: Run, cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("interlace._core")
    monkeypatch.setitem(sys.modules, "interlace._core", REAL)
    monkeypatch.setattr(workload_calibration, "KEYS", (Key("jacobi", SMALL),))
    cuda.wrong = (BASELINE, 1, 0, 500)
    ran = run("calibrate", "--workloads", "--jobs", 1)
    assert ran.code == 2
    assert "no workload can be measured here: failed: verification failed" in ran.err


@pytest.mark.parametrize(
    ("rows", "more", "said"),
    [
        ([], {}, "has no rows"),
        ([row(Key("jacobi", "huge"))], {}, "there is no row 'jacobi, huge'"),
        ([row(KEYS[0]), row(KEYS[0])], {}, "occurs twice"),
        ([row(KEYS[0], 0.0)], {}, "is not above 0"),
        ([row(KEYS[0])], {"format": 3}, "format is 3; it must be 1 or 2"),
        ([row(KEYS[0])], {"format": 2}, "names no command that measured it"),
        ([row(KEYS[0])], {"more": 1}, "is not a file of measured workloads"),
    ],
)
def test_wrong_files(run: Run, tmp_path: Path, rows: Any, more: Any, said: str) -> None:
    ran = run("calibrate", "--workloads", "--measured", measured(tmp_path, rows, **more))
    assert ran.code == 2
    assert said in ran.err
