"""Tests studies with a stand-in for the compiled modules: rows, figures, verification, files."""

from __future__ import annotations

import contextlib
import copy
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from fake_core import Fake, FakeCuda
from interlace import workloads
from interlace.base import files, interrupts, table, workers
from interlace.base.errors import UserError
from interlace.data import graphs
from interlace.model.mechanism_table import (
    BULK_COPY,
    COPY_ENGINE,
    DEVICE_LAUNCH,
    INFINITE_BANDWIDTH,
    INLINE,
    NCCL,
    NVSHMEM,
    POLLING,
    PROACT_HARDWARE,
    SERIAL_COPY,
    SPLIT,
)
from interlace.model.mechanisms import DEFAULTS, KIB, MIB, Config, Tuning
from interlace.model.results import Study, StudyRow, WireRow
from interlace.model.run import Case, RunFailure
from interlace.show.study import columns, footers, summary
from interlace.study import evaluation
from interlace.workloads import Reference
from interlace.workloads.pagerank import Pagerank, PagerankInputs
from study_helpers import MACHINE, Run, study_of

HERE = Path(__file__).resolve().parent
ROW_KEYS = [
    "workload", "data", "node", "machine", "gpus", "mechanism", "config", "iterations", "time_s",
    "speedup", "opportunity", "captured", "derived", "verified", "max_error", "wire", "overlap",
    "reachable",
]  # fmt: skip
FILE_KEYS = [
    "format", "command", "version", "commit", "date", "driver", "machine", "data", "notes", "rows",
    "candidates",
]  # fmt: skip


def result(run: Run, tmp_path: Path, *words: object) -> dict[str, Any]:
    out = tmp_path / "out.json"
    ran = run(*words, "--json", out)
    assert ran.code == 0, ran.err
    assert ran.err == ""
    document: dict[str, Any] = json.loads(out.read_text())
    return document


def by_name(document: dict[str, Any]) -> dict[tuple[int, str], dict[str, Any]]:
    return {(row["gpus"], row["mechanism"]): row for row in document["rows"]}


# --- simulated ------------------------------------------------------------------------------------


@pytest.mark.usefixtures("core")
def test_the_file_has_every_key(run: Run, graph: Path, tmp_path: Path) -> None:
    document = result(run, tmp_path, *study_of(graph, "--gpus", "1,2,4"))
    assert list(document) == FILE_KEYS
    assert document["command"].startswith("interlace study pagerank --data ")
    assert document["version"] == (HERE.parents[1] / "VERSION").read_text().strip()
    assert document["driver"] is None
    assert document["machine"]["node"] == "sim"
    assert document["machine"]["name"] == MACHINE
    assert document["data"]["vertices"] == 40
    assert document["data"]["edges"] == 117
    assert document["data"]["dangling"] == 1
    for row in document["rows"] + document["candidates"]:
        assert list(row) == [*ROW_KEYS, "sim"]
        assert list(row["wire"]) == ["useful", "protocol", "wasted"]
        assert list(row["sim"]) == [
            "accesses", "remote_transactions", "cpu_s", "peak_rss_mb", "stores",
        ]  # fmt: skip
        assert row["workload"] == "pagerank"
        assert row["data"] == "forty"
        assert row["node"] == "sim"
        assert row["machine"] == MACHINE
        assert row["iterations"] == 10
        assert row["verified"] is True
        assert row["derived"] is False
        assert 0 <= row["max_error"] <= 1e-5
        assert row["sim"]["peak_rss_mb"] > 1
        assert all(isinstance(value, int) for value in row["wire"].values())


@pytest.mark.usefixtures("core")
def test_rows_and_figures(run: Run, graph: Path, tmp_path: Path) -> None:
    document = result(run, tmp_path, *study_of(graph, "--gpus", "4,2", "--split", "2,8,4"))
    rows = by_name(document)
    names = list(DEFAULTS)
    assert list(rows) == [(1, BULK_COPY), *((g, name) for g in (2, 4) for name in names)]
    single = rows[1, BULK_COPY]
    assert (single["speedup"], single["opportunity"], single["captured"]) == (1, 1, 1)
    assert single["overlap"] is None
    assert single["wire"] == {"useful": 0, "protocol": 0, "wasted": 0}
    for gpus in (2, 4):
        bulk, bound = rows[gpus, BULK_COPY], rows[gpus, INFINITE_BANDWIDTH]
        for name in names:
            row = rows[gpus, name]
            assert row["speedup"] == single["time_s"] / row["time_s"]
            assert row["opportunity"] == single["time_s"] / bound["time_s"]
            assert row["captured"] == row["speedup"] / row["opportunity"]
            hidden = 1 - (row["time_s"] - bound["time_s"]) / (bulk["time_s"] - bound["time_s"])
            assert row["overlap"] == pytest.approx(hidden)
        assert bulk["overlap"] == 0
        assert bound["overlap"] == bound["captured"] == 1
        split = rows[gpus, SPLIT]
        tried = [split, *(c for c in document["candidates"] if c["gpus"] == gpus)]
        assert {row["mechanism"] for row in tried} == {SPLIT}
        assert sorted(row["config"]["ranges"] for row in tried) == [2, 4, 8]
        assert split["config"]["tried"] == [{"ranges": 2}, {"ranges": 4}, {"ranges": 8}]
        assert split["time_s"] == min(row["time_s"] for row in tried)


def test_what_the_core_is_given(core: Fake, graph: Path) -> None:
    workload = Pagerank.load(PagerankInputs(data=graph, iterations=7, damping=0.5), None)
    outcome = workload.simulate(core, "machine", Case(4, SPLIT, Config(ranges=8)))
    assert core.calls == [("sim", 4, SPLIT, 7, 0.0, 8, MIB, 32, "")]
    assert outcome.values.shape == (4, 40)
    workload = Pagerank.load(PagerankInputs(data=graph, tolerance=1e-3), None)
    workload.simulate(core, "machine", Case(1, BULK_COPY))
    assert core.calls[-1] == ("sim", 1, BULK_COPY, 1000, 1e-3, 1, MIB, 32, "")


