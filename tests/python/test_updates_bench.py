"""Tests `interlace bench updates` on fake GPUs: rows, rates, files and refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fake_core import FakeCuda
from interlace.base.errors import DeviceError
from study_helpers import Run

MIB, GIB = 1 << 20, 1 << 30


class FakeUpdates:
    """A stand-in for the measurements. For tables above 32 MiB, bins are three times as fast as
    atomics.
    """

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.wrong = 0

    def table(self, size: int, updates: int, repeats: int) -> dict[str, Any]:
        self.asked.append(("gpu", size, updates, repeats))
        if size == 64 * GIB:
            raise DeviceError("cudaMalloc failed: out of memory")
        inside = size <= 32 * MIB
        each = 1e-10 if inside else 1e-10 / 3
        return {
            "updates": updates,
            "plain_s": [1e-10 * updates] * repeats,
            "binned_s": [each * updates] * repeats,
            "wrong": self.wrong,
            "bins": 0 if inside else 256,
            "windows_a_bin": 0 if inside else 64 if size > GIB else 1,
            "window_bytes": 0 if inside else 64 << 10,
            "passes": 0 if inside else 4,
            "round_updates": 1000,
            "buffer_bytes": size // 4,
            "look_ahead": 1000,
            "direct": 0,
            "memory_bytes_per_s": 4e12,
            "bytes_an_update": 0.0 if inside else 50.0,
            "group_s": 0.0 if inside else updates / 100e9,
            "append_s": 0.0 if inside else updates / 50e9,
            "split_s": updates / 80e9 if size > GIB else 0.0,
            "combine_s": 0.0 if inside else updates / 40e9,
        }

    def host_table(self, size: int, updates: int, linked: int, repeats: int) -> dict[str, Any]:
        self.asked.append(("host", size, updates, linked, repeats))
        return {
            "updates": updates,
            "link_updates": linked,
            "sent_s": [updates / 3e9] * repeats,
            "stores_s": linked / 1e8,
            "atomics_s": linked / 5e7,
            "host_s": updates / 1e9,
            "table_copy_s": size / 40e9,
            "send_s": updates / 5e9,
            "unpack_s": 1e-3,
            "unpacked": 2_000_000,
            "wrong": 0,
            "bins": 512,
            "window_bytes": 2 * MIB,
            "pool_bytes": size // 4,
            "threads": 15,
            "busiest_share": 1.02,
            "link_bytes_per_s": 48e9,
        }


@pytest.fixture
def updates(cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch) -> FakeUpdates:
    made = FakeUpdates()
    monkeypatch.setattr(cuda, "measure_updates", made.table, raising=False)
    monkeypatch.setattr(cuda, "measure_host_updates", made.host_table, raising=False)
    return made


def test_the_tables_and_the_file(updates: FakeUpdates, run: Run, tmp_path: Path) -> None:
    file = tmp_path / "updates.json"
    ran = run("bench", "updates", "--tables", "512M,32M,8G", "-n", "2", "--json", file)
    assert ran.code == 0, ran.err
    assert updates.asked == [
        ("gpu", 32 * MIB, 16 * MIB, 2),
        ("gpu", 512 * MIB, 256 * MIB, 2),
        ("gpu", 8 * GIB, 4 * GIB, 2),
        ("host", GIB, 512 * MIB, 1 << 24, 2),
    ]
    found = json.loads(file.read_text())
    assert found["benchmark"] == "updates"
    inside, large, largest = found["rows"]
    assert inside["limit_per_s"] is inside["of_limit"] is inside["group_per_s"] is None
    assert inside["speedup"] == pytest.approx(1)
    assert large["speedup"] == pytest.approx(3)
    assert large["limit_per_s"] == pytest.approx(80e9)
    assert large["of_limit"] == pytest.approx(30 / 80)
    stages = [large[f"{stage}_per_s"] for stage in ("group", "append", "combine")]
    assert stages == pytest.approx([100e9, 50e9, 40e9])
    assert large["split_per_s"] is None
    assert largest["split_per_s"] == pytest.approx(80e9)
    assert " 256 x 64 " in ran.out
    (host,) = found["host_rows"]
    assert host["over_stores"] == pytest.approx(30)
    # The pool has a quarter of the table's size. Whenever it is full of updates of 8 bytes, the
    # whole table is copied, at 40 GB/s.
    assert host["copies_per_s"] == pytest.approx(40e9 / 4 / 8)
    assert host["over_best"] == pytest.approx(3 / 1.25)
    assert host["of_link"] == pytest.approx(0.5)
    assert [host["send_per_s"], host["unpack_per_s"]] == pytest.approx([5e9, 2e9])
    assert ran.out.count("All elements right.") == 2
    assert "a table in GPU memory" in ran.out
    assert "a table in host memory" in ran.out


def test_wrong_elements_end_it(updates: FakeUpdates, run: Run) -> None:
    updates.wrong = 5
    ran = run("bench", "updates", "--tables", "64M", "--host-tables", "none")
    assert ran.code == 1
    assert "5 elements wrong." in ran.out
    assert "in host memory" not in ran.out


def test_a_failure_leaves_no_file(updates: FakeUpdates, run: Run, tmp_path: Path) -> None:
    file = tmp_path / "updates.json"
    ran = run("bench", "updates", "--tables", "64G", "--host-tables", "none", "--json", file)
    assert ran.code != 0
    assert "out of memory" in ran.err
    assert not file.exists()
    assert updates.asked == [("gpu", 64 * GIB, 32 * GIB, 3)]


@pytest.mark.usefixtures("updates")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--tables", "3M"], "--tables '3M': give powers of two of at least 1M"),
        (["--tables", "512K"], "--tables '512K': give powers of two of at least 1M"),
        (["--host-tables", "x"], "--host-tables 'x': "),
        (["--tables", "none", "--host-tables", "none"], "leave nothing to measure"),
        (["--updates", "0"], "--updates 0: give a number of at least 1"),
        (["-n", "0"], "--repeats 0: give a number of at least 1"),
    ],
)
def test_refusals(run: Run, words: list[str], message: str) -> None:
    ran = run("bench", "updates", *words)
    assert ran.code == 2
    assert message in ran.err
