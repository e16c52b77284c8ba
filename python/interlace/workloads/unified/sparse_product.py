"""Multiplies a sparse matrix by a vector. One element in a hundred is not zero."""

from __future__ import annotations

import numpy as np

from interlace.workloads.unified.program import ROUNDING, Problem, random_values, wide

NAME = "spmv"
PLACE = 5  # the program's place in tables
EXTENT = 4096  # the number of rows, which is also the number of columns


def make(extent: int, generator: np.random.Generator) -> Problem:
    rows = extent
    count = rows * rows // 100
    places = np.unique(generator.integers(0, rows * rows, count + count // 10))
    places = np.sort(generator.permutation(places)[:count])
    columns = (places % rows).astype(np.uint32)
    offsets = np.zeros(rows + 1, np.uint32)
    offsets[1:] = np.cumsum(np.bincount(places // rows, minlength=rows))
    values, vector = random_values(generator, len(places)), random_values(generator, rows)
    products = wide(values) * wide(vector)[columns]
    row_of = places // rows
    expected = wide(np.bincount(row_of, products, rows))
    size = wide(np.bincount(row_of, np.abs(products), rows))
    longest = int(np.max(np.diff(offsets)))
    return Problem(
        "spmv", f"{rows} x {rows}, {len(places)} elements", "run_sparse_product",
        (offsets, columns, values, vector), expected, 2 * longest * ROUNDING * size,
    )  # fmt: skip
