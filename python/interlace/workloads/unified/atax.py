"""Multiplies the transpose of A by the product of A and a vector x."""

from __future__ import annotations

import numpy as np

from interlace.workloads.unified.program import ROUNDING, Problem, random_values, wide

NAME = "atax"
PLACE = 4  # the program's place in tables
EXTENT = 512  # the number of rows, which is also the number of columns


def make(extent: int, generator: np.random.Generator) -> Problem:
    width = extent
    matrix, vector = random_values(generator, width, width), random_values(generator, width)
    expected = wide(matrix).T @ (wide(matrix) @ wide(vector))
    size = np.abs(wide(matrix)).T @ (np.abs(wide(matrix)) @ np.abs(wide(vector)))
    return Problem(
        "atax", f"{width} x {width}", "run_atax", (matrix, vector), expected,
        4 * width * ROUNDING * size,
    )  # fmt: skip
