"""Tests `interlace bench copy` with fake GPUs: patterns, rows, files and refusals."""

from __future__ import annotations

import itertools
import json
import statistics
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fake_core import FakeCuda
from interlace.model.copies import HOST
from interlace.model.options import sizes_between
from interlace.study.copy_bench import PATTERNS, has_host, messages, rows_of
from study_helpers import Run

SMALL = ("--begin", "1M", "--end", "4M", "-n", "3", "-w", "1")


@settings(deadline=None)
@given(st.sampled_from(PATTERNS), st.integers(2, 16))
def test_patterns(pattern: str, gpus: int) -> None:
    pairs = messages(pattern, gpus)
    assert all(source != target for source, target in pairs)
    assert all(HOST <= end < gpus for pair in pairs for end in pair)
    sent = Counter(source for source, _ in pairs)
    received = Counter(target for _, target in pairs)
    if pattern in ("ring", "all-to-all"):
        share = 1 if pattern == "ring" else gpus - 1
        assert sent == received == dict.fromkeys(range(gpus), share)
        assert len(set(pairs)) == len(pairs)
    if pattern.startswith("all-"):
        assert len(pairs) == (gpus * (gpus - 1) if pattern == "all-to-all" else gpus)
    if pattern == "all-to-all":  # at no time may two senders have the same receiver
        for turn in range(0, len(pairs), gpus):
            assert len({target for _, target in pairs[turn : turn + gpus]}) == gpus


@settings(deadline=None)
@given(st.integers(0, 20), st.integers(0, 12), st.integers(2, 64))
def test_sizes_ascend(least: int, more: int, factor: int) -> None:
    first, last = 1024 << least, (1024 << least) << min(more, 24 - least)
    sizes = sizes_between(f"{first >> 10}K", f"{last >> 10}K", str(factor), 4)
    assert sizes[0] == first
    assert sizes[-1] <= last < sizes[-1] * factor
    assert all(b == a * factor for a, b in itertools.pairwise(sizes))


@settings(deadline=None)
@given(
    st.lists(st.floats(1e-6, 1.0), min_size=1, max_size=9),
    st.lists(st.floats(1e-6, 1.0), min_size=1, max_size=9),
    st.integers(1, 1 << 30),
    st.integers(1, 12),
)
def test_rows(plain: list[float], ours: list[float], size: int, count: int) -> None:
    found = [("memcpy", plain, plain, 0), ("auto", ours, ours, 3)]
    rows = rows_of("h2d", size, count, found)
    assert [row.method for row in rows] == ["memcpy", "auto"]
    assert rows[0].speedup == 1.0
    assert rows[1].speedup == statistics.median(plain) / statistics.median(ours)
    assert rows[1].gb_per_s == pytest.approx(count * size / 1e9 / statistics.median(ours))
    assert rows[1].wrong == 3
    assert rows_of("h2d", size, count, found[1:])[0].speedup is None


def test_the_table_and_the_file(cuda: FakeCuda, run: Run, tmp_path: Path) -> None:
    file = tmp_path / "copies.json"
    ran = run("bench", "copy", *SMALL, "--patterns", "p2p,h2d", "--window", "2", "--json", file)
    assert ran.code == 0, ran.err
    assert "All bytes right." in ran.out
    assert "2 messages of each pair in flight" in ran.out
    found = json.loads(file.read_text())
    assert found["benchmark"] == "copy"
    assert found["machine"]["node"] == "cuda"
    assert [(row["pattern"], row["bytes"], row["method"]) for row in found["rows"]] == [
        (pattern, size, method)
        for pattern in ("h2d", "p2p")  # the rows have the order of the list of patterns
        for size in (1 << 20, 4 << 20)
        for method in ("memcpy", "auto")
    ]
    assert cuda.copies[0] == ([(HOST, 0)] * 2, 1 << 20, ["memcpy", "auto"], 1, 3)
    for row in found["rows"]:
        assert len(row["time_s"]) == 3
        assert row["messages"] == 2
        assert row["median_s"] == statistics.median(row["time_s"])


def test_all_patterns_by_default(cuda: FakeCuda, run: Run) -> None:
    assert run("bench", "copy", "-b", "1M", "-e", "1M").code == 0
    assert [request[0] for request in cuda.copies] == [messages(p, 4) for p in PATTERNS]


def test_nccl_has_the_patterns_between_gpus(cuda: FakeCuda, run: Run, tmp_path: Path) -> None:
    cuda.nccl = "2.28.9"
    file = tmp_path / "copies.json"
    ran = run("bench", "copy", "-b", "1M", "-e", "1M", "--window", "2", "--json", file)
    assert ran.code == 0, ran.err
    methods = [request[2] for request in cuda.copies]
    assert methods == [
        ["memcpy", "auto", *([] if has_host(pattern) else ["nccl"])] for pattern in PATTERNS
    ]
    between = [pattern for pattern in PATTERNS if not has_host(pattern)]
    assert between == ["p2p", "both-ways", "ring", "all-to-all"]
    found = json.loads(file.read_text())
    assert [row["pattern"] for row in found["rows"] if row["method"] == "nccl"] == between
    assert found["machine"]["nccl"] == "2.28.9"
    assert [request[0] for request in cuda.copies] == [messages(p, 4) * 2 for p in PATTERNS]


def test_nccl_is_left_out_where_there_is_none(cuda: FakeCuda, run: Run) -> None:
    ran = run("bench", "copy", *SMALL, "--patterns", "p2p")
    assert ran.code == 0, ran.err
    assert [request[2] for request in cuda.copies] == [["memcpy", "auto"]] * 2
    assert ran.out.count("NCCL cannot be loaded (tried libnccl.so.2).") == 1
    named = run("bench", "copy", *SMALL, "--methods", "nccl,memcpy")
    assert named.code == 2
    assert "--methods nccl" in named.err
    assert "NCCL cannot be loaded" in named.err
    osu = run("bench", "copy", *SMALL, "--osu", "--window", "2")
    assert osu.code == 0
    assert "NCCL cannot be loaded" in osu.err
    assert "nccl" not in osu.out


