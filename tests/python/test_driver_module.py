"""Tests copies, `load` and `save` on GPUs, with only a driver.

The tests use the installed package with the stand-in driver. The GPUs of this driver are host
memory. The tests need no CUDA runtime and no nvcc.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from interlace.base import native
from interlace.base.errors import UserError
from interlace.base.installation import installed
from interlace.runtime import copying

HERE = Path(__file__).resolve().parent
PROGRAM = str(HERE / "fake_gpus.py")
BLOCKS = str(HERE / "fake_blocks.py")
FAILURES = str(HERE / "fake_failures.py")

if installed(copying.SHARED_OBJECT) is None:
    pytest.skip("the library is not built", allow_module_level=True)


def run(gpus: Path, words: list[str], *, limit_s: int = 60, **settings: str) -> dict[str, Any]:
    environment = {
        **os.environ,
        "LD_LIBRARY_PATH": str(gpus),
        "INTERLACE_COPY_THRESHOLD": "64K",
        "INTERLACE_COPY_TRAFFIC": "none",
        **settings,
    }
    ended = subprocess.run(
        [sys.executable, *words],
        env=environment,
        capture_output=True,
        text=True,
        timeout=limit_s,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


@pytest.mark.parametrize(
    "settings",
    [
        {"FAKE_CUDA": "12020"},
        {"FAKE_CUDA": "13000"},
        {"FAKE_NO_PEER_ACCESS": "1"},
        {"FAKE_GPUS": "1"},
    ],
)
def test_every_byte_is_right(gpus: Path, tmp_path: Path, settings: dict[str, str]) -> None:
    found = run(gpus, [PROGRAM, str(tmp_path / "m.safetensors")], **settings)
    assert found == {"bytes": found["wanted"], "wanted": found["wanted"], "runtime": False}


BOUND = """
import json, sys
import fake_gpus, interlace
import numpy as np
fake_gpus.stand_in()
fake_gpus.check(fake_gpus.driver.cuInit(0))
interlace.save({"a": np.ones(3), "b": np.ones(1000)}, sys.argv[1])
try:
    interlace.load(sys.argv[1], "cuda:0", framework="cupy", max_device_bytes=1000)
except interlace.UserError as error:
    print(json.dumps(str(error)))
