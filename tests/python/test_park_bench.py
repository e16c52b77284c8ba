"""Tests `interlace bench park` without GPUs: its measurements, its output and its results file."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from interlace.model.mechanisms import GIB, MIB
from interlace.model.run import RunFailure
from interlace.study import park_bench
from study_helpers import Run


@pytest.mark.parametrize("most", [64 * MIB, GIB, 16 * GIB, 60 * GIB])
def test_the_tensors_fill_what_they_may(most: int) -> None:
    found = park_bench.sizes(most)
    assert all(size > 0 and size % 8 == 0 for size in found)
    assert most - park_bench.LEAST_BYTES < sum(found) <= most or most <= park_bench.LEAST_BYTES


def row(method: str) -> dict[str, Any]:
    return {
        "method": method,
        "bytes": 4000,
        "allocations": 2,
        "first_park_s": 1.0,
        "first_resume_s": 1.0,
        "park_s": [0.5, 0.25, 0.5],
        "resume_s": [0.5, 0.25, 0.5],
        "first_park_gb_per_s": 4e-6,
        "park_gb_per_s": 8e-6 if method == "interlace" else 2e-6,
        "resume_gb_per_s": 8e-6,
        "freed_bytes": 4000,
        "wrong": 0 if method == "interlace" else 1,
    }


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A stand-in for PyTorch. These tests do not use its GPU."""
    made: Any = ModuleType("torch")
    made.__version__ = "0"
    made.__spec__ = importlib.util.spec_from_loader("torch", None)
    made.cuda = SimpleNamespace(is_available=lambda: True, device_count=lambda: 1)
    monkeypatch.setitem(sys.modules, "torch", made)
    return made  # type: ignore[no-any-return]


@pytest.mark.usefixtures("torch")
def test_the_file_and_the_table(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def measured(method: str, most: int, repeats: int, seconds: float | None) -> dict[str, Any]:
        assert (most, seconds) == (64 * MIB, None)
        calls.append((method, repeats))
        found = row(method)
        if method == "interlace" and calls.count((method, 1)) == 1:
            found["first_park_s"] = 0.5
        if method == "interlace-prepared":
            found["prepare_s"] = 1.25
        return {"row": found, "link": [55.0, 54.0], "gpu": "1 x H9", "cuda": "13.0"}

    calls: list[tuple[str, int]] = []

    monkeypatch.setattr(park_bench, "_run_method", measured)
    out, html = tmp_path / "out.json", tmp_path / "out.html"
    ran = run("bench", "park", "-b", "64M", "-n", 3, "--json", out, "--html", html)
    assert ran.code == 0, ran.err
    text = html.read_text()
    assert "Parked memory, by method" in text
    assert '"name":"first park"' in text
    assert text.count("<tr") == 4  # one row for the header, and one for each method
    methods = ["interlace", "interlace-prepared", "cumem"]
    assert calls == [(methods[0], 3), (methods[0], 1), (methods[1], 3), (methods[2], 3)]
    document = json.loads(out.read_text())
    assert document["benchmark"] == "park"
    assert document["bytes"] == sum(park_bench.sizes(64 * MIB))
    assert document["link_to_host_gb_per_s"] == 55
    assert [one["method"] for one in document["rows"]] == methods
    assert [one["prepare_s"] for one in document["rows"]] == [None, 1.25, None]
    seconds = [one["second_process_first_park_s"] for one in document["rows"]]
    assert seconds == [0.5, None, None]
    assert document["left_out"] == {
        "interlace-gpu": "PyTorch finds one GPU",
        "torch_memory_saver": "it is not installed",
    }
    assert "torch_memory_saver is left out: it is not installed." in ran.out
    assert "2 tensors wrong." in ran.out
    assert "interlace: the first park of a second process took 0.500 s, 0.00 GB/s." in ran.out
    assert (
        "interlace-prepared: before the first park, prepare_park page-locked the memory in 1.250 s."
        in " ".join(ran.out.split())
    )
    assert re.search(r"^interlace +1\.0+ +0\.00 +0\.50* +", ran.out, re.MULTILINE)


@pytest.mark.usefixtures("torch")
def test_a_peer_that_fails_is_left_out(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def measured(method: str, _: int, repeats: int, __: float | None) -> dict[str, Any]:
        if method == "cumem" or repeats == 1:
            raise RunFailure(f"{method} ended with code 1: no memory")
        return {"row": row(method), "link": [55.0, 54.0], "gpu": "1 x H9", "cuda": "13.0"}

    monkeypatch.setattr(park_bench, "_run_method", measured)
    ran = run("bench", "park", "--methods", "interlace,cumem")
    assert ran.code == 0, ran.err
    assert "cumem is left out: cumem ended with code 1: no memory." in ran.out
    assert "interlace in a second process is left out: interlace ended with code 1" in ran.out
    ran = run("bench", "park", "--methods", "cumem")
    assert (ran.code, ran.err) == (1, "interlace: cumem: cumem ended with code 1: no memory\n")


def test_a_process_that_fails_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = SimpleNamespace(returncode=1, stdout="", stderr="Traceback\nRuntimeError: no GPU\n\n")
    monkeypatch.setattr("subprocess.run", lambda *_, **__: ended)
    with pytest.raises(RunFailure, match=r"^interlace ended with code 1: RuntimeError: no GPU$"):
        park_bench._run_method("interlace", GIB, 1, None)


def test_a_process_that_takes_too_long_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    words = [sys.executable, "-c", "import time; time.sleep(60)"]
    real = subprocess.run
    monkeypatch.setattr("subprocess.run", lambda _, **how: real(words, **how))
    with pytest.raises(RunFailure, match=r"^cumem took longer than the 1 s that were left$"):
        park_bench._run_method("cumem", GIB, 1, 0.6)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--methods", "a"], "--methods a: give some of interlace, interlace-prepared, "),
        (["--methods", "cumem,cumem"], "each at most once"),
        (["--bytes", "1M"], "--bytes"),
        (["--limit", "0"], "--limit 0"),
    ],
)
def test_bad_options(run: Run, words: list[str], sentence: str) -> None:
    ran = run("bench", "park", *words)
    assert ran.code == 2
    assert sentence in ran.err


def test_without_pytorch(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(park_bench, "find_spec", lambda _: None)
    ran = run("bench", "park")
    assert (ran.code, ran.err) == (
        2,
        "interlace: bench park needs PyTorch; install torch\n",
    )
