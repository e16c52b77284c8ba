"""Multiplies two square matrices."""

from __future__ import annotations

import numpy as np

from interlace.workloads.unified.program import ROUNDING, Problem, random_values, wide

NAME = "mm"
PLACE = 3  # the program's place in tables
EXTENT = 256  # the number of rows, which is also the number of columns


def make(extent: int, generator: np.random.Generator) -> Problem:
    width = extent
    one, other = random_values(generator, width, width), random_values(generator, width, width)
    expected = (wide(one) @ wide(other)).reshape(-1)
    size = (np.abs(wide(one)) @ np.abs(wide(other))).reshape(-1)
    sizes = f"{width} x {width} by {width} x {width}"
    return Problem(
        "mm", sizes, "run_matrix_multiply", (one, other), expected, 2 * width * ROUNDING * size
    )
