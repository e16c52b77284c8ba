"""Convolves an image with a mask. All products and sums are exact."""

from __future__ import annotations

import numpy as np

from interlace.workloads.unified.program import Problem, wide

NAME = "sc"
PLACE = 13  # the program's place in tables
EXTENT = 512  # the number of rows and the number of columns of the result


def make(extent: int, generator: np.random.Generator) -> Problem:
    side = 3
    width = extent
    image = generator.integers(0, 256, (width + side - 1, width + side - 1))
    mask = generator.integers(0, 16, (side, side))  # in units of 1/16
    sums = np.zeros((width, width), np.int64)
    for down in range(side):
        for right in range(side):
            sums += mask[down, right] * image[down : down + width, right : right + width]
    expected = wide((sums + 8) // 16).reshape(-1)
    return Problem(
        "sc", f"{width} x {width}, mask {side} x {side}", "run_convolution",
        (image.astype(np.uint32), (mask / 16).astype(np.float32)), expected,
        np.zeros_like(expected),
    )  # fmt: skip
