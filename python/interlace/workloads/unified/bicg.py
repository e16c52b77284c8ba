"""Multiplies A by a vector p, and the transpose of A by a vector r."""

from __future__ import annotations

import numpy as np

from interlace.workloads.unified.program import ROUNDING, Problem, random_values, wide

NAME = "bicg"
PLACE = 6  # the program's place in tables
EXTENT = 512  # the number of rows, which is also the number of columns


def make(extent: int, generator: np.random.Generator) -> Problem:
    width = extent
    matrix = random_values(generator, width, width)
    right, left = random_values(generator, width), random_values(generator, width)
    exact = wide(matrix)
    expected = np.concatenate((exact @ wide(right), exact.T @ wide(left)))
    size = np.concatenate(
        (np.abs(exact) @ np.abs(wide(right)), np.abs(exact).T @ np.abs(wide(left)))
    )
    return Problem(
        "bicg", f"{width} x {width}", "run_bicg", (matrix, right, left), expected,
        2 * width * ROUNDING * size,
    )  # fmt: skip
