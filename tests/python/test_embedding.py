"""Tests the embedding table: its batch, its reference, its inputs and its simulated runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from interlace.base.errors import UserError
from interlace.model.mechanism_table import INLINE
from interlace.workloads.embedding import Embedding, EmbeddingInputs
from study_helpers import MACHINE, Run

TINY = ("--size", 100, "--row-bytes", 32, "--batch", 300, "--iterations", 2)


def small(**options: Any) -> Embedding:
    inputs = EmbeddingInputs(**{"size": 100, "row_bytes": 32, "batch": 300, **options})
    return Embedding.load(inputs, None)


def test_each_iteration_adds_all_gradients() -> None:
    made = small()
    table = [[0.0] * 8 for _ in range(100)]
    for _ in range(2):
        for row, gradient in zip(made.rows.tolist(), made.gradients.tolist(), strict=True):
            table[row] = [a + b for a, b in zip(table[row], gradient, strict=True)]
    assert made.reference(2).values.tolist() == [number for row in table for number in row]


def test_sums_are_exact_in_any_order() -> None:
    made = small(batch=4000)
    forth = np.zeros((100, 8), dtype=np.float32)
    back = forth.copy()
    np.add.at(forth, made.rows, made.gradients)
    np.add.at(back, made.rows[::-1], made.gradients[::-1])
    assert np.array_equal(forth, back)
    assert np.array_equal(forth.ravel(), made.reference(1).values)


def test_no_gpu_owns_a_part_of_a_row() -> None:
    assert all(cut % 8 == 0 for cut in small().boundaries(3))


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"row_bytes": 48}, "--row-bytes 48: give 32, 64, 128, 256 or 512"),
        ({"size": 1 << 24, "row_bytes": 512}, "give at most 524288 rows"),
        ({"batch": 0}, "--batch 0: give a number of at least 1"),
        ({"batch": 1 << 20}, "--batch 1048576: 10 iterations add more than 2097152 gradients"),
    ],
)
def test_wrong_inputs_are_refused(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(UserError, match=reason):
        Embedding.check(EmbeddingInputs(**options))


def test_a_row_beyond_the_table_is_refused() -> None:
    core = pytest.importorskip("interlace._core")
    cut = np.array([0, 16], dtype=np.uint64)
    rows, gradients = np.array([1, 2], np.uint32), np.zeros((2, 8), np.float32)
    with pytest.raises(UserError, match="gradient 1 is for row 2; the table has 2 rows"):
        core.run_embedding("host", None, INLINE, cut, 1, 0.0, 1, 4096, 32, "", 2, rows, gradients)


def test_every_mechanism_adds_each_gradient_once(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("interlace._core")
    path = tmp_path / "out.json"
    done = run("study", "embedding", *TINY, "--machine", MACHINE, "--gpus", 4, "--json", path)
    assert done.code == 0, done.err
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    assert len(rows) == 5
    assert all(row["verified"] and row["max_error"] == 0 for row in rows)
