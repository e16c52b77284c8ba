"""Tests `interlace bench overlap`, with a stand-in for the GPUs."""

from __future__ import annotations

import json
import re
import statistics
from pathlib import Path
from typing import Any

import pytest

from fake_core import FakeCuda
from interlace.base.installation import built, built_without_cuda
from interlace.model.mechanism_table import (
    BULK_COPY,
    COPY_ENGINE,
    DEVICE_LAUNCH,
    INLINE,
    POLLING,
    PROACT_HARDWARE,
    SERIAL_COPY,
    SPLIT,
)
from interlace.model.mechanisms import GIB, KIB, MIB
from study_helpers import Run

ROW_KEYS = [
    "peers", "mechanism", "config", "reason", "epoch_s", "time_s", "speedup", "rate_bytes",
    "rate_epoch_s", "gb_per_s", "limit", "of_limit", "best", "tracking",
    "untransferred_epoch_s", "remarks",
]  # fmt: skip
FILE_KEYS = [
    "format", "benchmark", "command", "version", "commit", "date", "driver", "machine", "bytes",
    "epochs", "warmup", "repeats", "balances", "rows",
]  # fmt: skip
# The mechanisms that real GPUs can run, in the order of the rows.
MEASURED = [BULK_COPY, SPLIT, INLINE, POLLING, DEVICE_LAUNCH, COPY_ENGINE]
TRACKED = MEASURED[3:]


def result(run: Run, tmp_path: Path, *words: object) -> dict[str, Any]:
    out = tmp_path / "out.json"
    ran = run("bench", "overlap", *words, "--json", out)
    assert ran.code == 0, ran.err
    assert ran.err == ""
    document: dict[str, Any] = json.loads(out.read_text())
    return document


@pytest.mark.usefixtures("cuda")
def test_the_file(run: Run, tmp_path: Path) -> None:
    document = result(run, tmp_path, "-n", 7, "-w", 0, "--repeats", 3)
    assert list(document) == FILE_KEYS
    assert document["command"].startswith("interlace bench overlap -n 7")
    assert document["driver"] == "580.1"
    assert document["machine"]["name"] == "4x Fake H200"
    assert document["bytes"] == 256 * MIB
    assert [document[key] for key in ("epochs", "warmup", "repeats")] == [7, 0, 3]
    balances = {it["peers"]: it for it in document["balances"]}
    assert list(balances) == [1, 3]
    for row in document["rows"]:
        assert list(row) == ROW_KEYS
        balance = balances[row["peers"]]
        bulk = next(
            it
            for it in document["rows"]
            if (it["peers"], it["mechanism"]) == (row["peers"], BULK_COPY)
        )
        assert row["reason"] is None
        assert row["time_s"] == statistics.median(row["epoch_s"])
        assert row["speedup"] == bulk["time_s"] / row["time_s"]
        rate = row["peers"] * row["rate_bytes"] / statistics.median(row["rate_epoch_s"])
        assert row["gb_per_s"] == pytest.approx(1e-9 * rate)
        if row is bulk:
            assert row["epoch_s"] == [time for part in balance["bulk_epoch_s"] for time in part]
            assert (row["limit"], row["of_limit"], row["best"]) == (None, None, False)
            continue
        assert len(row["epoch_s"]) == 3
        least_s = max(balance["compute_s"], row["peers"] * 256 * MIB / rate)
        assert row["limit"] == pytest.approx(
            (balance["compute_s"] + balance["transfer_s"]) / least_s
        )
        assert row["of_limit"] == row["speedup"] / row["limit"]
    for peers, balance in balances.items():
        assert balance["compute_s"] == pytest.approx(balance["transfer_s"], rel=0.02)
        copied, stored = (
            statistics.median(balance[key]) for key in ("copied_epoch_s", "stored_epoch_s")
        )
        assert balance["transfer_s"] == copied - stored
        first, last = map(statistics.median, balance["bulk_epoch_s"])
        assert balance["spread"] == pytest.approx((last - first) / first)
        own = [row for row in document["rows"] if row["peers"] == peers]
        assert list(dict.fromkeys(row["mechanism"] for row in own)) == MEASURED
        for mechanism in MEASURED[1:]:
            rows = [row for row in own if row["mechanism"] == mechanism]
            fastest = min(rows, key=lambda row: row["time_s"])
            assert [row for row in rows if row["best"]] == [fastest]


