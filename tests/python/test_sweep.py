"""Tests `interlace sweep`: the contents of its files, its runs, kept results, and output."""

from __future__ import annotations

import contextlib
import csv
import errno
import fcntl
import itertools
import json
import math
import os
import re
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from interlace.base import activities
from interlace.base.errors import UserError
from interlace.machine.reading import load_machine
from interlace.machine.variants import changed
from interlace.machine.writing import machine_text
from interlace.model.mechanism_table import BULK_COPY, INFINITE_BANDWIDTH, INLINE
from interlace.model.mechanisms import Config
from interlace.model.run import Case, RunFailure
from interlace.nodes import clusters
from interlace.study import sweep, sweep_file
from interlace.study.design_space import load_design_space
from interlace.workloads.base import Workload
from study_helpers import MACHINE, Run

pytest.importorskip("interlace._core")

DOCS = Path(__file__).resolve().parents[2] / "docs"
EXAMPLE = DOCS / "example/sweep.toml"
PAGE = DOCS / "how-to/machines.md"

SMALL = """
format = 1
machine = "4x-volta-nvlink2"
workload = "pagerank"
gpus = [2]
mechanisms = ["bulk-copy", "inline"]
[options]
rmat = 6
iterations = 2
[axes]
link.nvlink2.bandwidth_GB_per_s = [25, 50]
"""
SMALL_RUNS = 2 * 3


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write a small sweep file into the working folder of the command."""
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "small.toml"
    file.write_text(SMALL)
    return file


def _forbid_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("nothing was to be run")

    monkeypatch.setattr(sweep, "simulate", refuse)


def _sweep(run: Run, file: Path, *words: object) -> dict[str, Any]:
    out = file.with_suffix(".json")
    ran = run("sweep", file, "--json", out, *words)
    assert ran.code == 0, ran.err
    found: dict[str, Any] = json.loads(out.read_text())
    return found


# --- runs -----------------------------------------------------------------------------------------


def test_the_example(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ran = run("sweep", EXAMPLE, "--json", "out.json", "--csv", "out.csv")
    assert ran.code == 0, ran.err
    assert ran.out in PAGE.read_text(encoding="utf-8")
    result = json.loads(Path("out.json").read_text())
    assert len(result["rows"]) == 3 * 2 * 4
    assert {row["gpus"] for row in result["rows"]} == {1, 4}
    with Path("out.csv").open(newline="") as text:
        lines = list(csv.DictReader(text))
    assert [float(line["time_s"]) for line in lines] == [row["time_s"] for row in result["rows"]]
    assert lines[5]["gpu.l2.size_KiB"] == "51200"
    assert {(line["workload"], line["data"], line["machine"]) for line in lines} == {
        ("jacobi", "banded-65536-k8", "4x-volta-nvlink2")
    }
    words = ran.out.splitlines()
    assert "6 machines from 4x-volta-nvlink2, 24 runs, simulated" in words[0]
    # For each value, the command prints the shortest time of all points with this value.
    four = [r for r in result["rows"] if r["gpus"] == 4 and r["mechanism"] != INFINITE_BANDWIDTH]
    key = "link.nvlink2.bandwidth_GB_per_s"
    for value in (6.25, 25, 100):
        least = min((r for r in four if r["point"][key] == value), key=lambda r: r["time_s"])
        of_value = [w for w in words if w.split()[:2] == [key, str(value)]]
        assert least["mechanism"] in of_value[0]
        assert f"{least['time_s'] * 1e6:.2f}" in of_value[0]
        # For each mechanism, the command prints the geometric mean over the two points.
        for column, name in enumerate((BULK_COPY, INLINE, INFINITE_BANDWIDTH), start=2):
            times = [
                r["time_s"] for r in result["rows"]
                if r["gpus"] == 4 and r["mechanism"] == name and r["point"][key] == value
            ]  # fmt: skip
            assert len(times) == 2
            mean = 1e6 * math.sqrt(times[0] * times[1])
            assert float(of_value[1].split()[column]) == pytest.approx(mean, abs=0.006)
    below = words[words.index("The points, the fastest first:") + 4 :]
    times = [float(line.split()[4]) for line in below[: below.index("")]]
    assert len(times) == 6
    assert times == sorted(times)


def test_a_point_is_a_study_of_its_machine(run: Run, small: Path) -> None:
    result = _sweep(run, small)
    key = "link.nvlink2.bandwidth_GB_per_s"
    slow = changed(load_machine(MACHINE), {key: 25}, "test")
    Path("slow.toml").write_text(machine_text(slow), encoding="utf-8")
    words = ("--machine", "slow.toml", "--gpus", 2, "--mechanisms", "bulk-copy,inline")
    ran = run("study", "pagerank", "--rmat", 6, "-n", 2, *words, "--json", "study.json")
    assert ran.code == 0, ran.err
    study = {
        (row["gpus"], row["mechanism"]): row
        for row in json.loads(Path("study.json").read_text())["rows"]
    }
    compared = 0
    for row in result["rows"]:
        if row["point"] == {key: 25}:
            same = study[row["gpus"], row["mechanism"]]
            for field in ("time_s", "speedup", "wire", "max_error", "iterations"):
                assert row[field] == same[field]
            assert row["accesses"] == same["sim"]["accesses"]
            compared += 1
    assert compared == 3


def test_one_job_and_eight_give_the_same(run: Run, small: Path) -> None:
    found = []
    for jobs in (1, 8):
        result = _sweep(run, small, "--jobs", jobs, "--runs", f"{jobs}.jsonl")
        for row in result["rows"]:
            del row["cpu_s"]
        found.append(result["rows"])
    assert found[0] == found[1]


# --- what is kept ---------------------------------------------------------------------------------


def test_finished_runs_are_not_repeated(
    run: Run, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = _sweep(run, small)
    kept = Path("small.runs.jsonl").read_bytes()
    assert kept.count(b"\n") == SMALL_RUNS
    _forbid_runs(monkeypatch)
    again = _sweep(run, small)
    assert again["rows"] == first["rows"]
    assert Path("small.runs.jsonl").read_bytes() == kept


def test_a_changed_file_runs_what_changed(run: Run, small: Path) -> None:
    _sweep(run, small)
    kept = Path("small.runs.jsonl").read_bytes()
    small.write_text(SMALL.replace("[25, 50]", "[50, 100, 25]") + "\n# a comment\n")
    result = _sweep(run, small)
    assert len(result["rows"]) == 3 * 3
    more = Path("small.runs.jsonl").read_bytes()
    assert more.startswith(kept)
    assert more.count(b"\n") == SMALL_RUNS + 3
    small.write_text(SMALL.replace("rmat = 6", "rmat = 7"))
    _sweep(run, small)
    assert Path("small.runs.jsonl").read_bytes().count(b"\n") == 2 * SMALL_RUNS + 3


def test_data_that_changes_is_run_again(run: Run, small: Path, graph: Path) -> None:
    small.write_text(SMALL.replace("rmat = 6", f'data = "{graph.name}"'))
    _sweep(run, small)
    _sweep(run, small)
    assert Path("small.runs.jsonl").read_bytes().count(b"\n") == SMALL_RUNS
    other = graph.with_name("other.mtx")
    other.write_text("%%MatrixMarket matrix coordinate pattern general\n4 4 2\n1 2\n2 1\n")
    graph.unlink()
    small.write_text(SMALL.replace("rmat = 6", f'data = "{other.name}"'))
    _sweep(run, small)
    assert Path("small.runs.jsonl").read_bytes().count(b"\n") == 2 * SMALL_RUNS


def test_ctrl_c_leaves_what_was_done(
    run: Run, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    verify, seen = Workload.verify, itertools.count()

    def interrupted(self: Workload, outcome: Any) -> float:
        if next(seen) == 3:
            raise KeyboardInterrupt
        return verify(self, outcome)

    with monkeypatch.context() as patch:
        patch.setattr(Workload, "verify", interrupted)
        ran = run("sweep", small)
    assert ran.code == 130
    assert (
        f"3 of {SMALL_RUNS} runs are in small.runs.jsonl; "
        "give the same command again to continue the sweep" in ran.err
    )
    assert Path("small.runs.jsonl").read_bytes().count(b"\n") == 3
    assert len(_sweep(run, small)["rows"]) == SMALL_RUNS
    assert Path("small.runs.jsonl").read_bytes().count(b"\n") == SMALL_RUNS


def test_a_line_that_a_crash_cut_is_run_again(run: Run, small: Path) -> None:
    _sweep(run, small)
    kept = Path("small.runs.jsonl").read_bytes()
    last = kept.rstrip(b"\n").rfind(b"\n") + 1
    for left in (len(kept) - 1, last + 4):
        Path("small.runs.jsonl").write_bytes(kept[:left])
        _sweep(run, small)
        found = Path("small.runs.jsonl").read_bytes()
        assert found.count(b"\n") == SMALL_RUNS
        assert found.startswith(kept[:last])


def test_damage_of_the_last_line_is_run_again_with_a_note(run: Run, small: Path) -> None:
    _sweep(run, small)
    file = Path("small.runs.jsonl")
    kept = file.read_bytes()
    last = kept.rstrip(b"\n").rfind(b"\n") + 1
    middle = (last + len(kept)) // 2
    for damaged in (
        kept + bytes(4096),
        kept[:middle] + bytes(len(kept) - middle),
        kept[:last] + bytes(4096),
        kept[:middle] + bytes([kept[middle] ^ 1]) + kept[middle + 1 :],
    ):
        file.write_bytes(damaged)
        ran = run("sweep", small)
        assert ran.code == 0, ran.err
        assert "The last line of small.runs.jsonl is damaged; its run is made again." in ran.err
        assert file.read_bytes().startswith(kept[:last])
        assert file.read_bytes().count(b"\n") == SMALL_RUNS


def test_no_flipped_bit_is_taken_for_a_result(run: Run, small: Path) -> None:
    _sweep(run, small)
    kept = Path("small.runs.jsonl").read_bytes()
    line = kept[: kept.index(b"\n")]
    good = sweep_file._run_of(line)
    assert good is not None
    for bit in range(8 * len(line)):
        flipped = bytearray(line)
        flipped[bit // 8] ^= 1 << bit % 8
        assert sweep_file._run_of(bytes(flipped)) is None
    Path("small.runs.jsonl").write_bytes(kept[:60] + bytes([kept[60] ^ 1]) + kept[61:])
    ran = run("sweep", small)
    assert ran.code == 2
    assert "small.runs.jsonl, line 1: this is not a run of a sweep, or it is damaged" in ran.err


@pytest.mark.parametrize(
    "change",
    [{"max_error": 5.0}, {"iterations": 2**62}],
)
def test_a_run_that_would_not_have_passed_is_run_again(
    run: Run, small: Path, change: dict[str, Any]
) -> None:
    first = _sweep(run, small)
    file = Path("small.runs.jsonl")
    lines = file.read_bytes().splitlines()
    kept = sweep_file._run_of(lines[0])
    assert kept is not None
    forged = msgspec.structs.replace(kept, **change)
    file.write_bytes(sweep_file._line(forged) + b"\n".join(lines[1:]) + b"\n")
    again = _sweep(run, small)
    assert again["rows"][0]["max_error"] == first["rows"][0]["max_error"]
    assert file.read_bytes().count(b"\n") == SMALL_RUNS + 1


def test_values_out_of_range_are_refused(run: Run, small: Path) -> None:
    _sweep(run, small)
    file = Path("small.runs.jsonl")
    first, rest = file.read_bytes().split(b"\n", 1)
    for key, value in (
        ("time_s", "0"),
        ("time_s", "1e308"),
        ("time_s", "-1.0"),
        ("time_s", "null"),
        ("accesses", "-1"),
        ("cpu_s", "[" * 100_000 + "]" * 100_000),
        ("max_error", "-0.5"),
    ):
        body = re.sub(rf'"{key}":[^,}}]*'.encode(), f'"{key}":{value}'.encode(), first)
        body = body[: body.index(b',"sum"')]
        assert sweep_file._run_of(body + sweep_file._ending(body)) is None
    file.write_bytes(body + sweep_file._ending(body) + b"\n" + rest)
    ran = run("sweep", small)
    assert ran.code == 2
    assert "line 1: this is not a run of a sweep" in ran.err


def test_a_wrong_result_ends_the_sweep(
    run: Run, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep.WORKLOADS["pagerank"], "allowed_error", lambda _: 0.0)
    ran = run("sweep", small)
    assert ran.code == 1
    assert "verification failed: " in ran.err
    assert ", at link.nvlink2.bandwidth_GB_per_s = " in ran.err
    assert not Path("small.runs.jsonl").exists()


@pytest.mark.parametrize("line", [b"nonsense\n", b'{"kind":"other"}\n', b"\n", b"\xff\xfe\n", b"x"])
def test_other_files_are_left_alone(run: Run, small: Path, line: bytes) -> None:
    Path("other.txt").write_bytes(line)
    ran = run("sweep", small, "--runs", "other.txt")
    assert ran.code == 2
    assert "other.txt" in ran.err
    assert Path("other.txt").read_bytes() == line


def test_two_sweeps_do_not_share_a_file(run: Run, small: Path) -> None:
    with Path("small.runs.jsonl").open("wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        ran = run("sweep", small)
    assert ran.code == 2
    assert "small.runs.jsonl is in use by another sweep" in ran.err


@pytest.mark.parametrize("ends", [False, True])
def test_who_comes_second_leaves_the_file_of_the_first(
    run: Run, small: Path, monkeypatch: pytest.MonkeyPatch, ends: bool
) -> None:
    """The first command makes the file of runs while the second command opens it.

    If `ends` is true, the first command ends and removes the file.
    """
    runs, lock, first = Path("small.runs.jsonl"), fcntl.flock, contextlib.ExitStack()

    def flock(handle: int, operation: int) -> None:
        if not runs.exists():  # this lock is on another file
            lock(handle, operation)
            return
        monkeypatch.setattr(fcntl, "flock", lock)
        first.enter_context(sweep_file.opened(runs))
        if ends:
            runs.unlink()
            first.close()
        lock(handle, operation)

    monkeypatch.setattr(fcntl, "flock", flock)
    with first:
        ran = run("sweep", small)
        assert ran.code == 2
        assert "small.runs.jsonl is in use by another sweep" in ran.err
        assert runs.exists() is not ends


def test_a_file_that_cannot_be_locked(
    run: Run, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(*_: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", no_locks)
    ran = run("sweep", small)
    assert ran.code == 2
    assert "small.runs.jsonl cannot be used for the runs: No locks available" in ran.err


# --- bad input ------------------------------------------------------------------------------------

AXES = "[axes]\nlink.nvlink2.bandwidth_GB_per_s = [25, 50]\n"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("format = 1\n", "", "format is missing"),
        ("format = 1", "format = 2", "format is 2"),
        ("gpus = [2]", "gpu = [2]", "no key 'gpu' (did you mean gpus?)"),
        ("gpus = [2]", "gpus = []", "gpus must be a list of whole numbers"),
        ("gpus = [2]", 'gpus = ["2"]', "gpus must be a list of whole numbers"),
        ("gpus = [2]", "gpus = [8]", "gpus: 8, at link.nvlink2.bandwidth_GB_per_s = 25"),
        ("4x-volta-nvlink2", "4x-volta", "machine: there is no machine '4x-volta'"),
        ("4x-volta-nvlink2", "none.toml", "none.toml: there is no such machine file"),
        ('"pagerank"', '"pagerang"', "did you mean pagerank?"),
        ('"inline"', '"inlined"', "did you mean inline?"),
        ('"inline"', '"nccl"', "it is measured on real GPUs"),
        ("rmat = 6", "rmatt = 6", "options: there is no option 'rmatt'"),
        ("rmat = 6", "rmat = 6.5", "options.rmat must be a whole number, not 6.5"),
        ("rmat = 6", "rmat = true", "options.rmat must be a whole number, not True"),
        ("rmat = 6", "rows = 64", "options: --rows is for jacobi and halo-jacobi"),
        ("iterations = 2", "iterations = 0", "options: --iterations 0"),
        ("iterations = 2", "damping = nan", "options.damping is nan; it must be finite"),
        (AXES, "", "there is no axis"),
        ("[axes]", "[[axes]]", "axes must be a table"),
        ("[25, 50]", "[]", "link.nvlink2.bandwidth_GB_per_s has no values"),
        ("[25, 50]", "25", "link.nvlink2.bandwidth_GB_per_s must be a list"),
        ("[25, 50]", "[25, 25]", "has 25 twice"),
        ("[25, 50]", "[25, 50, 25.0]", "has 25 twice"),
        ("[25, 50]", "[nan, nan]", "nan is not a value of a key; it must be finite"),
        ("[25, 50]", "[25, inf]", "inf is not a value of a key; it must be finite"),
        ("[25, 50]", "[25, [50]]", "[50] is not a value of a key"),
        ("[25, 50]", "[25, 0]", "bandwidth_GB_per_s = 0: link 1: bandwidth_GB_per_s is 0"),
        ("[25, 50]", '[25, "x"]', "must be a number, not a string"),
        ("bandwidth_GB_per_s", "bandwidth", "bandwidth is not a known key"),
        ("link.nvlink2", "link.nvlink9", "there is no link nvlink9; give one of nvlink2, pcie3"),
        ("link.nvlink2.bandwidth_GB_per_s", "gpu.l9.ways", "there is no table gpu.l9"),
        ("link.nvlink2.bandwidth_GB_per_s", "title", "title is not a key of a machine"),
        (
            "link.nvlink2.bandwidth_GB_per_s",
            "gpu.l2.size_KiB",
            "must be a multiple of gpu.l2.banks",
        ),
        ("[25, 50]\n", "[25, 50]\n[[zip]]\n", "zip 1 is empty"),
        (
            "[25, 50]\n",
            "[25, 50]\n[[zip]]\nhost.memory_GB_per_s = [1, 2]\ngpu.l2.ways = [16]\n",
            "zip 1: these keys change together",
        ),
        (
            "[25, 50]\n",
            "[25, 50]\n[[zip]]\nlink.nvlink2.bandwidth_GB_per_s = [1]\n",
            "is already an axis of axes",
        ),
        (
            "[25, 50]\n",
            "[25, 50]\n[[zip]]\ngpu.l2.ways = [16, 16]\nhost.memory_GB_per_s = [80.0, 80]\n",
            "zip 1: gpu.l2.ways, host.memory_GB_per_s has 16, 80.0 twice",
        ),
        ("link.nvlink2", "a." * 60 + "a", "is not a key of a sweep"),
        ("rmat = 6", 'method = "a\\nb"', "'a\\nb' is not a string of a sweep"),
        ("[25, 50]", "[25, = 50]", "line 11: this is not TOML"),
    ],
)
def test_bad_files(run: Run, small: Path, old: str, new: str, words: str) -> None:
    assert old in SMALL
    small.write_text(SMALL.replace(old, new))
    ran = run("sweep", small, "--json", "out.json")
    assert ran.code == 2
    assert ran.err.startswith(f"interlace: {small}")
    assert words in ran.err
    assert ran.err.count("\n") == 1
    assert [path.name for path in small.parent.iterdir()] == ["small.toml"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "sweep needs a file"),
        (("none.toml",), "none.toml cannot be read"),
        (("small.toml", "--jobs", "0"), "--jobs 0"),
        (("small.toml", "--json", "a", "--csv", "a"), "--csv and --json are both a"),
        (("small.toml", "--json", "./small.toml"), "FILE and --json are both small.toml"),
        (("small.toml", "--json", "no/where"), "there is no directory no"),
        (("small.toml", "--scheduler", "tcp://x:1", "--jobs", "2"), "exclude each other"),
    ],
)
def test_bad_commands(run: Run, small: Path, words: tuple[str, ...], sentence: str) -> None:
    ran = run("sweep", *words)
    assert ran.code == 2
    assert sentence in ran.err
    assert [path.name for path in small.parent.iterdir()] == ["small.toml"]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (f"{'a.' * 2000}a = [1]", "this is not a sweep file, because it is too deeply nested"),
        (f"a = {'1' * 5000}", "this is not TOML: a number is too long"),
    ],
)
def test_what_python_cannot_read(run: Run, small: Path, line: str, reason: str) -> None:
    small.write_text(f"{SMALL}{line}\n")
    ran = run("sweep", small)
    assert (ran.code, ran.err) == (2, f"interlace: {small}: {reason}\n")


# --- machines -------------------------------------------------------------------------------------


def test_keys_of_links_and_switches() -> None:
    machine = load_machine(MACHINE)
    made = changed(
        machine,
        {"link.pcie3.latency_ns": 7, "switch.plx1.latency_ns": 9, "link.queue_KiB": 2},
        "test",
    )
    assert [link.latency_ns for link in made.link] == [
        7 if link.protocol == "pcie3" else link.latency_ns for link in machine.link
    ]
    assert {link.queue_KiB for link in made.link} == {2}
    assert [switch.latency_ns for switch in made.switch] == [machine.switch[0].latency_ns, 9]
    assert made.gpu == machine.gpu


@pytest.mark.parametrize(
    ("name", "values", "together"),
    [
        (
            "hgx-h200-4", {"link.nvlink4.bandwidth_GB_per_s": 100},
            "link 1: copy_GB_per_s is 393; it must be at most bandwidth_GB_per_s, which is 100; "
            "change link.nvlink4.bandwidth_GB_per_s, link.nvlink4.copy_GB_per_s and "
            "link.nvlink4.copy_both_GB_per_s together; a sweep must list them under one [[zip]]",
        ),
        (
            "hgx-h200-4",
            {"link.nvlink4.bandwidth_GB_per_s": 100, "link.nvlink4.copy_GB_per_s": 90},
            "link 1: copy_both_GB_per_s is 778; it must be at most 200, because "
            "bandwidth_GB_per_s is 100; change link.nvlink4.bandwidth_GB_per_s and "
            "link.nvlink4.copy_both_GB_per_s together; a sweep must list them under one [[zip]]",
        ),
        (
            "4x-r9nano", {"gpu.l1.line_bytes": 128},
            "gpu.l2.line_bytes is 64; it must be gpu.l1.line_bytes, which is 128; change "
            "gpu.l1.line_bytes and gpu.l2.line_bytes together; a sweep must list them under one "
            "[[zip]]",
        ),
        (
            "4x-r9nano", {"gpu.copy.engines": 1, "gpu.copy.peer_engines": 2},
            "gpu.copy.peer_engines is 2; it must be at most gpu.copy.engines, which is 1",
        ),
    ],
)  # fmt: skip
def test_keys_that_go_together_are_named(
    name: str, values: dict[str, float], together: str
) -> None:
    with pytest.raises(UserError) as caught:
        changed(load_machine(name), values, "a.toml")
    assert str(caught.value) == f"a.toml: {together}"


def test_keys_that_go_together_can_be_changed_together() -> None:
    values = {
        "link.nvlink4.bandwidth_GB_per_s": 209.5,
        "link.nvlink4.copy_GB_per_s": 196.5,
        "link.nvlink4.copy_both_GB_per_s": 389,
    }
    made = changed(load_machine("hgx-h200-4"), values, "a.toml")
    assert made.link[0].copy_GB_per_s == 196.5


def test_quoted_keys_are_the_same(small: Path) -> None:
    plain = load_design_space(small)
    key = "link.nvlink2.bandwidth_GB_per_s"
    small.write_text(SMALL.replace(key, f'"{key}"'))
    assert load_design_space(small).points() == plain.points() == [{key: 25}, {key: 50}]


def test_too_many_points(small: Path) -> None:
    axes = "\n".join(f"gpu.{key} = {list(range(1, 400))}" for key in ("clock_MHz", "l1.ways"))
    small.write_text(SMALL + axes)
    with pytest.raises(UserError, match="over 100,000 points"):
        load_design_space(small)


# --- clusters -------------------------------------------------------------------------------------


def test_without_dask(run: Run, small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    ran = run("sweep", small, "--scheduler", "tcp://127.0.0.1:8786")
    assert ran.code == 2
    assert "--scheduler needs Dask, which is not installed" in ran.err


def test_a_cluster_gives_what_processes_give(
    run: Run, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    distributed = pytest.importorskip("distributed")
    here = _sweep(run, small)
    waits: set[str] = set()
    sleep = clusters.time.sleep

    def sleep_and_note(seconds: float) -> None:
        waits.update(who for who, _ in list(activities._told.waits.values()))
        sleep(seconds)

    monkeypatch.setattr(clusters.time, "sleep", sleep_and_note)
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None
    ) as cluster:
        there = _sweep(
            run, small, "--runs", "there.jsonl", "--scheduler", cluster.scheduler_address
        )
        assert f"the workers of {cluster.scheduler_address}" in waits  # `interlace ps` shows it
    for row in [*here["rows"], *there["rows"]]:
        del row["cpu_s"]
    assert there["rows"] == here["rows"]


def test_no_scheduler_and_no_workers(
    run: Run, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr("interlace.nodes.clusters.CONNECT_S", 0.5)
    ran = run("sweep", small, "--scheduler", "tcp://127.0.0.1:1")
    assert ran.code == 2
    assert "--scheduler tcp://127.0.0.1:1: no scheduler answers there" in ran.err
    ran = run("sweep", small, "--scheduler", "not an address")
    assert ran.code == 2
    with distributed.LocalCluster(n_workers=0, processes=False, dashboard_address=None) as cluster:
        ran = run("sweep", small, "--scheduler", cluster.scheduler_address)
    assert ran.code == 2
    assert "has no workers" in ran.err


class _Reply:
    """A stand-in for a future. It holds the value that a worker sent."""

    def __init__(self, sent: object) -> None:
        self.sent = sent

    def result(self) -> object:
        if isinstance(self.sent, Exception):
            raise self.sent
        return self.sent


def test_a_hostile_reply_is_no_result(small: Path) -> None:
    space = load_design_space(small)
    workload = sweep.WORKLOADS["pagerank"].load(space.inputs, None)
    one, other = (Case(gpus, BULK_COPY, Config()) for gpus in (1, 2))
    job = clusters.Job(space.machines[0], one, ", at x = 1")
    sound = clusters.simulate(workload, job)
    assert clusters._result(_Reply(sound), job) is sound
    stranger = job._replace(case=other)
    for sent, asked in ((None, job), ({"time_s": 1.0}, job), (sound, stranger)):
        with pytest.raises(
            RunFailure, match="a worker sent something that is not a result of this run"
        ):
            clusters._result(_Reply(sent), asked)
    with pytest.raises(RunFailure, match="a worker failed: ZeroDivisionError: by hand"):
        clusters._result(_Reply(ZeroDivisionError("by hand")), job)


def test_a_worker_that_sends_nothing_is_named() -> None:
    told: list[str] = []
    silence = clusters._Silence(told.append)
    seen = {"tcp://a:1": 5.0, "tcp://b:2": 7.0}

    class Client:
        @staticmethod
        def scheduler_info() -> dict[str, Any]:
            return {"workers": {name: {"last_seen": last} for name, last in seen.items()}}

    for now in range(0, 200, 2):
        seen["tcp://a:1"] += 1
        if now < 50:
            seen["tcp://b:2"] += 1
        silence.look(Client, float(now))
    assert len(told) == 1
    assert told[0].startswith("interlace: worker tcp://b:2 has sent nothing for 6")