@pytest.mark.usefixtures("core")
def test_chunks_and_threads_are_tried(run: Run, tmp_path: Path) -> None:
    # There are 2**18 vertices, so a part has about 0.5 MiB.
    words = ["study", "jacobi", "--rows", 1 << 18, "--machine", MACHINE, "--gpus", 2, "-n", 1]
    # A part is smaller than a chunk of 4 MiB.
    words += ["--chunks", "64K,1m,4M,16M,256K", "--threads", "32,4096"]
    document = result(run, tmp_path, *words)
    tried: dict[str, list[dict[str, int]]] = {POLLING: [], COPY_ENGINE: []}
    for row in document["rows"] + document["candidates"]:
        if row["mechanism"] in tried:
            config = dict(row["config"])
            configs = config.pop("tried")
            assert config in configs
            tried[row["mechanism"]].append(config)
    rows = by_name(document)
    for name, found in tried.items():
        order = sorted(found, key=lambda config: list(config.values()))
        assert rows[2, name]["config"]["tried"] == order
        assert len(found) == len({str(config) for config in found})
    assert [list(c.values()) for c in rows[2, POLLING]["config"]["tried"]] == [
        [chunk, threads] for chunk in (64 * KIB, 256 * KIB, MIB, 4 * MIB) for threads in (32, 4096)
    ]
    assert rows[2, COPY_ENGINE]["config"]["tried"] == [
        {"chunk_bytes": 256 * KIB}, {"chunk_bytes": MIB}, {"chunk_bytes": 4 * MIB},
    ]  # fmt: skip
    assert "tried" not in rows[2, INLINE]["config"]


def test_defaults_of_the_nodes(run: Run, cuda: FakeCuda, tmp_path: Path) -> None:
    # A part has 2 MiB, so the largest chunk holds a whole part.
    words = ["study", "jacobi", "--rows", 1 << 20, "--half-bandwidth", 1, "--gpus", 2, "-n", 1]
    rows = by_name(result(run, tmp_path, *words))
    assert [c["ranges"] for c in rows[2, SPLIT]["config"]["tried"]] == [2, 4, 8, 16, 32]
    configs = rows[2, POLLING]["config"]["tried"]
    assert {c["chunk_bytes"] for c in configs} == {64 * KIB, 256 * KIB, MIB, 4 * MIB}
    assert {c.get("agent_threads") for c in configs} == {4096, 16384, None}
    assert [c["bulk_threads"] for c in configs if "bulk_threads" in c] == [4096] * 4
    assert {call[7:] for call in cuda.calls if call[2] == POLLING} == {
        (4096, ""), (16384, ""), (4096, "bulk"),
    }  # fmt: skip
    assert len(rows[2, COPY_ENGINE]["config"]["tried"]) == 3
    assert {call[5:] for call in cuda.calls if call[2] == COPY_ENGINE} == {
        (1, chunk, 32, "") for chunk in (256 * KIB, MIB, 4 * MIB)
    }
    rows = by_name(result(run, tmp_path, *words, "--machine", MACHINE))
    assert [c["ranges"] for c in rows[2, SPLIT]["config"]["tried"]] == [2, 8, 32]
    assert rows[2, POLLING]["config"]["tried"] == [
        {"chunk_bytes": chunk, "agent_threads": 4096} for chunk in (64 * KIB, MIB)
    ]
    assert rows[2, COPY_ENGINE]["config"]["tried"] == [{"chunk_bytes": MIB}]


def test_agents_that_have_no_place_are_left_out(
    run: Run, cuda: FakeCuda, graph: Path, tmp_path: Path
) -> None:
    cuda.no_place_for_bulk = True
    words = ["study", "pagerank", "--data", graph, "--gpus", 2, "--chunks", "1M"]
    document = result(run, tmp_path, *words)
    row = by_name(document)[2, POLLING]
    assert {c["agent_threads"] for c in row["config"]["tried"]} == {4096, 16384}
    (note,) = (note for note in document["notes"] if "left out" in note)
    assert note == (
        "polling on 2 GPUs: polling (1 MiB, 4096 threads, bulk) was left out: an agent of 4096 "
        "threads leaves no place"
    )


@pytest.mark.usefixtures("core")
def test_a_tolerance_ends_the_run(run: Run, graph: Path, tmp_path: Path) -> None:
    document = result(run, tmp_path, *study_of(graph, "--tolerance", "1e-4", "--gpus", 2))
    expected = graphs.pagerank_reference(graphs.load_graph(graph), tolerance=1e-4)
    assert {row["iterations"] for row in document["rows"]} == {expected.iterations}
    ran = run(*study_of(graph, "--tolerance", "1e-4", "--iterations", 2))
    assert ran.code == 0
    assert ", 2 iterations;" in ran.out


@pytest.mark.usefixtures("core")
def test_a_subset_of_mechanisms(run: Run, graph: Path, tmp_path: Path) -> None:
    document = result(run, tmp_path, *study_of(graph, "--gpus", 2, "--mechanisms", INLINE))
    assert list(by_name(document)) == [(1, BULK_COPY), (2, INLINE)]
    row = document["rows"][1]
    assert row["speedup"] > 0
    assert (row["opportunity"], row["captured"], row["overlap"]) == (None, None, None)
    needed = "The figures opportunity, captured and overlap need infinite-bandwidth"
    assert any(note.startswith(needed)
               for note in document["notes"])  # fmt: skip


@pytest.mark.usefixtures("core")
def test_two_runs_are_equal(run: Run, graph: Path, tmp_path: Path) -> None:
    def timeless(jobs: int) -> dict[str, Any]:
        document = result(run, tmp_path, *study_of(graph, "--jobs", jobs))
        document["date"] = document["command"] = None
        for row in document["rows"] + document["candidates"]:
            row["sim"]["cpu_s"] = row["sim"]["peak_rss_mb"] = None
        return document

    assert timeless(1) == timeless(3) == timeless(3)


@pytest.mark.usefixtures("core")
def test_rmat(run: Run, tmp_path: Path) -> None:
    words = ["study", "pagerank", "--rmat", 6, "--machine", MACHINE, "--gpus", 1]
    document = result(run, tmp_path, *words)
    assert document["rows"][0]["data"] == "rmat-6"
    assert document["data"]["edges"] == 16 << 6
    document = result(run, tmp_path, *words, "--edge-factor", 2, "--seed", 9)
    assert document["rows"][0]["data"] == "rmat-6-f2-s9"
    assert document["data"]["source"] == "R-MAT, scale 6, edge factor 2, seed 9"
    assert document["data"]["edges"] == 2 << 6


@pytest.mark.usefixtures("core")
def test_a_machine_file_and_all_its_gpus(run: Run, graph: Path, tmp_path: Path) -> None:
    shipped = HERE.parents[1] / "machines" / "dgx-2.toml"
    mine = tmp_path / "mine.toml"
    mine.write_text(shipped.read_text())
    words = ["study", "pagerank", "--data", graph, "--machine", mine, "--split", 2]
    document = result(run, tmp_path, *words)
    assert sorted({row["gpus"] for row in document["rows"]}) == [1, 2, 4, 8, 16]
    assert document["rows"][0]["machine"] == "mine"


# --- verification ---------------------------------------------------------------------------------