def test_what_is_measured(run: Run, cuda: FakeCuda, tmp_path: Path) -> None:
    document = result(run, tmp_path, "--peers", 2, "--threads", 32)
    rows = document["rows"]
    sizes = [4 * KIB * 4**n for n in range(9)]
    polled = [row["config"] for row in rows if row["mechanism"] == POLLING]
    by_vectors = [{"chunk_bytes": size, "agent_threads": 32} for size in sizes]
    assert polled == by_vectors + [{"chunk_bytes": size, "bulk_threads": 32} for size in sizes]
    launched = [row["config"] for row in rows if row["mechanism"] == DEVICE_LAUNCH]
    assert launched == by_vectors
    asked_of = {call[7] for call in cuda.overlaps if call[2] == POLLING}
    assert asked_of == {"", "bulk"}
    assert {call[7] for call in cuda.overlaps if not call[2].startswith(POLLING)} == {""}
    copied = [row["config"]["chunk_bytes"] for row in rows if row["mechanism"] == COPY_ENGINE]
    # With these sizes, there are so few chunks that streams can wait for each of them.
    assert copied == sizes[5:]
    ranges = [row["config"]["ranges"] for row in rows if row["mechanism"] == SPLIT]
    assert ranges == [2, 4, 8, 16, 32]
    # A part of 1 GiB has too many chunks of 4 MiB for streams to wait for each of them. A part of
    # 256 MiB has few enough.
    first = next(row for row in rows if row["config"].get("chunk_bytes") == copied[0] and
                 row["mechanism"] == COPY_ENGINE)  # fmt: skip
    assert first["rate_bytes"] == 256 * MIB
    assert {row["rate_bytes"] for row in rows if row is not first} == {GIB}

    rounds = document["balances"][0]["rounds"]
    for peers, size, mechanism, _, _, asked, deliver, _ in cuda.overlaps:
        assert peers == 2
        assert asked in (0, rounds) or not deliver
        assert deliver or mechanism == BULK_COPY
        assert size == (256 * MIB if asked else size)
    bulk = [n for n, call in enumerate(cuda.overlaps) if call[2] == BULK_COPY and call[5]]
    bulk = [n for n in bulk if cuda.overlaps[n][6]]
    assert len(bulk) == 2
    others = [
        n
        for n, call in enumerate(cuda.overlaps)
        if call[2] != BULK_COPY and not call[2].endswith("-without-transfers")
    ]
    assert bulk[0] < min(others)
    assert max(others) < bulk[1]


@pytest.mark.usefixtures("cuda")
def test_chunks_beyond_the_transfer_are_one(run: Run, tmp_path: Path) -> None:
    document = result(run, tmp_path, "-b", "1M", "--peers", 1, "--threads", 4096)
    found: dict[str, list[int]] = {POLLING: [], COPY_ENGINE: []}
    for row in document["rows"]:
        if row["mechanism"] in found:
            found[row["mechanism"]].append(row["config"]["chunk_bytes"])
    # Chunks grow and shrink, so chunks of 4 MiB cut even a part of 1 MiB. Chunks of at least 16 MiB
    # do not cut it.
    sizes = [4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB]
    # The first list is for agents that copy by threads. The second list is for agents that make
    # bulk copies.
    sizes_of_both = [*sizes, *sizes]
    assert found == {POLLING: sizes_of_both, COPY_ENGINE: sizes[1:]}
    assert {row["rate_bytes"] for row in document["rows"] if row["mechanism"] != COPY_ENGINE} == {
        4 * MIB
    }


