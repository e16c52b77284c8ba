"""Transposes a square matrix."""

from __future__ import annotations

import numpy as np

from interlace.workloads.unified.program import Problem, random_values, wide

NAME = "mt"
PLACE = 2  # the program's place in tables
EXTENT = 1024  # the number of rows, which is also the number of columns


def make(extent: int, generator: np.random.Generator) -> Problem:
    width = extent
    matrix = random_values(generator, width, width)
    expected = wide(matrix).T.reshape(-1)
    return Problem(
        "mt",
        f"{width} x {width}",
        "run_matrix_transpose",
        (matrix,),
        expected,
        np.zeros_like(expected),
    )