def test_a_wrong_value_fails_the_study(run: Run, core: Fake, graph: Path, tmp_path: Path) -> None:
    core.wrong = (INLINE, 4, 2, 17)
    outputs = [tmp_path / name for name in ("a.json", "a.html", "a.trace")]
    options = zip(("--json", "--html", "--timeline"), outputs, strict=True)
    ran = run(*study_of(graph, *(word for pair in options for word in pair)))
    assert ran.code == 1
    assert ran.out == ""
    expected = graphs.pagerank_reference(graphs.load_graph(graph), iterations=10).ranks[17]
    assert ran.err.startswith("interlace: verification failed: inline on 4 GPUs: GPU 2 has ")
    assert f" for vertex 17, expected {expected:.9g}; the relative error 0.001" in ran.err
    assert ran.err.count("\n") == 1
    assert sorted(tmp_path.iterdir()) == [graph]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 0.0, -1.0])
def test_no_wrong_number_passes(core: Fake, graph: Path, value: float) -> None:
    workload = Pagerank.load(PagerankInputs(data=graph), None)
    outcome = workload.simulate(core, "machine", Case(2, SPLIT, Config(ranges=4)))
    assert workload.verify(outcome) < 1e-7
    outcome.values[1, 39] = value
    with pytest.raises(RunFailure, match=r"split \(4 ranges\) on 2 GPUs: GPU 1 .* vertex 39"):
        workload.verify(outcome)


def test_the_limit_of_the_error(core: Fake, graph: Path) -> None:
    workload = Pagerank.load(PagerankInputs(data=graph), None)
    outcome = workload.simulate(core, "machine", Case(2, INLINE))
    right = outcome.values[0, 3]
    outcome.values[0, 3] = right * np.float32(1 + 0.9e-5)
    assert workload.verify(outcome) == pytest.approx(0.9e-5, rel=0.02)
    outcome.values[0, 3] = right * np.float32(1 - 1.1e-5)
    with pytest.raises(RunFailure):
        workload.verify(outcome)


def test_ranks_of_zero_are_compared_too(core: Fake) -> None:
    offsets = np.array([0, 0, 1, 2])  # the edges are 0 -> 1 -> 2, and no edge leads to 0
    chain = graphs.Graph(
        "chain", 3, offsets, np.array([0, 1], dtype=np.uint32), np.array([1, 1, 0], dtype=np.uint32)
    )
    workload = Pagerank(chain, "chain", "", PagerankInputs(damping=1.0, iterations=1))
    outcome = workload.simulate(core, "machine", Case(1, BULK_COPY))
    assert workload.verify(outcome) < 1e-7
    workload._references[1] = Reference(*[np.array([0.0, 0.5, 0.5])] * 2)
    outcome.values[0] = [0.0, 0.5, 0.5]
    assert workload.verify(outcome) == 0
    outcome.values[0, 0] = 1e-30
    with pytest.raises(RunFailure):
        workload.verify(outcome)


def test_a_result_of_the_wrong_shape_fails(core: Fake, graph: Path) -> None:
    workload = Pagerank.load(PagerankInputs(data=graph), None)
    outcome = workload.simulate(core, "machine", Case(2, INLINE))
    outcome.values = outcome.values[:1]
    with pytest.raises(RunFailure, match=r"returned ranks of shape \(1, 40\), expected \(2, 40\)"):
        workload.verify(outcome)


def test_a_run_of_no_time_fails(core: Fake, graph: Path) -> None:
    workload = Pagerank.load(PagerankInputs(data=graph), None)
    outcome = workload.simulate(core, "machine", Case(2, INLINE))
    outcome.time_s = 0.0
    with pytest.raises(RunFailure, match=r"the run's time is 0.0 s"):
        workload.verify(outcome)


def test_a_failure_of_the_core_is_a_sentence(run: Run, core: Fake, graph: Path) -> None:
    core.crash = INLINE
    ran = run(*study_of(graph, "--gpus", 2))
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == "interlace: inline on 2 GPUs: GPU 1 has vanished\n"
    core.crash, core.usage = None, "a row is too long: use more GPUs"
    ran = run(*study_of(graph, "--gpus", 2))
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == "interlace: a row is too long: use more GPUs\n"


def test_a_tolerance_that_is_not_reached(core: Fake, graph: Path) -> None:
    workload = Pagerank.load(PagerankInputs(data=graph, tolerance=1e-3), None)
    outcome = workload.simulate(core, "machine", Case(1, BULK_COPY))
    outcome.residual = 0.5
    with pytest.raises(UserError, match=r"--tolerance 0.001: after \d+ .* still 5.00e-01; give"):
        workload.verify(outcome)


# --- processes ------------------------------------------------------------------------------------


def test_workers_give_every_result() -> None:
    found = dict(workers.run_all([lambda n=n: n * n for n in range(20)], 3))
    assert found == {n: n * n for n in range(20)}


def test_a_killed_worker_is_named() -> None:
    with pytest.raises(workers.WorkerLost, match="killed by SIGKILL, most likely for lack of mem"):
        list(workers.run_all([lambda: os.kill(os.getpid(), signal.SIGKILL)], 1))
    with pytest.raises(workers.WorkerLost, match="ended with code 3"):
        list(workers.run_all([lambda: os._exit(3)], 1))


def test_a_worker_s_exception_is_raised_and_the_others_stop() -> None:
    def fail() -> None:
        raise UserError("so")

    began = time.monotonic()
    with pytest.raises(UserError, match=r"^so$"):
        list(workers.run_all([lambda: time.sleep(60), fail], 2))
    assert time.monotonic() - began < 10


def test_what_cannot_be_sent_is_told_as_text() -> None:
    class Local(Exception):  # noqa: N818 (an exception that cannot be pickled)
        pass

    def fail() -> None:
        raise Local("odd")

    with pytest.raises(RuntimeError, match="odd"):
        list(workers.run_all([fail], 1))


def test_the_peak_is_the_worker_s_own(core: Fake, graph: Path) -> None:
    before = np.ones(40_000_000)  # the test frees these 320 MB before the fork
    del before
    workload = Pagerank.load(PagerankInputs(data=graph), None)
    ((_, outcome),) = workers.run_all(
        [lambda: workload.simulate(core, "machine", Case(1, BULK_COPY))], 1
    )
    assert 5 < outcome.peak_rss_mb < 300


SCRIPT = """
import sys
sys.path[:0] = [{tests!r}]
from fake_core import Fake
fake = Fake()
fake.sleep_s = 60
sys.modules["interlace._core"] = fake
from interlace.cli import main as cli
cli.main()
"""


