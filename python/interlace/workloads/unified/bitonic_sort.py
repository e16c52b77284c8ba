"""Sorts keys with a bitonic network."""

from __future__ import annotations

import numpy as np

from interlace.workloads.unified.program import Problem, wide

NAME = "bs"
PLACE = 7  # the program's place in tables
EXTENT = 16384  # the number of keys


def make(extent: int, generator: np.random.Generator) -> Problem:
    count = extent
    keys = generator.integers(0, 1 << 24, count).astype(np.uint32)
    expected = wide(np.sort(keys))
    return Problem("bs", f"{count} keys", "run_bitonic_sort", (keys,), expected, np.zeros(count))
