"""Tests measurements of other libraries: when a measurement runs, and what a command prints if a
measurement cannot run.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from fake_core import FakeCuda
from interlace.model.mechanism_table import (
    BULK_COPY,
    COPY_ENGINE,
    DEVICE_LAUNCH,
    INFINITE_BANDWIDTH,
    INLINE,
    MEMORY_HINT,
    MULTI_PATH,
    NCCL,
    NVSHMEM,
    POLLING,
    SPLIT,
    UNIFIED_MEMORY,
)
from interlace.model.mechanisms import (
    COLLECTIVES,
    EVERY,
    MECHANISMS,
    MIB,
    OWNER_COLLECTIVES,
    PEERS,
    Config,
    Tuning,
    label,
)
from interlace.nodes import peers
from interlace.show.study import legend
from study_helpers import MACHINE, Run, study_of

RUN_BY_GPUS = (BULK_COPY, SPLIT, INLINE, POLLING, DEVICE_LAUNCH, COPY_ENGINE)
JACOBI = ("study", "jacobi", "--rows", 1 << 12, "--gpus", 2, "-n", 1)


@pytest.fixture(autouse=True)
def no_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Act as if no Python package with one of the libraries is installed."""
    monkeypatch.setattr(peers, "package_files", lambda *_: [])


def result(run: Run, tmp_path: Path, *words: object) -> dict[str, Any]:
    out = tmp_path / "out.json"
    ran = run(*words, "--json", out)
    assert ran.code == 0, ran.err
    document: dict[str, Any] = json.loads(out.read_text())
    return document


def names(document: dict[str, Any]) -> list[str]:
    return [row["mechanism"] for row in document["rows"] if row.get("gpus", 2) > 1]


def test_variants_are_tried() -> None:
    tuning = Tuning((2,), (MIB,), (4096,))
    assert tuning.configs(NCCL, MIB) == [Config(variant=name) for name in COLLECTIVES]
    assert tuning.configs(UNIFIED_MEMORY, MIB) == [
        Config(variant=name) for name in MEMORY_HINT.names
    ]
    assert label(NCCL, Config(variant="all-gather"), short=True) == "nccl (all-gather)"
    hinted = Config(variant="preferred-location")
    assert label(UNIFIED_MEMORY, hinted, short=True) == "unified-memory (preferred)"
    assert label(UNIFIED_MEMORY, hinted) == "unified-memory (preferred-location)"
    assert legend([NCCL, UNIFIED_MEMORY]) == ["The word after unified-memory is the hint."]
    assert Config(variant="broadcast").arguments() == (1, MIB, 32, "broadcast")
    assert Config().arguments()[3] == ""
    assert set(EVERY) == {*MECHANISMS, MULTI_PATH, *PEERS}


def test_nccl_stands_in_the_table_where_it_is(run: Run, cuda: FakeCuda, tmp_path: Path) -> None:
    cuda.nccl = "2.28.9"
    document = result(run, tmp_path, *JACOBI)
    assert names(document) == [*RUN_BY_GPUS, NCCL, INFINITE_BANDWIDTH]
    assert document["machine"][NCCL] == "2.28.9"
    row = next(row for row in document["rows"] if row["mechanism"] == NCCL)
    assert row["config"]["variant"] == "broadcast"  # this is the fastest collective of the fake
    assert row["config"]["tried"] == [{"variant": name} for name in COLLECTIVES]
    others = [c["config"]["variant"] for c in document["candidates"] if c["mechanism"] == NCCL]
    assert sorted(others) == ["all-gather", "send-receive"]
    assert [call[8] for call in cuda.calls if call[2] == NCCL] == list(COLLECTIVES)
    assert not any(note.startswith("nccl: not available") for note in document["notes"])


def test_a_halo_is_sent_and_received(run: Run, cuda: FakeCuda, tmp_path: Path) -> None:
    cuda.nccl = "2.28.9"
    result(run, tmp_path, *JACOBI, "--halo", "--mechanisms", "bulk-copy,nccl")
    assert [call[8] for call in cuda.calls if call[2] == NCCL] == ["send-receive"]