def start(graph: Path, tmp_path: Path) -> subprocess.Popen[str]:
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(SCRIPT.format(tests=str(HERE))))
    words = study_of(graph, "--json", tmp_path / "o.json", "--html", tmp_path / "o.html")
    paths = os.pathsep.join(path for path in sys.path if path)
    return subprocess.Popen(
        [sys.executable, script, *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": paths},
        start_new_session=True,
    )


def children(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(word) for word in found]


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def wait_for_workers(process: subprocess.Popen[str]) -> list[int]:
    for _ in range(300):
        if found := children(process.pid):
            time.sleep(0.3)
            return found
        assert process.poll() is None, process.communicate()
        time.sleep(0.1)
    raise AssertionError("no worker started")


def test_ctrl_c_leaves_nothing(graph: Path, tmp_path: Path) -> None:
    process = start(graph, tmp_path)
    working = wait_for_workers(process)
    os.killpg(process.pid, signal.SIGINT)  # a terminal sends Ctrl-C in this way
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (130, "", "interlace: interrupted\n")
    assert not any(alive(pid) for pid in working)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["forty.mtx.gz", "script.py"]


def test_workers_end_with_a_killed_parent(graph: Path, tmp_path: Path) -> None:
    process = start(graph, tmp_path)
    working = wait_for_workers(process)
    process.kill()
    process.communicate(timeout=30)
    for _ in range(100):
        if not any(alive(pid) for pid in working):
            return
        time.sleep(0.1)
    raise AssertionError("a worker outlived its parent")


def test_an_interrupt_inside_the_core(run: Run, core: Fake, graph: Path, tmp_path: Path) -> None:
    core.interrupt = INLINE
    ran = run(*study_of(graph, "--json", tmp_path / "o.json"))
    assert (ran.code, ran.out, ran.err) == (130, "", "interlace: interrupted\n")
    assert not (tmp_path / "o.json").exists()


class Dropping:
    """An object whose deletion gets a Ctrl-C. In a deletion, Python ignores the exception of a
    Ctrl-C.
    """

    def __del__(self) -> None:
        signal.raise_signal(signal.SIGINT)


def test_an_interrupt_that_python_drops_ends_the_workers(
    capsys: pytest.CaptureFixture[str],
) -> None:
    began = time.monotonic()
    with interrupts.noted(), pytest.raises(KeyboardInterrupt):
        list(workers.run_all([lambda: time.sleep(60)], 1, lambda _: Dropping() and None))
    assert time.monotonic() - began < 30
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("core")
def test_an_interrupt_that_comes_out_as_another_error(
    run: Run, graph: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load() -> None:
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise ImportError("half loaded") from None

    monkeypatch.setattr("interlace.cli.study.load_core", load)
    assert run(*study_of(graph)) == (130, "", "interlace: interrupted\n")
    monkeypatch.undo()
    assert run(*study_of(graph)).code == 0  # the earlier interrupt does not affect this run


# --- measured -------------------------------------------------------------------------------------


def test_measured_rows(run: Run, cuda: FakeCuda, graph: Path, tmp_path: Path) -> None:
    words = ["study", "pagerank", "--data", graph, "--repeats", 3, "-w", 1]
    document = result(run, tmp_path, *words)
    rows = by_name(document)
    assert sorted({gpus for gpus, _ in rows}) == [1, 2, 4]
    assert document["driver"] == "580.1"
    assert document["machine"]["node"] == "cuda"
    assert document["machine"]["name"] == "4x Fake H200"
    assert document["machine"]["model"] == "Fake H200"
    for (_, mechanism), row in rows.items():
        assert row["node"] == "cuda"
        assert row["derived"] == (mechanism == INFINITE_BANDWIDTH)
        assert "sim" not in row
        if row["derived"]:
            assert row["wire"] == {"useful": None, "protocol": None, "wasted": None}
            assert row["config"].pop("from") == "bulk-copy-without-transfers"
            assert set(row["config"]) == {"warmup", "repeats"}
            assert row["max_error"] is None
        assert row["verified"] != row["derived"]
        assert row["config"]["warmup"] == 1
        assert row["config"]["repeats"] == 3
        assert len(row["cuda"]["times_s"]) == 3
        assert row["time_s"] == sorted(row["cuda"]["times_s"])[1]
    sent = 4 * 40 * 3 * 10  # 40 ranks of 4 bytes go to three other GPUs in each of ten iterations
    wire = rows[4, INLINE]["wire"]
    assert wire["useful"] + wire["wasted"] == pytest.approx(sent, abs=1)
    assert wire["protocol"] == pytest.approx(1.5 * sent, abs=1)
    names = [BULK_COPY, SPLIT, INLINE, POLLING, DEVICE_LAUNCH, COPY_ENGINE]
    assert [name for gpus, name in rows if gpus == 4] == [*names, INFINITE_BANDWIDTH]
    for name in names[3:]:  # these mechanisms deliver the same bytes as a bulk copy
        for kind in ("useful", "wasted"):
            assert rows[4, name]["wire"][kind] == rows[4, BULK_COPY]["wire"][kind]
    # Other processes compute the counts of the host.
    assert {call[0] for call in cuda.calls} == {"cuda"}


@pytest.mark.parametrize("stop", [(), ("--tolerance", "1e-3")])
def test_the_bound_of_real_gpus_is_a_run_without_copies(
    run: Run, cuda: FakeCuda, graph: Path, tmp_path: Path, stop: tuple[str, ...]
) -> None:
    words = ["study", "pagerank", "--data", graph, "--gpus", "2,4", *stop]
    words += ["--mechanisms", "bulk-copy,inline,infinite-bandwidth"]
    document = result(run, tmp_path, *words)
    rows = by_name(document)
    single = rows[1, BULK_COPY]["time_s"]
    tolerance = float(stop[1]) if stop else 0.0
    for gpus in (2, 4):
        bulk, bound = rows[gpus, BULK_COPY], rows[gpus, INFINITE_BANDWIDTH]
        assert bound["derived"]
        assert bound["time_s"] < bulk["time_s"]
        assert bound["iterations"] == bulk["iterations"]
        asked = [call[2:5] for call in cuda.calls if call[1] == gpus]
        assert asked.count(("bulk-copy-without-transfers", bulk["iterations"], tolerance)) == 1
        opportunity = single / bound["time_s"]
        for name, overlap in ((BULK_COPY, 0), (INLINE, None), (INFINITE_BANDWIDTH, 1)):
            row = rows[gpus, name]
            assert row["opportunity"] == opportunity
            assert row["captured"] == pytest.approx(bound["time_s"] / row["time_s"])
            hidden = (bulk["time_s"] - row["time_s"]) / (bulk["time_s"] - bound["time_s"])
            assert row["overlap"] == pytest.approx(hidden if overlap is None else overlap)
    done = rows[2, BULK_COPY]["iterations"]
    assert 10 < done < 1000 if stop else done == 10
    assert not any("without" in call[2] for call in cuda.calls if call[1] == 1)
    assert any(note.startswith("infinite-bandwidth is derived: ") for note in document["notes"])
    page = tmp_path / "page.html"
    ran = run(*words, "--html", page)
    assert "All rows except derived rows verified; the largest" in ran.out
    assert "all rows except derived rows, largest relative error" in page.read_text()


def test_no_bulk_copy_gives_no_bound(run: Run, cuda: FakeCuda, graph: Path, tmp_path: Path) -> None:
    words = ["study", "pagerank", "--data", graph, "--gpus", 2, "--mechanisms", INLINE]
    assert by_name(result(run, tmp_path, *words))[2, INLINE]["opportunity"] is None
    assert {call[2] for call in cuda.calls if call[1] == 2} == {INLINE}


def test_copies_that_cost_nothing(
    run: Run, cuda: FakeCuda, graph: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = cuda.run_pagerank

    def slow(mechanism: str, *arguments: Any) -> dict[str, Any]:
        ran = whole(mechanism, *arguments)
        slower = 2 if mechanism == "bulk-copy-without-transfers" else 1
        return ran | {"time_s": slower * ran["time_s"]}

    monkeypatch.setattr(cuda, "run_pagerank", slow)
    words = ["study", "pagerank", "--data", graph, "--gpus", 2]
    rows = by_name(result(run, tmp_path, *words))
    assert rows[2, INFINITE_BANDWIDTH]["time_s"] > rows[2, BULK_COPY]["time_s"]
    assert all(rows[2, name]["overlap"] is None for gpus, name in rows if gpus == 2)
    assert "Copies take 0% of bulk-copy's time on 2 GPUs." in run(*words).out.splitlines()


def test_a_bound_of_no_time_ends_the_study(
    run: Run, cuda: FakeCuda, graph: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = cuda.run_pagerank

    def timeless(mechanism: str, *arguments: Any) -> dict[str, Any]:
        ran = whole(mechanism, *arguments)
        return ran | ({"time_s": 0.0} if mechanism == "bulk-copy-without-transfers" else {})

    monkeypatch.setattr(cuda, "run_pagerank", timeless)
    ran = run("study", "pagerank", "--data", graph, "--gpus", 2)
    assert (ran.code, ran.out) == (1, "")
    assert "bulk-copy-without-transfers on 2 GPUs: the run's time is 0.0 s" in ran.err


@pytest.mark.usefixtures("cuda", "core")
@pytest.mark.parametrize("where", [(), ("--machine", MACHINE)])
@pytest.mark.parametrize("names", ["bulk-copy,inline,infinite-bandwidth", INLINE])
def test_progress_knows_the_steps(
    run: Run, graph: Path, monkeypatch: pytest.MonkeyPatch, where: tuple[str, ...], names: str
) -> None:
    said, done = [], []

    @contextlib.contextmanager
    def shown(what: str, steps: int) -> Iterator[Callable[[], None]]:
        said.append((what, steps))
        yield lambda: done.append(what)

    monkeypatch.setattr("interlace.study.study.progress", shown)
    ran = run("study", "pagerank", "--data", graph, "--gpus", "2,4", "--mechanisms", names, *where)
    assert ran.code == 0, ran.err
    assert [steps for _, steps in said] == [len(done)]


def test_devices_share_a_gpu(run: Run, cuda: FakeCuda, graph: Path, tmp_path: Path) -> None:
    cuda.gpus = 1
    words = ["study", "pagerank", "--data", graph]
    ran = run(*words, "--gpus", "2,4")
    assert ran.code == 2
    assert ran.err == (
        "interlace: --gpus 4: 1x Fake H200 has 1 GPU; --share-gpu lets several devices share a "
        "GPU\n"
    )
    document = result(run, tmp_path, *words, "--gpus", "2,4", "--share-gpu")
    assert document["machine"]["name"] == "1x Fake H200, shared"
    assert document["machine"]["share_gpu"] is True
    assert document["machine"]["exchange"] == {}
    assert cuda.rates == []  # one GPU has no links to measure
    rows = by_name(document)
    assert {gpus for gpus, _ in rows} == {1, 2, 4}
    assert not {NCCL, NVSHMEM} & {mechanism for _, mechanism in rows}
    assert rows[1, BULK_COPY]["reachable"] == 1
    assert "shared_gpus" not in rows[1, BULK_COPY]["config"]
    for (gpus, mechanism), row in rows.items():
        if gpus == 1:
            continue
        assert row["config"]["shared_gpus"] == 1
        threads = {row["config"].get(key, 512) for key in ("agent_threads", "bulk_threads")}
        # The agents of all devices must fit on the GPU at the same time.
        assert threads == {512}
        assert row["verified"] is (mechanism != INFINITE_BANDWIDTH)
        assert row["reachable"] is None
        assert row["wire"]["protocol"] is None
    notes = " ".join(document["notes"])
    assert "Shared GPU: all devices share one GPU" in notes
    assert "nccl: not available: it needs a GPU for each device" in notes
    shown = run(*words, "--gpus", "2", "--share-gpu")
    assert shown.code == 0, shown.err
    assert "measured on 1x Fake H200, shared" in shown.out
    assert "Shared GPU: " in shown.out
    assert "allow" not in shown.out.replace("what they allow", "")

    # Now there are enough GPUs, so no GPU is shared, and links are measured.
    cuda.gpus = 4
    document = result(run, tmp_path, *words, "--gpus", "2,4", "--share-gpu")
    assert cuda.rates == [2, 4]
    assert document["machine"]["name"] == "4x Fake H200"
    assert not any("shared_gpus" in row["config"] for row in document["rows"])
    assert not any(note.startswith("Shared GPU") for note in document["notes"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--share-gpu",), "--share-gpu needs numbers of devices; give them with --gpus"),
        (
            ("--share-gpu", "--gpus", "17"),
            "--gpus 17: at most 16 devices can share GPUs; give fewer",
        ),
        (
            ("--share-gpu", "--gpus", "2", "--machine", MACHINE),
            "--share-gpu is for real GPUs, but --machine names a simulated machine; "
            "leave one of the two options out",
        ),
        (
            ("--share-gpu", "--gpus", "2", "--mechanisms", NCCL),
            "--mechanisms nccl: not available: it needs a GPU for each device, and --share-gpu "
            "lets several devices share a GPU",
        ),
    ],
)
def test_wrong_shared_gpus_are_refused(
    run: Run, cuda: FakeCuda, graph: Path, words: tuple[str, ...], said: str
) -> None:
    cuda.gpus = 1
    ran = run("study", "pagerank", "--data", graph, *words)
    assert ran.code == 2
    assert ran.err == f"interlace: {said}\n"


def test_what_the_links_still_allow(run: Run, cuda: FakeCuda, graph: Path, tmp_path: Path) -> None:
    words = ["study", "pagerank", "--data", graph, "--gpus", "2,4"]
    fast = by_name(result(run, tmp_path, *words))
    assert all(row["reachable"] == row["opportunity"] for row in fast.values())

    # At this rate, an exchange of all ranks takes longer than the kernels of an iteration.
    cuda.rate, cuda.rates = 1e6, []
    document = result(run, tmp_path, *words)
    assert cuda.rates == [2, 4]  # each number of GPUs is measured once
    assert document["machine"]["exchange"] == {
        str(n): {"copies_bytes_per_s": 1e6, "stores_bytes_per_s": 0.9e6} for n in (2, 4)
    }
    rows = by_name(document)
    single = rows[1, BULK_COPY]
    assert single["reachable"] == 1
    for gpus in (2, 4):
        wire = rows[gpus, BULK_COPY]["wire"]
        needed_s = (wire["useful"] + wire["wasted"]) / gpus / 1e6
        assert needed_s > rows[gpus, INFINITE_BANDWIDTH]["time_s"]
        (reachable,) = {row["reachable"] for (n, _), row in rows.items() if n == gpus}
        assert reachable == pytest.approx(single["time_s"] / needed_s)
    assert all(
        row["reachable"] == rows[row["gpus"], INLINE]["reachable"] for row in document["candidates"]
    )
    two, four = (rows[gpus, INLINE]["reachable"] for gpus in (2, 4))
    assert (
        "The measured rates of links and memory allow "
        f"{two:.2f} x on 2 GPUs, {four:.2f} x on 4 GPUs." in run(*words).out.splitlines()
    )


def test_what_the_links_still_allow_of_epochs(
    run: Run, core: Fake, cuda: FakeCuda, graph: Path, tmp_path: Path
) -> None:
    words = ["study", "pagerank", "--data", graph, "--gpus", "2"]
    rows = by_name(result(run, tmp_path, *words))
    wire = rows[2, BULK_COPY]["wire"]
    bound_s = rows[2, INFINITE_BANDWIDTH]["time_s"]
    # The transfers take as long as the run without transfers. With two equal epochs, the run could
    # hide all transfers. But the first of the two epochs has a tenth of the time and nine tenths of
    # the bytes.
    cuda.rate = (wire["useful"] + wire["wasted"]) / 2 / bound_s
    core.exchanges = cuda.exchanges = ((0.9, 0.1), (0.1, 0.9))
    rows = by_name(result(run, tmp_path, *words))
    needed_s = bound_s * (0.9 + 0.9)
    assert rows[2, INLINE]["reachable"] == pytest.approx(rows[1, BULK_COPY]["time_s"] / needed_s)


def test_what_limits_one_gpu(run: Run, cuda: FakeCuda, graph: Path, tmp_path: Path) -> None:
    words = ["study", "pagerank", "--data", graph, "--gpus", "2"]
    document = result(run, tmp_path, *words)
    assert cuda.gpu_rates_measured == 1
    assert document["machine"]["rates"] == cuda.of_gpu
    single, *others = document["rows"]
    assert all("limit" not in row for row in others + document["candidates"])
    limit = single["limit"]
    update, fold = limit["kernels"]  # the work for 40 vertices, 117 edges and ten iterations
    assert update == {
        "name": "rank_update",
        "launches": 10,
        "cached_launches": 0,
        "loaded_bytes": 14040,
        "stored_bytes": 1600,
        "operations": {"fp32": 1170, "fp64": 0, "integer": 11700, "special": 0},
        "memory_s": pytest.approx(14040 / 4e12 + 1600 / 2e12),
        "operations_s": pytest.approx(11700 / 1.5e13),
        "by": "memory",
    }
    assert fold == {
        "name": "fold",
        "launches": 10,
        "cached_launches": 10,
        "loaded_bytes": 0,
        "stored_bytes": 0,
        "operations": {"fp32": 40, "fp64": 70, "integer": 20, "special": 10},
        "memory_s": 0,
        "operations_s": pytest.approx(70 / 1e13),
        "by": "fp64",
    }
    assert limit["time_s"] == pytest.approx(update["memory_s"] + fold["operations_s"])
    assert limit["reached"] == pytest.approx(limit["time_s"] / single["time_s"])
    lines = run(*words).out.splitlines()
    assert (
        f"The kernels' limit on one GPU is {limit['time_s'] * 1e6:.4g} us, by the memory's rate; "
        f"the run reaches {limit['reached']:.0%} of it."
    ) in lines
    assert (
        "10 of 20 launches touch no more bytes than the L2 "
        "holds, so memory does not limit them." in lines
    )

    cuda.of_gpu["cache_bytes"] = 1 << 20
    limit = result(run, tmp_path, *words)["rows"][0]["limit"]
    assert [kernel["by"] for kernel in limit["kernels"]] == ["integer", "fp64"]
    assert limit["memory_s"] == 0
    cuda.of_gpu |= {"together_per_s": 1e12, "cache_bytes": 0}
    out = run(*words).out
    assert "by the rate of all operations together; the run reaches" in out
    assert "launches touch" not in out


def test_what_the_memory_still_allows(
    run: Run, cuda: FakeCuda, graph: Path, tmp_path: Path
) -> None:
    # The graph has 117 edges and 40 ranks. Each of the two GPUs loads 12 bytes for each of 58
    # edges, and stores 4 bytes for each of 20 ranks, in each of ten iterations. 40 ranks arrive
    # from the other GPU.
    cuda.of_gpu |= {"read_bytes_per_s": 1e8, "write_bytes_per_s": 1e7}
    rows = by_name(result(run, tmp_path, "study", "pagerank", "--data", graph, "--gpus", 2))
    wire = rows[2, BULK_COPY]["wire"]
    loaded, stored = 2 * 12 * 58 * 10, 2 * 4 * 20 * 10
    received = wire["useful"] + wire["wasted"]
    needed_s = loaded / 2 / 1e8 + (stored + received) / 2 / 1e7
    assert needed_s > rows[2, INFINITE_BANDWIDTH]["time_s"]
    assert rows[2, INLINE]["reachable"] == pytest.approx(rows[1, BULK_COPY]["time_s"] / needed_s)
    cuda.of_gpu["cache_bytes"] = 1 << 20
    rows = by_name(result(run, tmp_path, "study", "pagerank", "--data", graph, "--gpus", 2))
    assert rows[2, INLINE]["reachable"] == rows[2, INLINE]["opportunity"]


@pytest.mark.usefixtures("core")
def test_what_simulated_links_allow_is_the_bound_s_to_say(
    run: Run, graph: Path, tmp_path: Path
) -> None:
    words = study_of(graph, "--gpus", 2)
    document = result(run, tmp_path, *words)
    assert [row["reachable"] for row in document["rows"]] == [
        1.0, *[None] * (len(document["rows"]) - 1),
    ]  # fmt: skip
    assert "rates of links" not in run(*words).out


def test_nothing_is_reachable_without_a_bulk_copy(
    run: Run, cuda: FakeCuda, graph: Path, tmp_path: Path
) -> None:
    words = ["study", "pagerank", "--data", graph, "--gpus", 2, "--mechanisms", INLINE]
    assert by_name(result(run, tmp_path, *words))[2, INLINE]["reachable"] is None
    assert cuda.rates == []


def test_launched_kernels_have_chunks_and_threads(
    run: Run, cuda: FakeCuda, graph: Path, tmp_path: Path
) -> None:
    words = ["study", "pagerank", "--data", graph, "--gpus", 2, "--chunks", "4K"]
    words += ["--threads", "32,256", "--mechanisms", "bulk-copy,device-launch"]
    row = by_name(result(run, tmp_path, *words))[2, DEVICE_LAUNCH]
    configs = [{"chunk_bytes": 4 * KIB, "agent_threads": n} for n in (32, 256)]
    assert row["config"]["tried"] == configs
    assert (row["derived"], row["verified"]) == (False, True)
    assert [call[5:] for call in cuda.calls if call[2] == DEVICE_LAUNCH] == [
        (1, 4 * KIB, n, "") for n in (32, 256)
    ]


@pytest.mark.parametrize("name", [PROACT_HARDWARE, SERIAL_COPY])
def test_what_no_gpu_runs_is_refused(run: Run, cuda: FakeCuda, graph: Path, name: str) -> None:
    ran = run("study", "pagerank", "--data", graph, "--mechanisms", f"bulk-copy,{name}")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == (
        f"interlace: --mechanisms {name}: real GPUs cannot run this mechanism; leave it out, or "
        "name a "
        "machine to simulate with --machine\n"
    )
    assert cuda.calls == []


def test_measured_without_counters(run: Run, cuda: FakeCuda, graph: Path, tmp_path: Path) -> None:
    cuda.counters = False
    document = result(run, tmp_path, "study", "pagerank", "--data", graph, "--gpus", 2)
    for row in document["rows"][1:-1] + document["candidates"]:
        assert row["wire"]["protocol"] is None
        assert row["wire"]["useful"] > 0


def test_a_measured_study_generates_on_the_gpu(run: Run, cuda: FakeCuda, tmp_path: Path) -> None:
    document = result(run, tmp_path, "study", "pagerank", "--rmat", 7, "--gpus", 1)
    assert document["rows"][0]["data"] == "rmat-7"
    assert cuda.calls == [("cuda", 1, BULK_COPY, 10, 0.0, 1, MIB, 32, "")]


def test_the_wire_of_a_long_run_follows_from_short_ones(core: Fake, graph: Path) -> None:
    workload = Pagerank.load(PagerankInputs(data=graph), None)
    case = Case(4, INLINE)
    long = workload.count(core, case, 50).wire
    assert {call[3] for call in core.calls} == {2, 3}
    assert abs((long.useful or 0) - 0.95 * 4 * 40 * 3 * 50) < 50
    assert long.protocol is None


# --- tables and files -----------------------------------------------------------------------------


@pytest.mark.usefixtures("core")
def test_the_plain_table(run: Run, graph: Path) -> None:
    ran = run(*study_of(graph, "--gpus", "2", "--split", "2"))
    lines = ran.out.splitlines()
    assert lines[0] == (
        "pagerank, forty (40 vertices, 117 edges), 10 iterations; simulated on 4x-volta-nvlink2"
    )
    assert lines[1].startswith("With every mechanism, 2 GPUs are slower than one; the fastest, ")
    del lines[1]
    assert lines[2].split()[:5] == ["GPUs", "mechanism", "time", "speedup", "opportunity"]
    assert lines[3].split()[:3] == ["us", "x", "x"]
    assert lines[4].split()[:2] == ["1", BULK_COPY]
    assert lines[5] == ""
    assert [" ".join(line.split()[1:4]) for line in lines[7:8]] == ["split (2 ranges)"]
    assert lines[-6].startswith("All rows verified; the largest relative error is ")
    assert re.fullmatch(
        r"Simulated \d+\.\d\d to \d+\.\d\d million accesses per second of CPU time\.", lines[-5]
    )
    assert lines[-4].startswith("slower: this row is slower than one GPU")
    assert lines[-3:-1] == [
        "The numbers after polling and device-launch are (chunk bytes, threads).",
        "The number after copy-engine and proact-hardware is (chunk bytes). "
        "K is 2^10, and M is 2^20.",
    ]
    assert re.fullmatch(r"Copies take \d+% of bulk-copy's time on 2 GPUs\.", lines[-1])
    assert max(map(len, lines[2:])) <= 100
    assert "\x1b" not in ran.out
    words = [" ".join(line.split()[1:4]) for line in lines[9:13]]
    assert [word[: word.index(")") + 1] for word in words] == [
        "polling (64K, 4K)", "device-launch (64K, 4K)", "copy-engine (1M)", "proact-hardware (64K)",
    ]  # fmt: skip
    ends = {len(line) for line in (*lines[2:5], *lines[6:14])}
    assert len(ends) == 1  # the last column is right-aligned


@pytest.mark.usefixtures("core")
@pytest.mark.parametrize("width", [60, 80, 100, 140])
def test_the_table_fits_the_terminal(
    run: Run, graph: Path, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr("interlace.base.table.terminal", lambda: True)
    ran = run(*study_of(graph, "--gpus", "2"))
    assert ran.code == 0
    body = [line for line in ran.out.splitlines()[3:] if "All rows" not in line]
    body = body[: next(n for n, line in enumerate(body) if line.startswith("Simulated "))]
    assert max(map(len, body)) <= width
    for word in ("opportunity", "captured", "overlap", "useful", "protocol", "wasted"):
        assert sum(f"{word} " in line or line.endswith(word) for line in body) == 1
    assert "…" not in ran.out


def _row(mechanism: str, time_s: float) -> StudyRow:
    speedup = 1 / time_s
    return StudyRow(
        workload="w", data="d", node="sim", machine="m", gpus=2, mechanism=mechanism, config={},
        iterations=1, time_s=time_s, speedup=speedup, opportunity=1.25, captured=speedup / 1.25,
        derived=False, verified=True, max_error=0, wire=WireRow(0, 0, 0), overlap=0,
    )  # fmt: skip


def _study_of(*rows: StudyRow) -> Study:
    single = msgspec.structs.replace(_row(BULK_COPY, 1), gpus=1, opportunity=1, captured=1)
    return Study(
        format=1, command="", version="", commit=None, date="", driver=None, machine={},
        data={"size": ""}, notes=[], rows=[single, *rows], candidates=[],
    )  # fmt: skip


def test_what_is_slower_than_one_gpu_captures_nothing() -> None:
    study = _study_of(_row(BULK_COPY, 1.7), _row(SPLIT, 1.004), _row(INLINE, 0.9))
    cells = {column.name: column.cells for column in columns(study.rows)}
    assert cells["captured"] == ["100", "slower", "80", "89"]
    assert summary(study) == (
        "On 2 GPUs, inline is the fastest: 1.11 times one GPU, 89% of the opportunity (1.25 "
        "times), and 1.89 times bulk-copy. 1 of 3 mechanisms is slower than one GPU."
    )
    unbound = [msgspec.structs.replace(row, captured=None) for row in study.rows]
    assert "slower" not in " ".join(footers(msgspec.structs.replace(study, rows=unbound)))
    assert (
        footers(study)[1]
        == "slower: this row is slower than one GPU, so no share of the opportunity is shown."
    )


def test_a_study_in_which_nothing_is_faster() -> None:
    study = _study_of(_row(BULK_COPY, 1.7), _row(INLINE, 1.5))
    assert summary(study) == (
        "With every mechanism, 2 GPUs are slower than one; the fastest, inline, takes 1.50 times "
        "as long."
    )
    assert "slower" not in " ".join(footers(_study_of(_row(INLINE, 0.5))))


def test_numbers_in_tables() -> None:
    assert table.fixed([92.84, None, 1234.5, 0, 7e-4]) == ["93", "-", "1234", "0", "0"]
    assert table.fixed([11.42, 0.203]) == ["11.42", "0.20"]
    assert table.fixed([float("nan")]) == ["-"]
    assert table.percent(-0.004) == "0"
    assert table.percent(None) == "-"
    assert table.scale([2.5e6, 10], table.BYTES) == (1e6, "MB")
    assert table.scale([], table.BYTES) == (1.0, "B")
    assert table.scale([1e-9], table.SECONDS) == (1e-6, "us")


def test_files_are_whole_or_not_there(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_text("old")
    files.write_all({first: "new", second: "new"})
    assert first.read_text() == second.read_text() == "new"
    assert first.stat().st_mode & 0o777 == 0o666 & ~_umask()
    with pytest.raises(UserError, match="cannot be written: No such file or directory"):
        files.write_all({tmp_path / "missing" / "file": "newer"})
    assert first.read_text() == "new"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first", "second"]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    files.check_writable(link, "--json")
    files.write_all({link: "new"})
    assert link.is_symlink()
    assert target.read_text() == "new"


def test_a_full_disk_leaves_no_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UserError, match=r"x\.json cannot be written: No space left on device"):
        files.write_all({tmp_path / "x.json": "text"})
    assert list(tmp_path.iterdir()) == []


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


# --- adding a workload ----------------------------------------------------------------------------


@pytest.mark.usefixtures("core")
def test_a_new_workload_is_a_class(run: Run, graph: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Other(Pagerank):
        name = "other"

        @classmethod
        def function(cls) -> str:
            return Pagerank.function()

    monkeypatch.setitem(workloads.WORKLOADS, "other", Other)
    ran = run("study", "other", "--data", graph, "--machine", MACHINE, "--gpus", 1)
    assert ran.code == 0
    assert ran.out.startswith("other, forty")
    ran = run("study", "others", "--machine", MACHINE)
    assert "(did you mean other?); give one of pagerank, jacobi, sssp, als, " in ran.err
    assert ran.err.endswith("other\n")


def test_results_do_not_depend_on_the_order_they_come_in(core: Fake, graph: Path) -> None:
    from interlace.nodes.nodes import SimulatedNode

    class Backwards(SimulatedNode):
        def outcomes(self, workload: Any, cases: Any) -> Any:
            yield from reversed([copy.deepcopy(o) for o in super().outcomes(workload, cases)])

    plan = evaluation.Plan(
        (2, 4), (BULK_COPY, SPLIT, INFINITE_BANDWIDTH), Tuning((2, 4), (MIB,), (4096,))
    )

    def rows(kind: type[SimulatedNode]) -> list[Any]:
        workload = Pagerank.load(PagerankInputs(data=graph), None)
        made, others, _ = evaluation.run_study(workload, kind(core, MACHINE, 2), plan)
        return [(r.gpus, r.mechanism, r.config, r.time_s, r.overlap) for r in [*made, *others]]

    assert rows(SimulatedNode) == rows(Backwards)


# --- the real core --------------------------------------------------------------------------------


def test_the_real_core(run: Run, graph: Path, tmp_path: Path) -> None:
    pytest.importorskip("interlace._core")
    document = result(run, tmp_path, *study_of(graph, "--gpus", "1,2,4", "--split", "2,4"))
    rows = by_name(document)
    assert len(rows) == 1 + 2 * len(DEFAULTS)
    for gpus in (2, 4):
        bound = rows[gpus, INFINITE_BANDWIDTH]
        for name in DEFAULTS[:-1]:
            row = rows[gpus, name]
            assert row["time_s"] >= bound["time_s"]
            assert row["wire"]["useful"] > 0
            assert row["sim"]["accesses"] > 0
        assert rows[gpus, INLINE]["sim"]["remote_transactions"] > 0


def test_two_real_runs_are_equal(run: Run, graph: Path, tmp_path: Path) -> None:
    pytest.importorskip("interlace._core")

    def timeless() -> dict[str, Any]:
        document = result(run, tmp_path, *study_of(graph, "--gpus", "1,4", "--split", "2,4"))
        document["date"] = None
        for row in document["rows"] + document["candidates"]:
            row["sim"]["cpu_s"] = row["sim"]["peak_rss_mb"] = None
        return document

    assert timeless() == timeless()


def test_every_number_of_gpus_is_right(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("interlace._core")
    counts = ",".join(map(str, range(2, 17)))
    named = "bulk-copy,inline,polling,device-launch,copy-engine,proact-hardware"
    words = ("study", "jacobi", "--rows", 20011, "--half-bandwidth", 3, "--iterations", 3,
             "--machine", "dgx-2", "--gpus", counts, "--chunks", "4K", "--threads", 64,
             "--mechanisms", named)  # fmt: skip
    rows = by_name(result(run, tmp_path, *words))
    assert len(rows) == 1 + 15 * len(named.split(","))
    assert all(row["verified"] for row in rows.values())
