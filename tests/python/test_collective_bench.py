"""Tests `interlace bench collective` with fake GPUs: methods, rows, files and refusals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fake_core import FakeCuda
from study_helpers import Run

SMALL = ("--begin", "1M", "--end", "4M", "-n", "3", "-w", "1")
MIB = 1 << 20


def test_the_table_and_the_file(cuda: FakeCuda, run: Run, tmp_path: Path) -> None:
    cuda.nccl = "2.28.9"
    file = tmp_path / "collectives.json"
    ran = run("bench", "collective", *SMALL, "--json", file)
    assert ran.code == 0, ran.err
    assert "collectives of 4 GPUs, measured on 4x" in ran.out
    assert "All bytes right." in ran.out
    methods = ["memcpy", "auto", "nccl"]
    assert cuda.collectives == [
        (pattern, 4, size, methods[1:] if pattern == "all-reduce" else methods, 1, 3)
        for pattern in ("all-gather", "all-to-all", "all-reduce")
        for size in (MIB, 4 * MIB)
    ]
    found = json.loads(file.read_text())
    assert found["benchmark"] == "collective"
    assert found["machine"]["nccl"] == "2.28.9"
    assert [row["method"] for row in found["rows"]] == methods * 4 + methods[1:] * 2
    first = found["rows"][0]
    assert first["messages"] == 12
    # The rate of each GPU as in nccl-tests: three blocks at 350 GB/s.
    assert first["gb_per_s"] / 4 == pytest.approx(350)
    assert "350.00" in ran.out
    last = found["rows"][-1]
    assert last["messages"] == 24  # each GPU sends three blocks, followed by three sums
    assert last["speedup"] is None  # plain copies cannot add, so there is no speedup over them
    assert "all-reduce: sums of float32; each GPU has 4 blocks" in ran.out


def test_nccl_is_left_out_where_there_is_none(cuda: FakeCuda, run: Run) -> None:
    ran = run("bench", "collective", *SMALL, "--patterns", "all-gather", "--gpus", "2")
    assert ran.code == 0, ran.err
    assert [(call[1], call[3]) for call in cuda.collectives] == [(2, ["memcpy", "auto"])] * 2
    assert "NCCL cannot be loaded (tried libnccl.so.2)." in ran.out
    named = run("bench", "collective", *SMALL, "--methods", "nccl,graphs")
    assert named.code == 2
    assert "--methods nccl" in named.err
    assert "NCCL cannot be loaded" in named.err


def test_wrong_bytes_are_counted_and_end_it(cuda: FakeCuda, run: Run) -> None:
    cuda.wrong_bytes = {"graphs": 11}
    words = ("--methods", "memcpy,graphs", "--patterns", "all-to-all")
    ran = run("bench", "collective", *SMALL, *words)
    assert ran.code == 1
    assert "22 bytes wrong." in ran.out


def test_a_gpu_that_fails(cuda: FakeCuda, run: Run, tmp_path: Path) -> None:
    cuda.crash = "auto"
    file = tmp_path / "collectives.json"
    ran = run("bench", "collective", *SMALL, "--json", file)
    assert ran.code == 1
    assert "all-gather of 1" in ran.err
    assert not file.exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--patterns", "reduce"), "there is no collective 'reduce'"),
        (
            ("--methods", "memcpy", "--patterns", "all-reduce"),
            "--methods memcpy: plain copies cannot make an all-reduce",
        ),
        (
            ("-b", "1001", "--patterns", "all-reduce"),
            "--begin 1001: the blocks of an all-reduce must have a multiple of 4 bytes",
        ),
        (("--methods", "mpi"), "there is no method 'mpi'"),
        (("--gpus", "1"), "--gpus 1: give a number of at least 2"),
        (("--gpus", "5"), "--gpus 5: 4x"),
        (("-b", "8M", "-e", "4M"), "--begin 8M is more than --end 4M"),
        (("-n", "0"), "--repeats 0"),
        (("--json", "/nowhere/x.json"), "--json /nowhere/x.json"),
    ],
)
def test_what_cannot_be_asked_for(
    cuda: FakeCuda, run: Run, words: tuple[str, ...], message: str
) -> None:
    ran = run("bench", "collective", *words)
    assert ran.code == 2
    assert message in ran.err
    assert ran.err.count("\n") == 1
    assert cuda.collectives == []
