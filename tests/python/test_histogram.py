"""Tests the histogram: its keys, its reference, its inputs and simulated runs."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from interlace.base.errors import UserError
from interlace.model.mechanism_table import BULK_COPY, INLINE, PACKED
from interlace.workloads.histogram import Histogram, HistogramInputs
from study_helpers import MACHINE, Run

TINY = ("--size", 500, "--keys", 4000, "--iterations", 3)


def small(**options: Any) -> Histogram:
    return Histogram.load(HistogramInputs(**{"size": 500, "keys": 4000, **options}), None)


def test_each_iteration_counts_all_keys() -> None:
    made = small()
    counted = Counter(made.keys.tolist())
    assert made.reference(3).values.tolist() == [3 * counted[key] for key in range(500)]


def test_skew_makes_some_keys_frequent() -> None:
    most = [np.bincount(small(skew=skew).keys).max() for skew in (0, 1, 2)]
    assert most[0] < 30 < 400 < most[1] < 0.5 * 4000 < most[2]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"size": 0}, "--size 0: give a number from 1 to"),
        ({"keys": 0}, "--keys 0: give a number of at least 1"),
        ({"keys": 1 << 21}, "--keys 2097152: 10 iterations count more than 16777216 keys"),
        ({"skew": 5.0}, "--skew 5: give a number from 0 to 4"),
        ({"seed": -1}, "--seed -1: give a number of at least 0"),
        ({"tolerance": 0.1}, "--tolerance is not for histogram"),
    ],
)
def test_wrong_inputs_are_refused(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(UserError, match=reason):
        Histogram.check(HistogramInputs(**options))


def test_a_key_without_a_bin_is_refused() -> None:
    core = pytest.importorskip("interlace._core")
    cut = np.array([0, 5], dtype=np.uint64)
    given = ("host", None, INLINE, cut, 1, 0.0, 1, 4096, 32, "", 5, np.array([3, 7], np.uint32))
    with pytest.raises(UserError, match="key 1 is 7; there are 5 bins"):
        core.run_histogram(*given)


def test_every_mechanism_counts_each_key_once(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("interlace._core")
    path = tmp_path / "out.json"
    done = run("study", "histogram", *TINY, "--machine", MACHINE, "--gpus", 4, "--json", path)
    assert done.code == 0, done.err
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    assert all(row["verified"] and row["max_error"] == 0 for row in rows)
    wire = {row["mechanism"]: sum(row["wire"].values()) for row in rows if row["gpus"] == 4}
    assert wire[PACKED] < wire[INLINE]
    assert wire[BULK_COPY] < wire[INLINE]  # there are few bins and many keys
