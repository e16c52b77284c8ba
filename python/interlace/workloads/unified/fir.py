"""Filters samples with 16 taps. Each tap multiplies the sample or one of the 15 samples before."""

from __future__ import annotations

import numpy as np

from interlace.workloads.unified.program import ROUNDING, Problem, random_values, wide

NAME = "fir"
PLACE = 1  # the program's place in tables
EXTENT = 262144  # the number of samples


def make(extent: int, generator: np.random.Generator) -> Problem:
    samples, taps = extent, 16
    values, weights = random_values(generator, samples), random_values(generator, taps)
    history = random_values(generator, taps)
    # Tap i of sample t reads sample t - i. A negative index means a value of the history; -1 is the
    # last value of the history.
    before = np.concatenate((history, values))
    expected = np.zeros(samples)
    size = np.zeros(samples)
    for tap in range(taps):
        shifted = wide(before[taps - tap : taps - tap + samples])
        expected += float(weights[tap]) * shifted
        size += abs(float(weights[tap])) * np.abs(shifted)
    return Problem(
        "fir", f"{samples} samples, {taps} taps", "run_fir", (values, weights, history),
        expected, 2 * taps * ROUNDING * size,
    )  # fmt: skip
