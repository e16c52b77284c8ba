"""Applies a stencil of nine points to a grid."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from interlace.workloads.unified.program import ROUNDING, Problem, random_values, wide

NAME = "st"
PLACE = 12  # the program's place in tables
EXTENT = 512  # the number of rows, which is also the number of columns


def make(extent: int, generator: np.random.Generator) -> Problem:
    width, iterations = extent, 5
    weights = np.array([0.25, 0.15, 0.05], np.float32)
    grid = random_values(generator, width + 2, width + 2)

    def step(old: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        new = old.copy()
        new[1:-1, 1:-1] = sum(
            float(weights[abs(down) + abs(right)])
            * old[1 + down : width + 1 + down, 1 + right : width + 1 + right]
            for down in (-1, 0, 1)
            for right in (-1, 0, 1)
        )
        return new

    expected, size = wide(grid), np.abs(wide(grid))
    for _ in range(iterations):
        expected, size = step(expected), step(size)
    return Problem(
        "st", f"{width} x {width}, {iterations} iterations", "run_stencil_2d",
        (grid, weights, iterations), expected.reshape(-1),
        2 * 9 * iterations * ROUNDING * size.reshape(-1),
    )  # fmt: skip