def test_the_best_that_track_say_what_that_costs(run: Run, cuda: FakeCuda, tmp_path: Path) -> None:
    document = result(run, tmp_path, "--chunks", "1M,4M", "--threads", "4096,16384")
    for peers in (1, 3):
        rows = [row for row in document["rows"] if row["peers"] == peers]
        bulk = statistics.median(rows[0]["untransferred_epoch_s"])
        known = [row for row in rows if row["tracking"] is not None]
        assert [row["mechanism"] for row in known] == TRACKED
        for row in known:
            assert row["best"]
            found = statistics.median(row["untransferred_epoch_s"])
            assert row["tracking"] == found / bulk - 1
            # The fake has a tracking cost of 1 %. The times of the fake drift.
            assert row["tracking"] == pytest.approx(0.01, abs=0.01)
        others = [row for row in rows[1:] if row["tracking"] is None]
        assert {row["mechanism"] for row in others if row["best"]} == {SPLIT, INLINE}
        assert all(row["untransferred_epoch_s"] == [] for row in others)
    # The same computation without transfers, in the configuration that was fastest.
    best = {
        (
            row["peers"],
            row["mechanism"],
            row["config"]["chunk_bytes"],
            "bulk" if "bulk_threads" in row["config"] else "",
        )
        for row in document["rows"]
        if row["tracking"] is not None
    }
    rounds = {it["peers"]: it["rounds"] for it in document["balances"]}
    asked = [call for call in cuda.overlaps if call[2].endswith("-without-transfers")]
    assert all(call[5] == rounds[call[0]] and call[6] for call in asked)
    without = [
        (call[0], call[2].removesuffix("-without-transfers"), *call[3:8:4]) for call in asked
    ]
    tracked = [it for it in without if it[1] != BULK_COPY]
    assert set(tracked) == best
    assert len(without) == len(tracked) + 2 == 8


def test_mechanisms_without_chunks_have_no_tracking(
    run: Run, cuda: FakeCuda, tmp_path: Path
) -> None:
    document = result(run, tmp_path, "--mechanisms", "split,inline", "--peers", 1)
    assert all(row["tracking"] is None for row in document["rows"])
    assert not any(call[2].endswith("-without-transfers") for call in cuda.overlaps)
    assert "tracking" not in run("bench", "overlap", "--mechanisms", "split,inline").out


def test_agents_copy_in_bulk_where_they_fit(run: Run, cuda: FakeCuda, tmp_path: Path) -> None:
    words = ["--mechanisms", POLLING, "--chunks", "1M", "--peers", 1]
    document = result(run, tmp_path, *words, "--threads", "8192,16384")
    configs = [row["config"] for row in document["rows"][1:]]
    vectors = [{"chunk_bytes": MIB, "agent_threads": n} for n in (8192, 16384)]
    bulk = {"chunk_bytes": MIB, "bulk_threads": 8192}  # 16384 threads need too much memory
    assert configs == [*vectors, bulk]
    assert all(row["reason"] is None for row in document["rows"])
    assert [row["best"] for row in document["rows"]] == [False, False, False, True]
    assert {call[7] for call in cuda.overlaps if call[2] == "polling-without-transfers"} == {"bulk"}


def test_what_is_refused_is_a_row(run: Run, cuda: FakeCuda, tmp_path: Path) -> None:
    words = ["--mechanisms", COPY_ENGINE, "--chunks", "64K,4M", "--peers", 3]
    document = result(run, tmp_path, *words)
    bulk, refused, done = document["rows"]
    assert refused["reason"] == "chunks of 65536 bytes are too small"
    assert (refused["epoch_s"], refused["time_s"], refused["best"]) == ([], None, False)
    assert done["best"]
    assert bulk["mechanism"] == BULK_COPY
    ran = run("bench", "overlap", *words)
    assert (
        "copy-engine (64 KiB) to 3 peers: not possible: chunks of 65536 bytes are too small\n"
        in (ran.out)
    )
    cuda.crash = COPY_ENGINE
    ran = run("bench", "overlap", *words, "--json", tmp_path / "none.json")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == ("interlace: copy-engine (64 KiB) to 3 peers: GPU 1 did not get element 7\n")
    assert not (tmp_path / "none.json").exists()


@pytest.mark.usefixtures("cuda")
def test_the_table(run: Run) -> None:
    ran = run("bench", "overlap", "--mechanisms", "bulk-copy,inline,polling", "--chunks", "256K")
    lines = ran.out.splitlines()
    assert lines[0] == (
        "overlap: copies of 256 MiB to each peer beside a kernel of equal length; "
        "measured on 4x Fake H200"
    )
    assert lines[2].split() == [
        "peers", "mechanism", "epoch", "speedup", "own", "rate", "limit", "of", "limit",
    ]  # fmt: skip
    assert lines[4].split()[:2] == ["1", BULK_COPY]
    assert lines[4].split()[3] == "1.00"
    assert lines[5].startswith("    1  inline ")
    assert lines[6].startswith("    1  polling (256 KiB, 4096 threads) ")
    assert lines[8].startswith("    1  polling (256 KiB, 4096 threads, bulk) ")
    # The best configuration of each mechanism is marked.
    assert [n for n in range(4, 9) if lines[n].endswith("  best")] == [5, 8]
    assert lines[9] == ""
    assert lines[10].split()[:2] == ["3", BULK_COPY]
    assert max(map(len, lines[:15])) <= 100
    assert lines[16].startswith("1 peer: the copies take 6")
    assert lines[17].startswith("3 peers: the copies take 2")
    assert " %." in lines[17]
    for line, peers in ((18, "1 peer"), (19, "3 peers")):
        assert re.fullmatch(
            rf"polling \(256 KiB, 4096 threads, bulk\) to {peers}: tracking alone takes 1\.\d % of "
            r"the time\.",
            lines[line],
        )
    assert lines[20:] == ["inline to 1 peer and 1 more row: its stores took the host's path"]