def test_nccl_alone(cuda: FakeCuda, run: Run) -> None:
    cuda.nccl = "2.28.9"
    ran = run("bench", "copy", "-b", "1M", "-e", "1M", "--methods", "nccl")
    assert ran.code == 0, ran.err
    assert [(request[0], request[2]) for request in cuda.copies] == [
        (messages(pattern, 4), ["nccl"]) for pattern in PATTERNS if not has_host(pattern)
    ]
    osu = run("bench", "copy", *SMALL, "--methods", "nccl", "--osu", "--window", "2")
    assert osu.code == 0, osu.err
    assert "# Interlace put Latency Test, nccl, 1 messages at a time" in osu.out


def test_wrong_bytes_are_counted_and_end_it(cuda: FakeCuda, run: Run, tmp_path: Path) -> None:
    cuda.wrong_bytes = {"auto": 11}
    file = tmp_path / "copies.json"
    ran = run("bench", "copy", *SMALL, "--patterns", "h2d", "--json", file)
    assert ran.code == 1
    assert "22 bytes wrong." in ran.out
    assert [row["wrong"] for row in json.loads(file.read_text())["rows"]] == [0, 11, 0, 11]


def test_a_gpu_that_fails(cuda: FakeCuda, run: Run, tmp_path: Path) -> None:
    cuda.crash = "auto"
    file = tmp_path / "copies.json"
    ran = run("bench", "copy", *SMALL, "--patterns", "h2d", "--json", file)
    assert ran.code == 1
    assert "h2d of 1" in ran.err
    assert "CUDA_ERROR_UNKNOWN" in ran.err
    assert not file.exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--patterns", "h2g"), "there is no pattern 'h2g' (did you mean h2d?)"),
        (("--patterns", "h2d,h2d"), "--patterns 'h2d,h2d': give each name only once"),
        (("--methods", "fast"), "there is no method 'fast'"),
        (
            ("--methods", "nccl", "--patterns", "h2d,p2p"),
            "--methods nccl: NCCL copies between GPUs, but h2d of --patterns uses the host",
        ),
        (("-b", "8M", "-e", "4M"), "--begin 8M is more than --end 4M"),
        (("-e", "32G"), "--end 32G: give at most 16G"),
        (("-b", "some"), "--begin"),
        (("-f", "1"), "--factor 1: give a number of at least 2"),
        (("--window", "0"), "--window 0"),
        (("-n", "0"), "--repeats 0"),
        (("--json", "/nowhere/x.json"), "--json /nowhere/x.json"),
    ],
)
def test_what_cannot_be_asked_for(
    cuda: FakeCuda, run: Run, words: tuple[str, ...], message: str
) -> None:
    ran = run("bench", "copy", *words)
    assert ran.code == 2
    assert message in ran.err
    assert ran.err.count("\n") == 1
    assert cuda.copies == []


def test_the_format_of_the_osu_benchmarks(cuda: FakeCuda, run: Run, tmp_path: Path) -> None:
    file = tmp_path / "osu.json"
    words = ("--osu", "--window", "4", "--methods", "memcpy,auto", "--json", file)
    ran = run("bench", "copy", *SMALL, *words)
    assert ran.code == 0, ran.err
    assert [(request[0], request[1]) for request in cuda.copies] == [
        (pairs, size)
        for pairs in ([(0, 1)], [(0, 1)] * 4, [(0, 1), (1, 0)] * 4)
        for size in (1 << 20, 4 << 20)
    ]
    rows = json.loads(file.read_text())["rows"]
    tables = ran.out.rstrip("\n").split("\n\n")
    assert len(tables) == 6  # each method has three tables
    for text in tables:
        head, buffers, columns, *lines = text.splitlines()
        assert head.startswith("# Interlace put ")
        assert buffers.startswith("# Send Buffer on DEVICE (D)")
        assert columns.startswith("# Size")
        method = head.split(", ")[1]
        one_way, single = "Bi-Dir" not in head, "Latency" in head
        count = 1 if single else 4 if one_way else 8
        pattern = "p2p" if one_way else "both-ways"
        assert len(lines) == 2
        for line in lines:
            size, figure = line.split()
            row = next(
                row
                for row in rows
                if (row["pattern"], row["messages"], row["method"], row["bytes"])
                == (pattern, count, method, int(size))
            )
            wanted = row["median_s"] * 1e6 if single else count * int(size) / row["median_s"] / 1e6
            assert float(figure) == pytest.approx(wanted, abs=0.006)


def test_osu_tables_of_one_message_and_of_wrong_bytes(cuda: FakeCuda, run: Run) -> None:
    cuda.wrong_bytes = {"auto": 5}
    ran = run("bench", "copy", "-b", "1M", "-e", "1M", "--osu", "--window", "1")
    assert ran.code == 1
    assert "10 bytes wrong" in ran.err
    assert len(cuda.copies) == 2  # equal messages are measured only once
    ran = run("bench", "copy", "--osu", "--patterns", "h2d")
    assert ran.code == 2
    assert "--osu measures between two GPUs" in ran.err


def test_one_gpu_is_too_few(cuda: FakeCuda, run: Run) -> None:
    cuda.gpus = 1
    ran = run("bench", "copy")
    assert ran.code == 2
    assert "bench copy needs at least 2 GPUs" in ran.err