def test_what_is_missing_is_said(
    run: Run, cuda: FakeCuda, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = result(run, tmp_path, *JACOBI)
    assert names(document) == [*RUN_BY_GPUS, INFINITE_BANDWIDTH]
    assert document["machine"][NCCL] is None
    nccl = "nccl: not available: NCCL cannot be loaded (tried libnccl.so.2)."
    absent = (
        f"nvshmem: not available: NVSHMEM is not installed for {sys.executable} (the Python "
        "package nvidia-nvshmem-cu13)."
    )
    assert {nccl, absent} <= set(document["notes"])
    assert run(*JACOBI).out.splitlines()[-2:] == [nccl, absent]
    ran = run("bench", "overlap", "--peers", 1, "-b", "1M", "--threads", 32)
    assert ran.out.splitlines()[-2:] == [nccl, absent]

    found = {"nvidia.nccl": ["/env/nccl/lib/libnccl.so.2"], "nvidia.nvshmem": ["/env/lib"]}
    monkeypatch.setattr(peers, "package_files", lambda package, _: found[package])
    assert (
        "nvshmem: not available: NVSHMEM needs a process for each GPU, but "
        "this command drives all GPUs from one process; use interlace study "
        "for NVSHMEM, or measure its puts with bench/nvshmem_exchange.cpp."
    ) in run("bench", "overlap", "--peers", 1, "-b", "1M", "--threads", 32).out.splitlines()
    assert cuda.nccl_files == found["nvidia.nccl"]


def test_what_is_asked_for_and_missing_ends_the_study(run: Run, cuda: FakeCuda) -> None:
    for words in ((*JACOBI,), ("bench", "overlap")):
        ran = run(*words, "--mechanisms", "bulk-copy,nccl")
        assert (ran.code, ran.out) == (2, "")
        assert ran.err == (
            "interlace: --mechanisms nccl: not available: NCCL cannot be loaded (tried "
            "libnccl.so.2)\n"
        )
        ran = run(*words, "--mechanisms", NVSHMEM)
        assert ran.code == 2
        assert "--mechanisms nvshmem: not available: NVSHMEM is not installed" in ran.err
    assert cuda.calls == []
    assert cuda.overlaps == []


def test_unified_memory_runs_where_it_is_named(run: Run, cuda: FakeCuda, tmp_path: Path) -> None:
    document = result(run, tmp_path, *JACOBI, "--mechanisms", "bulk-copy,unified-memory")
    assert names(document) == [BULK_COPY, UNIFIED_MEMORY]
    row = document["rows"][-1]
    assert row["config"]["tried"] == [{"variant": name} for name in MEMORY_HINT.names]
    assert row["config"]["variant"] == "accessed-by"
    # A step that may be refused because of its size must come before long steps.
    assert [call[2] for call in cuda.calls if call[0] == "cuda"][: len(MEMORY_HINT.names)] == (
        [UNIFIED_MEMORY] * len(MEMORY_HINT.names)
    )
    cuda.most_managed = 100
    ran = run(*JACOBI, "--mechanisms", "bulk-copy,unified-memory")
    assert ran.code == 2
    assert ran.err == "interlace: unified-memory would take too much\n"


@pytest.mark.usefixtures("core")
def test_simulated_machines_have_none(run: Run, graph: Path) -> None:
    for name in PEERS:
        ran = run(*study_of(graph, "--mechanisms", f"bulk-copy,{name}"))
        assert (ran.code, ran.out) == (2, "")
        assert ran.err == (
            f"interlace: --mechanisms {name}: it is measured on real GPUs and not simulated; leave "
            "it out, or take bulk-copy, which also moves everything at the exchange\n"
        )
    ran = run(*study_of(graph, "--gpus", 2))
    assert not any(name in ran.out for name in PEERS)
    assert MACHINE in ran.out


def test_one_owner_has_no_all_gather(run: Run, cuda: FakeCuda, tmp_path: Path) -> None:
    cuda.nccl = "2.28.9"
    words = ("bench", "overlap", "--peers", 3, "-b", "1M", "--threads", 32)
    document = result(run, tmp_path, *words)
    rows = [row for row in document["rows"] if row["mechanism"] == NCCL]
    assert [row["config"] for row in rows] == [{"variant": name} for name in OWNER_COLLECTIVES]
    assert [row["best"] for row in rows] == [True, False]
    assert document["machine"][NCCL] == "2.28.9"


def test_libraries_are_found_in_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    file = tmp_path / "example_maker" / "peer" / "lib" / "libnccl.so.2"
    file.parent.mkdir(parents=True)
    file.touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    assert peers.package_files("example_maker.peer", "libnccl.so.2") == [str(file)]
    assert peers.package_files("example_maker.peer", "other.so") == []
    assert peers.package_files("example_maker.other", "libnccl.so.2") == []
    assert peers.package_files("no_such_maker.peer", "libnccl.so.2") == []
