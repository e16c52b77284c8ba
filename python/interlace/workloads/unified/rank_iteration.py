"""Computes the ranks of a random graph. One pair of vertices in a thousand has an edge."""

from __future__ import annotations

import numpy as np

from interlace.workloads.unified.program import ROUNDING, Problem, wide

NAME = "pr"
PLACE = 10  # the program's place in tables
EXTENT = 4096  # the number of vertices


def make(extent: int, generator: np.random.Generator) -> Problem:
    from scipy.sparse import csr_array

    rows, iterations = extent, 16
    count = rows * rows // 1000
    places = np.unique(generator.integers(0, rows * rows, count + count // 10))
    places = np.sort(generator.permutation(places)[:count])
    columns = (places % rows).astype(np.uint32)
    offsets = np.zeros(rows + 1, np.uint32)
    offsets[1:] = np.cumsum(np.bincount(places // rows, minlength=rows))
    values = (1 / np.bincount(columns, minlength=rows)[columns]).astype(np.float32)
    matrix = csr_array((wide(values), columns, offsets), (rows, rows))
    expected = np.full(rows, 1 / rows)
    for _ in range(iterations):
        expected = matrix @ expected
    steps = (
        int(np.max(np.diff(offsets))) + 8
    )  # additions in a row, plus additions in the block that computes the row
    return Problem(
        "pr", f"{rows} vertices, {count} edges, {iterations} iterations", "run_rank_iteration",
        (offsets, columns, values, iterations), expected,
        2 * iterations * steps * ROUNDING * expected,
    )  # fmt: skip
