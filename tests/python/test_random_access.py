"""Tests RandomAccess: its sequence, its reference, its inputs and its simulated runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from interlace.base.errors import UserError
from interlace.model.mechanism_table import (
    BULK_COPY,
    FINEPACK,
    INFINITE_BANDWIDTH,
    INLINE,
    PACKED,
    POLLING,
    WRITE_COMBINING,
)
from interlace.workloads.random_access import RandomAccess, RandomAccessInputs, sequence
from study_helpers import MACHINE, Run

TINY = ("--size", 2048)


def naive(count: int) -> list[int]:
    """Return the words of the sequence, computed one by one by the rules of the benchmark."""
    word, words = 1, []
    for _ in range(count):
        word = (word << 1 & (1 << 64) - 1) ^ (7 if word >> 63 else 0)
        words.append(word)
    return words


def small(**options: Any) -> RandomAccess:
    return RandomAccess.load(RandomAccessInputs(**{"size": 2048, **options}), None)


def test_the_sequence_is_that_of_the_benchmark() -> None:
    assert sequence(3000).tolist() == naive(3000)


def test_lanes_begin_where_the_lane_before_them_ends() -> None:
    made = small()
    entries, starts, updates, operation = made.arguments()
    words = [1, *naive(made.updates)]
    each = updates * made.iterations
    assert (entries, operation) == (2048, "xor")
    assert starts.tolist() == words[: made.updates : each]


def table_of(values: np.ndarray[Any, Any]) -> list[int]:
    pieces = values.reshape(-1, 3).astype(np.uint64).tolist()
    return [low | middle << 22 | high << 43 for low, middle, high in pieces]


def test_the_benchmarks_own_verification_finds_no_error() -> None:
    """Check that a second run of the same updates restores the table."""
    made = small()
    table = table_of(made.reference(made.iterations).values)
    assert table != list(range(2048))
    for word in naive(made.updates):
        table[word & 2047] ^= word
    assert table == list(range(2048))


def test_stores_leave_a_value_of_the_entry() -> None:
    made = small(operation="store")
    table = table_of(made.reference(made.iterations).values)
    touched = {word & 2047 for word in naive(made.updates)}
    for entry, value in enumerate(table):
        hashed = (entry + 1) * 0x9E3779B97F4A7C15 % (1 << 64)
        assert value == (hashed if entry in touched else entry)


def test_it_says_which_rule_it_keeps() -> None:
    assert "2,048 between exchanges, beyond HPCC's 1,024" in small().size
    kept = small(look_ahead=1024)
    assert kept.iterations == 8
    assert "1,024 between exchanges, within HPCC's 1,024" in kept.size


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"size": 1000}, "--size 1000: give a power of two from 32 to 67108864"),
        ({"operation": "add"}, "--operation add: give xor or store"),
        ({"iterations": 3}, "--iterations 3: give a power of two from 1 to 128"),
        ({"look_ahead": 1000}, "--look-ahead 1000: give a power of two from 64 to 8192"),
        ({"look_ahead": 1024, "iterations": 4}, "--iterations and --look-ahead both set"),
        ({"tolerance": 0.1}, "--tolerance is not for random-access"),
    ],
)
def test_wrong_inputs_are_refused(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(UserError, match=reason):
        RandomAccess.check(RandomAccessInputs(**{"size": 2048, **options}))


def rows_of(run: Run, path: Path, *words: object) -> dict[str, Any]:
    pytest.importorskip("interlace._core")
    done = run(
        "study", "random-access", *TINY, "--machine", MACHINE, "--gpus", 4, "--json", path, *words
    )
    assert done.code == 0, done.err
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    return {row["mechanism"]: row for row in rows if row["gpus"] == 4}


def test_every_mechanism_makes_each_update_once(run: Run, tmp_path: Path) -> None:
    named = ",".join((BULK_COPY, INLINE, WRITE_COMBINING, FINEPACK, PACKED, INFINITE_BANDWIDTH))
    rows = rows_of(run, tmp_path / "out.json", "--mechanisms", named)
    assert all(row["verified"] and row["max_error"] == 0 for row in rows.values())
    wire = {name: sum(row["wire"].values()) for name, row in rows.items()}
    assert wire[PACKED] < wire[INLINE]
    # Three of four updates go to another GPU and take at least 8 bytes each. Some updates share a
    # packet.
    remote = 8 * 4 * 2048 * 3 / 4
    assert 0.7 * remote < rows[PACKED]["wire"]["useful"] < 1.1 * remote


def test_stores_have_the_mechanisms_that_do_not_combine(run: Run, tmp_path: Path) -> None:
    rows = rows_of(run, tmp_path / "out.json", "--operation", "store")
    assert set(rows) == {INLINE, PACKED}
    assert all(row["verified"] for row in rows.values())


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (
            ("random-access", *TINY, "--mechanisms", POLLING),
            "it moves regions, and random-access updates",
        ),
        (
            ("random-access", *TINY, "--operation", "store", "--mechanisms", BULK_COPY),
            "stores leave nothing to combine",
        ),
        (
            ("pagerank", "--rmat", 6, "--mechanisms", PACKED),
            "it moves updates of partitioned arrays",
        ),
    ],
)
def test_mechanisms_that_do_not_fit_are_refused(
    run: Run, words: tuple[object, ...], reason: str
) -> None:
    pytest.importorskip("interlace._core")
    ran = run("study", *words, "--machine", MACHINE)
    assert ran.code == 2
    assert reason in ran.err


def test_stores_are_tuned_without_mechanisms_that_combine(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "p.json"
    words = ("--operation", "store", "--machine", MACHINE, "--gpus", 2, "--out", out)
    ran = run("tune", "random-access", *TINY, *words)
    assert (ran.code, ran.err) == (0, "")
    assert "bulk-copy: not possible: " in ran.out
    assert "stores leave nothing to combine" in ran.out
    assert "No control was among the mechanisms." in ran.out
    picked = json.loads(out.read_text(encoding="utf-8"))["pick"]
    assert picked["mechanism"] in (INLINE, PACKED)