"""


def test_too_little_memory_beyond_the_tensors_is_refused(gpus: Path, tmp_path: Path) -> None:
    said = run(gpus, ["-c", BOUND, str(tmp_path / "m.safetensors")], PYTHONPATH=str(HERE))
    assert said == (
        f"max_device_bytes=1000: the tensors on GPU 0 need {(2 << 20) - 8024} more bytes for "
        "their alignment and for the allocator's unit; give at least this many"
    )


@pytest.mark.parametrize(
    ("settings", "ways"),
    [
        ({"FAKE_CUDA": "12020"}, ["copies", "kernel", "staged"]),
        ({"FAKE_CUDA": "13000"}, ["copies", "kernel", "staged"]),
    ],
)
def test_every_block_is_right(gpus: Path, settings: dict[str, str], ways: list[str]) -> None:
    found = run(gpus, [BLOCKS], **settings)
    assert found["ways"] == ways
    assert [text.split(";")[0] for text in found["refusals"]] == [
        "block 1 of a batch: with source number 64, the block ends at byte 66560, after the "
        "source's extent of 65536 bytes",
        "block 1 of a batch has 1024 bytes, which reach past the last address",
        "a block of a batch lies in memory that is not page-locked",
    ]


BENCH = """
import sys
from interlace.study import blocks_bench
blocks_bench.POOL, blocks_bench.MOST_BATCH = 1 << 23, 1 << 20
blocks_bench.WORK_SHAPE, blocks_bench.WORK_TIMES = 8, 2
from interlace.cli.main import main
sys.argv = ["interlace", *sys.argv[1:]]
main()
"""


def test_the_benchmark_of_blocks(gpus: Path) -> None:
    words = ["bench", "blocks", "--sizes", "512,64K", "--blocks", "16,256", "-n", "2"]
    words += ["--beside-kernels", "0,4", "--json", "-"]
    stand_in = str(HERE / "stand_ins/blocks")
    found = run(gpus, ["-c", BENCH, *words], PYTHONPATH=stand_in, FAKE_CUDA="12080")
    rows = found["rows"]
    assert {row["method"] for row in rows} == {
        "interlace", "cuMemcpyBatchAsync", "cuMemcpyAsync", "torch"
    }  # fmt: skip
    assert [row["wrong"] for row in rows] == [0] * len(rows)
    batches = {(row["direction"], row["block_bytes"], row["blocks"]) for row in rows}
    assert batches == {
        (direction, size, count)
        for direction in ("to-gpu", "to-host")
        for size, count in ((512, 16), (512, 256), (65536, 16))
    }
    own = [row for row in rows if row["method"] == "interlace"]
    assert {row["way"] for row in own} == {"kernel"}
    for row in own:
        peers = [
            other["median_us"]
            for other in rows
            if other is not row
            and all(other[key] == row[key] for key in ("direction", "block_bytes", "blocks"))
        ]
        assert row["slower"] == pytest.approx(row["median_us"] / min(peers) - 1)
    beside = found["beside"]
    assert len(beside) == 2 * 2 * 3
    assert {row["most_thread_blocks"] for row in beside} == {0, 4}


def test_nothing_is_left_after_a_thousand_failures(gpus: Path, tmp_path: Path) -> None:
    preloaded = str(gpus / "failing_reads.so")
    # With INTERLACE_TEST_FAULTS=all, there are a thousand failures of each kind. A failure by
    # Ctrl-C takes longer than the other failures, so there are fewer of them by default.
    turns, seldom = (334, 1) if os.environ.get("INTERLACE_TEST_FAULTS") == "all" else (80, 4)
    words = [FAILURES, str(tmp_path), str(turns), str(seldom)]
    found = run(gpus, words, limit_s=5 * turns, LD_PRELOAD=preloaded)
    assert found["happened"] == turns * 12 + -(-turns // seldom) * 3
    assert found["late"] == found["early"]
    assert found["late"]["on_gpus"] == 0
    said = found["said"]
    assert len(said) == 15
    for action in ("load", "stream", "prefetch"):
        assert said.pop(f"interrupt {action}") == "KeyboardInterrupt"
        assert "truncated while it was read" in said[f"shrinking {action}"]
        assert "Input/output error" in said[f"bad_disk {action}"]
        assert "Out of memory" in said[f"full_gpu {action}"]
    for text in said.values():  # each message names the file and the tensor
        assert text.startswith(f"{tmp_path}/")
        assert "tensor '" in text


def test_a_driver_that_is_too_old_is_named(gpus: Path, tmp_path: Path) -> None:
    assert run(gpus, [PROGRAM, str(tmp_path / "m.safetensors")], FAKE_CUDA="11080") == {
        "refused": "the NVIDIA driver is for CUDA 11.8, and copies need a driver for CUDA 12.2 "
        "(535) or later; simulated machines need none"
    }
    assert list(tmp_path.iterdir()) == []


def test_the_doctor_sees_the_driver_and_its_gpus(gpus: Path) -> None:
    probe = ["-m", "interlace.study.doctor_probes", "gpus"]
    found = run(gpus, probe, FAKE_CUDA="12020", FAKE_NO_PEER_ACCESS="1", FAKE_GPUS="2")
    assert (found["driver"], found["cuda"], found["copies"]) == ("535.0", "12.2", "")
    assert [one["capability"] for one in found["gpus"]] == [90, 90]
    assert found["peer_access"] == [[True, False], [False, True]]
    old = run(gpus, probe, FAKE_CUDA="11080")
    assert old["copies"].startswith("the NVIDIA driver is for CUDA 11.8, and copies need")


@pytest.mark.skipif(shutil.which("readelf") is None, reason="there is no readelf")
def test_nothing_of_cuda_is_linked() -> None:
    for file in (Path(native.load_driver().__file__), installed(copying.SHARED_OBJECT)):
        listed = subprocess.run(
            ["readelf", "-d", str(file)], capture_output=True, text=True, check=True
        ).stdout
        needed = [line for line in listed.splitlines() if "(NEEDED)" in line]
        assert needed
        assert not any("cuda" in line or "nvidia" in line for line in needed)


def test_a_module_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, load, part in (
        ("_core", native.load_core, "the compiled part of Interlace cannot be loaded"),
        ("_driver", native.load_driver, "the part of Interlace for checkpoints on GPUs cannot"),
        ("_cuda", native.load_cuda, "this Interlace was built without CUDA.*; kernels on GPUs"),
    ):
        monkeypatch.setitem(sys.modules, f"interlace.{name}", None)
        with pytest.raises(UserError, match=part):
            load()
