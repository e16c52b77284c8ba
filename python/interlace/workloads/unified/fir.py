"""A filter of 16 taps: each sample with the samples before it."""

from __future__ import annotations

import numpy as np

from interlace.workloads.unified.program import ROUNDING, Problem, random_values, wide

NAME = "fir"
PLACE = 1  # in tables
EXTENT = 262144  # samples


def make(extent: int, generator: np.random.Generator) -> Problem:
    samples, taps = extent, 16
    values, weights = random_values(generator, samples), random_values(generator, taps)
    history = random_values(generator, taps)
    # Tap i of sample t reads sample t - i. Indices before the first sample count from the history's
    # end, one further back than for samples.
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
