"""`interlace bench load`, into the host's memory."""

from __future__ import annotations

import importlib.util
import json
import re
from math import prod
from pathlib import Path
from typing import Any

import pytest

from interlace.model.mechanisms import GIB, MIB
from interlace.runtime import loading
from interlace.study import load_bench
from study_helpers import Run


def parameters(of: dict[str, tuple[int, ...]]) -> int:
    return sum(map(prod, of.values()))


def test_the_whole_model() -> None:
    of, layers, halvings = load_bench.shapes(16 * GIB)
    assert (layers, halvings, len(of)) == (32, 0, 9 * 32 + 3)
    assert parameters(of) == 8_030_261_248
    assert of["model.layers.31.self_attn.k_proj.weight"] == (1024, 4096)
    assert of["model.layers.0.mlp.down_proj.weight"] == (4096, 14336)
    assert of["lm_head.weight"] == (128256, 4096)


@pytest.mark.parametrize("most", [MIB, 3 * MIB, 100 * MIB, GIB, 4 * GIB, 15 * GIB])
def test_a_smaller_one_is_as_large_as_it_may_be(most: int) -> None:
    of, layers, halvings = load_bench.shapes(most)
    assert 0.4 * most < 2 * parameters(of) <= most
    assert layers >= 1
    assert (halvings == 0) == (most >= 4 * GIB)


def test_the_file(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    ran = run("bench", "load", "--bytes", "2M", "--device", "cpu", "-n", 3, "--threads", 2,
              "--folder", tmp_path, "--json", out)  # fmt: skip
    assert ran.code == 0, ran.err
    assert [path.name for path in tmp_path.iterdir()] == ["out.json"]
    document: dict[str, Any] = json.loads(out.read_text())
    assert document["benchmark"] == "load"
    assert document["device"] == "cpu"
    assert document["threads"] == 2
    assert document["ring"] == list(loading.RING)
    assert document["bytes"] == 2 * parameters(load_bench.shapes(2 * MIB)[0])
    rows = {row["method"]: row for row in document["rows"]}
    there = importlib.util.find_spec("safetensors") is not None
    assert list(rows) == ["interlace", "safetensors"] if there else ["interlace"]
    for row in rows.values():
        assert row["wrong"] == 0
        assert len(row["time_s"]) == 3
        assert row["median_s"] == sorted(row["time_s"])[1]
        assert row["gb_per_s"] == pytest.approx(1e-9 * document["bytes"] / row["median_s"])
        if there:
            assert row["speedup"] == rows["safetensors"]["median_s"] / row["median_s"]
    assert "All bytes right." in ran.out
    assert re.search(r"^interlace +[\d.]+ +[\d.]+ +[\d.]+ ", ran.out, re.MULTILINE)


def test_wrong_bytes_are_counted(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load = loading.load

    def damaged(*arguments: Any, **options: Any) -> dict[str, Any]:
        found = load(*arguments, **options)
        next(iter(found.values()))[-1] = 0
        del found["model.norm.weight"]
        return found

    monkeypatch.setattr(loading, "load", damaged)
    ran = run("bench", "load", "-b", "1M", "--device", "cpu", "-n", 1, "--folder", tmp_path)
    assert ran.code == 1
    assert "2 tensors wrong." in ran.out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--bytes", "1K"], "--bytes '1K': give a size from 1M to 64G, such as 256M"),
        (["--device", "tpu"], "'tpu' is not a device; give cpu, cuda, or cuda:0 and so on"),
        (["--device", "cpu", "--folder", "/nowhere"], "--folder /nowhere is not a folder"),
        (["--slot", "1"], "--slot '1': give a size from 4K to 1G, such as 256M"),
        (["--threads", "0"], "--threads 0: give a number of at least 1"),
        (["--threads", "1025"], "--threads 1025: give a number of at most 1024"),
        (
            ["--slots", "1025", "--slot", "1G"],
            "--slots 1025 --slot 1G: give slots of at most 1 TiB in all",
        ),
        (["--slots", "x"], "--slots 'x': give a whole number"),
    ],
)
def test_wrong_options(run: Run, words: list[str], message: str) -> None:
    ran = run("bench", "load", *words)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == f"interlace: {message}\n"


def test_no_room(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        free = MIB

    monkeypatch.setattr(load_bench.shutil, "disk_usage", lambda _folder: Full)
    ran = run("bench", "load", "-b", "1M", "--device", "cpu", "--folder", tmp_path)
    assert ran.code == 2
    assert f"{tmp_path} has 0.0 GiB free, and the file takes" in ran.err
