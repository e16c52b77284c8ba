"""Tests `interlace bench load`. Loaders run in separate processes and load into host memory."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import statistics
from math import prod
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import interlace
from interlace.base.errors import UserError
from interlace.model.mechanisms import GIB, MIB
from interlace.runtime import loading
from interlace.show import load_bench as show
from interlace.study import load_bench, load_child, load_methods, load_model
from study_helpers import Run


def parameters(of: dict[str, tuple[int, ...]]) -> int:
    return sum(map(prod, of.values()))


def test_the_whole_model() -> None:
    of, layers, halvings = load_model.shapes(16 * GIB)
    assert (layers, halvings, len(of)) == (32, 0, 9 * 32 + 3)
    assert parameters(of) == 8_030_261_248
    assert of["model.layers.31.self_attn.k_proj.weight"] == (1024, 4096)
    assert of["model.layers.0.mlp.down_proj.weight"] == (4096, 14336)
    assert of["lm_head.weight"] == (128256, 4096)


@pytest.mark.parametrize("most", [MIB, 3 * MIB, 100 * MIB, GIB, 4 * GIB, 15 * GIB])
def test_a_smaller_one_is_as_large_as_it_may_be(most: int) -> None:
    of, layers, halvings = load_model.shapes(most)
    assert 0.4 * most < 2 * parameters(of) <= most
    assert layers >= 1
    assert (halvings == 0) == (most >= 4 * GIB)


def test_the_file(run: Run, tmp_path: Path) -> None:
    out, html = tmp_path / "out.json", tmp_path / "out.html"
    ran = run("bench", "load", "--bytes", "2M", "--device", "cpu", "-n", 3, "--threads", 2,
              "--folder", tmp_path, "--cores", 1, "--json", out, "--html", html)  # fmt: skip
    assert ran.code == 0, ran.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.html", "out.json"]
    document: dict[str, Any] = json.loads(out.read_text())
    assert document["benchmark"] == "load"
    assert document["device"] == "cpu"
    assert document["threads"] == 2
    assert document["ring"] is None
    assert document["bytes"] == 2 * parameters(load_model.shapes(2 * MIB)[0])
    cores = document["machine"]["cores"]
    rows = {row["method"]: row for row in document["rows"] if row["cores"] == cores}
    there = importlib.util.find_spec("safetensors") is not None
    assert set(rows) == {"interlace", "interlace stream", "pread"} | (
        {"safetensors load_file"} if there else set()
    )
    for row in rows.values():
        assert (row["place"], row["memory"]) == ("cache", "fresh")
        assert row["wrong"] == (None if row["method"] == "pread" else 0)
        # if a loader is slow, its first load is one of the measured loads
        assert len(row["time_s"]) in (2, 3)
        assert row["median_s"] == statistics.median(row["time_s"])
        assert row["gb_per_s"] == pytest.approx(1e-9 * document["bytes"] / row["median_s"])
        assert row["first_s"] > 0
        if there and row["method"] != "pread":
            theirs = rows["safetensors load_file"]["median_s"]
            assert row["speedup"] == theirs / row["median_s"]
    one_core = [row["method"] for row in document["rows"] if row["cores"] == 1]
    assert {"interlace", "pread"} <= set(one_core)
    assert "All bytes right." in ran.out
    assert re.search(r"^interlace +page cache +fresh +\d+ +[\d.]+ ", ran.out, re.MULTILINE)
    text = html.read_text()
    assert "From the page cache" in text
    assert '"id":"load-cache"' in text


def test_a_loader_that_fails_is_left_out(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "instanttensor.py").write_text("raise RuntimeError('no  such\\nlibrary')")
    monkeypatch.setenv("PYTHONPATH", str(broken))
    method = load_methods.BY_NAME["InstantTensor MMAP"]
    usable = method._replace(frameworks=("torch", "numpy"), gpu=False, module="json")
    monkeypatch.setattr(load_bench, "METHODS", (load_methods.METHODS[0], usable))
    ran = run("bench", "load", "-b", "1M", "--device", "cpu", "-n", 1, "--folder", tmp_path,
              "--methods", "interlace,InstantTensor MMAP")  # fmt: skip
    assert ran.code == 0, ran.err
    assert (
        "Left out: InstantTensor MMAP with --place cache (RuntimeError: no such library)."
        in ran.out
    )


def test_the_time_ends(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The allowed time is enough for these steps: the file, the loader's start, its first load, the
    # measurement of its memory, and one repeat. The clock is read before each of these steps, and
    # after each answer of the loader.
    now = iter([0.0, *[0.5] * 9, 2.0])
    monkeypatch.setattr(load_bench, "_now", lambda: next(now))
    ran = run("bench", "load", "-b", "1M", "--device", "cpu", "-n", 2, "--folder", tmp_path,
              "--methods", "interlace", "--limit", 1)  # fmt: skip
    assert ran.code == 0, ran.err
    assert (
        "Left out: the remaining loads with --place cache, because the time allowed (--limit) "
        "was over." in ran.out
    )
    assert re.search(r"^interlace +page cache ", ran.out, re.MULTILINE)


def test_first_loads_count_if_the_time_ends_after_them(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = iter([0.0, *[0.5] * 5, 2.0])
    monkeypatch.setattr(load_bench, "_now", lambda: next(now))
    out = tmp_path / "out.json"
    ran = run("bench", "load", "-b", "1M", "--device", "cpu", "-n", 2, "--folder", tmp_path,
              "--methods", "interlace", "--limit", 1, "--json", out)  # fmt: skip
    assert ran.code == 0, ran.err
    (row,) = json.loads(out.read_text())["rows"]
    assert row["time_s"] == [row["first_s"]]


def test_nothing_is_written_after_the_time(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = iter([0.0, *[2.0] * 2])
    monkeypatch.setattr(load_bench, "_now", lambda: next(now))
    monkeypatch.setattr(load_bench, "_write", lambda *_a, **_o: pytest.fail("a file was written"))
    ran = run("bench", "load", "-b", "1M", "--device", "cpu", "--folder", tmp_path,
              "--place", "cache,cold", "--limit", 1)  # fmt: skip
    assert ran.code == 0, ran.err
    assert (
        "Left out: the remaining loads with --place cold, because the time allowed (--limit) "
        "was over." in ran.out
    )


def test_loads_from_the_disk_take_turns(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = []
    load = load_bench._Loader.load

    def listed(self: load_bench._Loader, **told: Any) -> dict[str, Any]:
        loaded.append(self.method.name)
        assert told["cold"]
        return load(self, **told | {"cold": False})

    monkeypatch.setattr(load_bench._Loader, "load", listed)
    out = tmp_path / "out.json"
    ran = run("bench", "load", "-b", "1M", "--device", "cpu", "-n", 2, "--folder", tmp_path,
              "--place", "cold", "--methods", "interlace,direct reads", "--json", out)  # fmt: skip
    assert ran.code == 0, ran.err
    # The method that sets the limit comes first, because the time may end before the last method.
    assert loaded == ["direct reads", "interlace"] * 3
    rows = json.loads(out.read_text())["rows"]
    assert [(row["method"], row["place"], len(row["time_s"])) for row in rows] == [
        ("direct reads", "cold", 2), ("interlace", "cold", 2)
    ]  # fmt: skip
    assert all(row["first_s"] not in row["time_s"] for row in rows)


def test_a_file_that_stays_in_memory_has_no_row(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = {"s": 1.0, "first_s": None, "wrong": None}
    answers = iter([read, {"resident": 0.5}, read, read])
    monkeypatch.setattr(load_bench._Loader, "load", lambda *_a, **_o: next(answers))
    ran = run("bench", "load", "-b", "1M", "--device", "cpu", "-n", 2, "--folder", tmp_path,
              "--place", "cold", "--methods", "interlace,direct reads")  # fmt: skip
    assert ran.code == 0, ran.err
    assert "Left out: interlace with --place cold (50 % of the file stayed in memory)." in ran.out


def test_loaders_that_cannot_load_are_named(run: Run, tmp_path: Path) -> None:
    ran = run("bench", "load", "-b", "1M", "--device", "cpu", "-n", 1, "--folder", tmp_path,
              "--methods", "interlace,fastsafetensors,Run:ai streamer")  # fmt: skip
    assert ran.code == 0, ran.err
    assert re.search(r"Left out: fastsafetensors.*(: it has no|: it loads|is not)", ran.out)


def child(tmp_path: Path, method: str, files: int = 1) -> load_child._Child:
    shapes = load_model.shapes(MIB)[0]
    data = load_model.random_bytes(shapes)
    (tmp_path / "bytes").write_bytes(data)
    tensors, names = load_model.tensors_of(shapes, data, "numpy"), []
    for number, own in enumerate(load_model.shards(shapes, files)):
        names.append(str(tmp_path / f"{number}.safetensors"))
        interlace.save({name: tensors[name] for name in own}, names[-1])
    given = {"method": method, "files": names, "bytes": str(tmp_path / "bytes")}
    given |= {"device": ",".join(["cpu"] * files), "framework": "numpy"}
    return load_child._Child(given | {"threads": 2, "ring": None, "most": MIB, "context": True})


TOLD = {"cores": None, "reused": False, "memory": True, "verify": True, "cold": False}


def test_wrong_bytes_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measuring = child(tmp_path, "interlace")
    right = measuring.load(TOLD)
    assert right["wrong"] == 0
    assert right["host_peak"] >= 0
    load = loading.load

    def damaged(*arguments: Any, **options: Any) -> dict[str, Any]:
        found = load(*arguments, **options)
        first, second, *_ = found
        found[first].reshape(-1).view("uint8")[-1] ^= 1
        found[second] = found[second].reshape(-1)[:-1]
        del found["model.norm.weight"]
        return found

    monkeypatch.setattr(loading, "load", damaged)
    assert measuring.load(TOLD)["wrong"] == 3


@pytest.mark.parametrize("method", ["interlace", "interlace stream", "safetensors load_file"])
def test_a_file_for_each_device(tmp_path: Path, method: str) -> None:
    if importlib.util.find_spec("safetensors") is None and "load_file" in method:
        pytest.skip("safetensors is not installed")
    measuring = child(tmp_path, method, files=3)
    assert measuring.load(TOLD)["wrong"] == 0
    measuring.files[1].unlink()
    with pytest.raises((OSError, UserError), match="such file"):
        measuring.load(TOLD)


def test_files_are_about_as_large() -> None:
    of = load_model.shapes(GIB)[0]
    for count in (1, 2, 7):
        files = load_model.shards(of, count)
        assert [name for names in files for name in names] == list(of)
        sizes = [sum(load_model.size_of(of[name]) for name in names) for names in files]
        largest = max(map(load_model.size_of, of.values()))
        assert max(sizes) - min(sizes) <= 2 * largest


def test_more_cores_after_fewer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measuring, chosen = child(tmp_path, "interlace"), []
    measuring.cores = list(range(8))
    monkeypatch.setattr(os, "sched_setaffinity", lambda _process, cores: chosen.append(cores))
    for cores in (4, 8):
        measuring.load(TOLD | {"cores": cores})
    assert chosen == [[0, 1, 2, 3], [0, 1, 2, 3, 4, 5, 6, 7]]


def test_wrong_bytes_are_told() -> None:
    row = {"method": "interlace", "package": "", "place": "cache", "memory": "fresh", "cores": 1,
           "first_s": 1.0, "first_without_context_s": None, "first_tensor_s": 1.0, "time_s": [1.0],
           "median_s": 1.0, "gb_per_s": 1.0, "speedup": None, "wrong": 2, "host_peak": 0,
           "device_peak": None}  # fmt: skip
    rows = [load_bench.LoadRow(**row), load_bench.LoadRow(**row | {"memory": "reused"})]
    assert show.wrong_tensors(SimpleNamespace(rows=rows)) == 2  # type: ignore[arg-type]


def test_pages_are_dropped_and_counted(tmp_path: Path) -> None:
    measuring = child(tmp_path, "direct reads")
    assert measuring.asked.file.read_bytes()
    with measuring.asked.file.open("rb") as file:
        assert load_child.resident(file.fileno()) == 1.0
    left = measuring.drop()
    if left == 1.0:
        pytest.skip("this file system keeps its pages")
    assert left < 0.01
    assert measuring.load(TOLD)["s"] > 0
    with measuring.asked.file.open("rb") as file:
        # Direct reads leave nothing in the page cache.
        assert load_child.resident(file.fileno()) < 0.01


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--bytes", "1K"], "--bytes '1K': give a size from 1M to 64G, such as 256M"),
        (["--device", "tpu"], "'tpu' is not a device; give cpu, cuda, or cuda:0 and so on"),
        (
            ["--device", "cpu,cuda:0"],
            "--device cpu,cuda:0: give cpu, or GPUs without repetition",
        ),
        (["--device", "cpu", "--folder", "/nowhere"], "--folder /nowhere is not a folder"),
        (["--slot", "1"], "--slot '1': give a size from 4K to 1G, such as 256M"),
        (["--threads", "0"], "--threads 0: give a number of at least 1"),
        (["--threads", "1025"], "--threads 1025: give a number of at most 1024"),
        (
            ["--slots", "1025", "--slot", "1G"],
            "--slots 1025 --slot 1G: give slots of at most 1 TiB in all",
        ),
        (["--slots", "x"], "--slots 'x': give a whole number"),
        (["--slots", "8"], "--slots and --slot go together; give both options or neither"),
        (
            ["--cores", "99999"],
            f"--cores 99999: give at most {len(os.sched_getaffinity(0))}, the number of cores here",
        ),
        (
            ["--place", "disk"],
            "--place 'disk': there is no 'disk'; give some of cache, tmpfs, cold",
        ),
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
    assert f"{tmp_path} has 0.0 GiB free, and the file needs" in ran.err
