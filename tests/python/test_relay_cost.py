"""Tests `interlace bench copy --beside-kernels` on fake GPUs: relays, rows, files and refusals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fake_core import FakeCuda
from interlace.study.relay_cost import longer_percent
from study_helpers import Run

MIB = 1 << 20
WORDS = ("--beside-kernels", "-b", "256K", "-e", "4M", "-f", "16", "-n", "3", "-w", "1")


def test_the_table_and_the_file(cuda: FakeCuda, run: Run, tmp_path: Path) -> None:
    file = tmp_path / "cost.json"
    ran = run("bench", "copy", *WORDS, "--json", file)
    assert ran.code == 0, ran.err
    method = "INTERLACE_COPY=auto INTERLACE_COPY_RELAYS=gpu1,gpu2"
    assert cuda.relay_costs == [
        (size, 0, method, [1, 2, 3], 0.1, 1, 3) for size in (MIB // 4, 4 * MIB)
    ]
    assert cuda.copies == []
    found = json.loads(file.read_text())
    assert found["benchmark"] == "relay-cost"
    assert found["window_s"] == 0.1
    small, large = found["rows"]
    assert (small["relayed"], large["relayed"]) == (False, True)
    assert large["slowdown_percent"] == pytest.approx(25)
    assert [(one["gpu"], one["relays"]) for one in large["kernels"]] == [
        (1, True),
        (2, True),
        (3, False),
    ]
    slower = [one["slowdown_percent"] for one in large["kernels"]]
    assert slower == pytest.approx([25, 25, 0])
    assert "kernel, GPU 3 does not relay" in ran.out
    assert "Messages of 256 KiB went as one plain copy, so no GPU relayed them." in ran.out
    assert "All bytes right." in ran.out


@given(st.lists(st.floats(1e-6, 1), min_size=1, max_size=9), st.floats(0.5, 4))
def test_slow_downs(times: list[float], factor: float) -> None:
    longer = longer_percent(times, [factor * one for one in times])
    assert longer == pytest.approx(100 * (factor - 1), abs=1e-6)


def test_wrong_bytes_and_failures_end_it(cuda: FakeCuda, run: Run, tmp_path: Path) -> None:
    cuda.wrong_bytes = {"relay": 7}
    ran = run("bench", "copy", *WORDS)
    assert ran.code == 1
    assert "14 bytes wrong." in ran.out
    cuda.crash = "relay"
    file = tmp_path / "cost.json"
    ran = run("bench", "copy", *WORDS, "--json", file)
    assert ran.code == 1
    assert "messages of 256" in ran.err
    assert not file.exists()


@pytest.mark.parametrize(
    "words", [("--patterns", "h2d"), ("--methods", "auto"), ("--window", "2"), ("--osu",)]
)
def test_what_it_does_not_go_with(cuda: FakeCuda, run: Run, words: tuple[str, ...]) -> None:
    ran = run("bench", "copy", *WORDS, *words)
    assert ran.code == 2
    assert "--beside-kernels has only one pattern and one method" in ran.err
    assert cuda.relay_costs == []


def test_two_gpus_are_too_few(cuda: FakeCuda, run: Run) -> None:
    cuda.gpus = 2
    ran = run("bench", "copy", *WORDS)
    assert ran.code == 2
    assert "--beside-kernels needs at least 3 GPUs" in ran.err
