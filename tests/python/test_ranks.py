"""Tests runs that have a process for each GPU: how these processes work together.

The tests also check the error if one process fails.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from fake_core import FakeCuda
from interlace.base.errors import UserError
from interlace.model.mechanism_table import NVSHMEM
from interlace.model.run import Case, RunFailure
from interlace.nodes import peers, ranks
from interlace.workloads.pagerank import Pagerank, PagerankInputs
from study_helpers import Run

REAL = ranks.COMMAND
FAKE = (sys.executable, str(Path(__file__).with_name("fake_rank.py")))


@pytest.fixture(autouse=True)
def fakes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start processes with the fake module, as if NVSHMEM were the only library that is
    installed.
    """
    monkeypatch.setattr(ranks, "COMMAND", FAKE)
    monkeypatch.delenv("INTERLACE_NVSHMEM", raising=False)
    libraries = {"nvidia.nvshmem": ["/env/lib/libnvshmem_host.so.3"]}
    monkeypatch.setattr(peers, "package_files", lambda package, _: libraries.get(package, []))


@pytest.mark.usefixtures("cuda")
def test_a_row_of_the_study(run: Run, graph: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    words = ["study", "pagerank", "--data", graph, "--gpus", 2, "--repeats", 3]
    ran = run(*words, "--mechanisms", "bulk-copy,nvshmem", "--json", out)
    assert ran.code == 0, ran.err
    document: dict[str, Any] = json.loads(out.read_text())
    _, bulk, row = document["rows"]
    assert row["mechanism"] == NVSHMEM
    assert row["verified"] is True
    assert (row["iterations"], row["derived"]) == (10, False)
    # The row has the time of the slowest process for each repeat, and the counters of all
    # processes.
    assert row["cuda"]["times_s"] == pytest.approx(
        [row["time_s"] / 1.01 * k for k in (1, 1.01, 1.02)]
    )
    assert row["time_s"] < bulk["time_s"]
    assert row["wire"] == bulk["wire"]
    note = next(note for note in document["notes"] if note.startswith("nvshmem on 2 GPUs: "))
    assert note.startswith("nvshmem on 2 GPUs: NVSHMEM 3.4.5 with a process for each GPU, ")
    assert " nvshmem " in ran.out


def test_it_is_among_the_defaults_where_processes_meet(
    run: Run, cuda: FakeCuda, graph: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["study", "pagerank", "--data", graph, "--gpus", 2, "--repeats", 1, "--split", 2]
    assert " nvshmem " in run(*words).out
    monkeypatch.setattr(peers, "package_files", lambda *_: ["fails on 1"])
    cuda.nccl = None
    out = run(*words).out
    assert "nvshmem: not available: NVSHMEM: GPU 1: NVSHMEM cannot start." in out.splitlines()
    monkeypatch.setenv("INTERLACE_NVSHMEM", "broken")
    ran = run(*words, "--mechanisms", NVSHMEM)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == (
        "interlace: --mechanisms nvshmem: not available: NVSHMEM cannot be loaded (tried broken)\n"
    )
    cuda.gpus = 1
    ran = run("study", "pagerank", "--data", graph, "--mechanisms", NVSHMEM)
    assert ran.code == 2
    assert "not available: NVSHMEM connects several GPUs, and this computer has only one" in ran.err


def test_processes_import_nothing_from_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('imported')")
    monkeypatch.chdir(tmp_path)
    command = [*REAL[: REAL.index("-m")], "-c", "import json"]
    ended = subprocess.run(command, capture_output=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (0, b"")


def test_a_wrong_result_of_a_process_is_found(cuda: FakeCuda, graph: Path) -> None:
    workload = Pagerank.load(PagerankInputs(data=graph), None)
    outcome = ranks.measure(workload, Case(3, NVSHMEM), ["library"], 0, 2)
    assert outcome.values.shape == (3, 40)
    assert 0 <= workload.verify(outcome) < 1e-5
    outcome.values[2, 7] *= 1.001
    with pytest.raises(RunFailure, match=r"GPU 2 has .* for vertex 7"):
        workload.verify(outcome)
    assert cuda.calls == []  # this process itself made no calls


def test_one_that_fails_ends_all(graph: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workload = Pagerank.load(PagerankInputs(data=graph), None)
    began = time.monotonic()
    with pytest.raises(RunFailure, match=r"^nvshmem on 2 GPUs: GPU 1: NVSHMEM cannot start$"):
        ranks.measure(workload, Case(2, NVSHMEM), ["fails on 1"], 0, 1)
    with pytest.raises(RunFailure, match="GPU 0: its process was killed by SIGKILL"):
        ranks.measure(workload, Case(2, NVSHMEM), ["dies on 0"], 0, 1)
    with pytest.raises(UserError, match=r"^NVSHMEM cannot be loaded \(tried broken\)$"):
        ranks.measure(workload, Case(2, NVSHMEM), ["broken"], 0, 1)
    monkeypatch.setattr(ranks, "RUN_S", 2)
    with pytest.raises(RunFailure, match="after 2 s the processes of GPU 0, 1 still run"):
        ranks.measure(workload, Case(2, NVSHMEM), ["fails on none"], 0, 1)
    assert time.monotonic() - began < 50
