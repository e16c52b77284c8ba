"""Tests `interlace tune copy`: its picks, its file and its output.

The tests run the compiled search, not a fake.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import fake_core
from fake_core import FakeCuda
from interlace.base.errors import UserError
from interlace.tuning import copy_tuning, profiles
from interlace.tuning.copy_tuning import default_path, method_of, path_sets
from interlace.tuning.profiles import Machine
from interlace.tuning.search import Candidate
from study_helpers import Run

pytest.importorskip("interlace._core")

FEW = ("-b", "64K", "-e", "64M", "-f", "8")


def document(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def test_the_profile_has_what_was_fastest(cuda: FakeCuda, run: Run, tmp_path: Path) -> None:
    file = tmp_path / "profile.json"
    ran = run("tune", "copy", *FEW, "--out", file)
    assert ran.code == 0, ran.err
    found = document(file)
    assert found["kind"] == "interlace copy profile"
    assert found["format"] == 1
    assert found["machine"]["model"] == "Fake H200"
    assert found["machine"]["driver"] == "580.1"
    for direction, (source, target) in copy_tuning.PAIRS.items():
        one = found["directions"][direction]
        sizes = [measured["bytes"] for measured in one["measured"]]
        assert sizes == [64 << 10, 512 << 10, 4 << 20, 32 << 20]
        chosen = {each["bytes"]: each for each in one["classes"]}
        for measured in one["measured"]:
            size, tried = measured["bytes"], measured["search"]["candidates"]
            sampled = [it for it in tried if it["samples"]]
            plain = next(it for it in sampled if it["mechanism"] == "direct")
            fastest = min(
                cuda.copy_time_s(
                    [(source, target)],
                    size,
                    method_of(Candidate(it["mechanism"], it["parameters"]), 4),
                )
                for it in tried
            )
            pick = chosen.get(size)
            assert (pick is None) == (size < (one["threshold_bytes"] or 1 << 60))
            picked_s = plain["median_s"] if pick is None else pick["median_s"]
            assert picked_s <= 1.03 * fastest * 1.002
            if pick is not None:
                assert pick["direct_s"] == plain["median_s"]
                assert (pick["paths"] == "direct") == (pick["chunks"] == 0)
    to_gpu = found["directions"]["host-to-gpu"]["classes"]
    assert to_gpu[-1]["paths"] == "gpus"
    assert to_gpu[-1]["executor"] == "graphs"
    assert "host" in found["directions"]["gpu-to-gpu"]["classes"][-1]["paths"]
    for text in ("host-to-gpu", "gain", "graphs", "all bytes right", str(file)):
        assert text in ran.out


def test_the_engine_reads_what_is_written(cuda: FakeCuda, run: Run, tmp_path: Path) -> None:  # noqa: ARG001
    core = fake_core.REAL
    file = tmp_path / "profile.json"
    assert run("tune", "copy", *FEW, "--out", file).code == 0
    for direction, one in document(file)["directions"].items():
        least = one["threshold_bytes"]
        text = file.read_text()
        assert core.copy_choice(text, str(file), direction, least - 1) == ("direct", 0, "auto")
        for each in one["classes"]:
            wanted = (each["paths"], each["chunks"], each["executor"])
            for size in (each["bytes"], each["bytes"] + 1, 2 * each["bytes"] - 1):
                assert core.copy_choice(text, str(file), direction, size) == wanted
    cut = file.read_text()[:-3]
    with pytest.raises(UserError, match="make it anew with interlace tune copy"):
        core.copy_choice(cut, str(file), "gpu-to-gpu", 1)


def test_every_sample_is_kept(cuda: FakeCuda, run: Run, tmp_path: Path) -> None:
    file = tmp_path / "profile.json"
    words = ("-b", "4M", "-e", "4M", "--directions", "gpu-to-gpu", "-n", "3", "-w", "1")
    assert run("tune", "copy", *words, "-o", file).code == 0
    kept = [
        sample
        for it in document(file)["directions"]["gpu-to-gpu"]["measured"][0]["search"]["candidates"]
        for one in it["samples"]
        for sample in one["times_s"]
    ]
    measured = sum(len(methods) * repeats for _, _, methods, _, repeats in cuda.copies)
    assert len(kept) == measured
    assert {request[0][0] for request in cuda.copies} == {(0, 1)}
    assert {request[3] for request in cuda.copies} == {1}
    other = document(file)["directions"]["host-to-gpu"]
    assert other == {"threshold_bytes": None, "classes": [], "measured": []}


def test_nothing_is_faster_than_one_plain_copy(
    cuda: FakeCuda, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        cuda, "copy_time_s", lambda _, size, method: size * (1e-9 if method == "memcpy" else 2e-9)
    )
    file = tmp_path / "profile.json"
    assert run("tune", "copy", *FEW, "--directions", "host-to-gpu", "-o", file).code == 0
    assert document(file)["directions"]["host-to-gpu"]["classes"] == []
    assert document(file)["directions"]["host-to-gpu"]["threshold_bytes"] is None


def test_it_goes_where_the_engine_looks(cuda: FakeCuda, run: Run) -> None:  # noqa: ARG001
    ran = run("tune", "copy", "-b", "1M", "-e", "1M")
    assert ran.code == 0, ran.err
    path = profiles.folder() / "copy-fake-h200.json"
    assert path.is_file()
    assert str(path) in ran.out


@pytest.mark.parametrize(
    ("model", "word"),
    [
        ("NVIDIA H200", "nvidia-h200"),
        ("-A (1.5)_-x. ", "a-1.5-x"),  # copy_profile_test.cpp has the same case
        ("x" * 50, "x" * 40),
    ],
)
def test_names_of_files(model: str, word: str) -> None:
    machine = Machine("cuda", "name", 4, model, "580", "13.0", None)
    assert default_path(machine).name == f"copy-{word}.json"


@pytest.mark.parametrize(
    ("direction", "gpus", "sets"),
    [
        ("host-to-gpu", 2, ["gpus"]),
        ("gpu-to-host", 4, ["gpus"]),
        ("gpu-to-gpu", 2, ["host"]),
        ("gpu-to-gpu", 4, ["gpus", "host", "gpus+host"]),
    ],
)
def test_path_sets(direction: str, gpus: int, sets: list[str]) -> None:
    assert path_sets(direction, gpus) == sets


def test_settings_of_candidates() -> None:
    assert method_of(Candidate("direct", {}), 4) == "memcpy"
    words = method_of(Candidate("graphs gpus+host", {"chunks": 8}), 3).split()
    assert "INTERLACE_COPY=graphs" in words
    assert "INTERLACE_COPY_RELAYS=gpu0,gpu1,gpu2,host" in words
    core = pytest.importorskip("interlace._core")
    core.check_copy_settings(dict(word.split("=") for word in words))


def test_wrong_bytes_end_it(cuda: FakeCuda, run: Run, tmp_path: Path) -> None:
    candidate = Candidate("streams gpus", {"chunks": 1})
    cuda.wrong_bytes = {method_of(candidate, 4): 7}
    ran = run("tune", "copy", "-b", "1M", "-e", "1M", "-o", tmp_path / "p.json")
    assert ran.code == 1
    assert re.search(r"host-to-gpu of 1 MiB: 7 bytes are wrong by gpus, streams, 1 ch", ran.err)
    assert not (tmp_path / "p.json").exists()


def test_a_gpu_that_fails_ends_it(cuda: FakeCuda, run: Run, tmp_path: Path) -> None:
    cuda.crash = "memcpy"
    ran = run("tune", "copy", "-b", "1M", "-e", "1M", "-o", tmp_path / "p.json")
    assert ran.code == 1
    assert "CUDA_ERROR_UNKNOWN" in ran.err
    assert not (tmp_path / "p.json").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--directions", "up"), "there is no direction 'up'"),
        (("-b", "2M", "-e", "1M"), "--begin 2M is more than --end 1M"),
        (("--factor", "1"), "--factor 1"),
        (("--repeats", "many"), "--repeats 'many'"),
        (("--out", "/nowhere/p.json"), "--out /nowhere/p.json"),
        (("--machine", "dgx-2"), "--machine"),
    ],
)
def test_what_cannot_be_asked_for(
    cuda: FakeCuda, run: Run, words: tuple[str, ...], message: str
) -> None:
    ran = run("tune", "copy", *words)
    assert ran.code == 2
    assert message in ran.err
    assert ran.err.count("\n") == 1
    assert cuda.copies == []


def test_one_gpu_and_none(cuda: FakeCuda, run: Run) -> None:
    cuda.gpus = 1
    ran = run("tune", "copy")
    assert ran.code == 2
    assert "needs at least 2 GPUs" in ran.err
    cuda.gpus = 0
    assert run("tune", "copy").code == 2


def test_workloads_are_tuned_as_before(cuda: FakeCuda, run: Run) -> None:  # noqa: ARG001
    ran = run("tune", "copies")
    assert ran.code == 2
    assert "there is no workload 'copies'" in ran.err
    assert "WORKLOAD" in run("tune", "--help").out
    assert "--directions" in run("tune", "copy", "--help").out