def test_a_transfer_that_cannot_be_measured(run: Run, cuda: FakeCuda) -> None:
    cuda.measure_overlap = lambda **_: {"epoch_s": [1.0], "remarks": []}  # type: ignore[method-assign]
    ran = run("bench", "overlap", "--peers", 1)
    assert ran.code == 1
    assert ran.err == (
        "interlace: the copies of 256 MiB to 1 peer are too short to be measured; "
        "give more --bytes\n"
    )


@pytest.mark.usefixtures("cuda")
@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ["overlapp"],
            "there is no command bench 'overlapp' (did you mean overlap?); give one of blocks, "
            "collective, copy, load, overlap, park, simulator, updates",
        ),
        (
            ["overlap", "--peers", "4"],
            "--peers 4: on 4x Fake H200 the first GPU has 3 peers; give at most 3",
        ),
        (["overlap", "--peers", "0"], "--peers '0': the number of peers must be at least 1, not 0"),
        (["overlap", "-b", "32K"], "--bytes '32K': give a size from 64K to 16G, such as 256M"),
        (["overlap", "-b", "17G"], "--bytes '17G': give a size from 64K to 16G, such as 256M"),
        (["overlap", "-b", "1000"], "--bytes '1000': give a size from 64K to 16G, such as 256M"),
        (
            ["overlap", "--chunks", "1K"],
            "--chunks '1K': give sizes from 4K to 256M with commas between them, such as "
            "64K,256K,1M",
        ),
        (
            ["overlap", "--threads", "100"],
            "--threads '100': give multiples of 32 from 32 to 65536 with commas between them, such "
            "as 4096,16384",
        ),
        (
            ["overlap", "--mechanisms", "inline,infinite-bandwidth"],
            "--mechanisms infinite-bandwidth: real GPUs cannot run this bound; leave it out",
        ),
        *(
            (
                ["overlap", "--mechanisms", f"bulk-copy,{name}"],
                f"--mechanisms {name}: real GPUs cannot run this mechanism; leave it out",
            )
            for name in (PROACT_HARDWARE, SERIAL_COPY)
        ),
        (["overlap", "-n", "0"], "--epochs 0: give a number of at least 1"),
        (["overlap", "-w", "-1"], "--warmup -1: give a number of at least 0"),
        (["overlap", "--repeats", "x"], "--repeats 'x': give a whole number"),
        (["overlap", "--json", "/"], "--json /: give the name of a file"),
    ],
)
def test_wrong_input(run: Run, cuda: FakeCuda, words: list[str], sentence: str) -> None:
    ran = run("bench", *words)
    assert (ran.code, ran.out, ran.err) == (2, "", f"interlace: {sentence}\n")
    assert cuda.overlaps == []


def test_without_gpus(run: Run, cuda: FakeCuda) -> None:
    cuda.gpus = 1
    ran = run("bench", "overlap")
    assert ran.code == 2
    assert ran.err == "interlace: overlap needs at least 2 GPUs; 1x Fake H200 has 1\n"
    cuda.gpus = 0
    ran = run("bench", "overlap")
    assert ran.code == 2
    assert ran.err == "interlace: there is no GPU here; run bench on a computer with GPUs\n"


@pytest.mark.usefixtures("core")
def test_without_cuda(run: Run) -> None:
    ran = run("bench", "overlap")
    assert ran.code == 2
    assert ran.err == (
        f"interlace: {built_without_cuda(built())}; kernels on GPUs need CUDA; copies, load, save "
        "and interlace run still work; run bench on a computer with GPUs\n"
    )
