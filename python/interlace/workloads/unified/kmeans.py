"""Finds clusters of random points: the cluster of each point, and the centre of each cluster.

All computations use whole numbers: points in units of 1/16, and centres in units of 1/256.
"""

from __future__ import annotations

import numpy as np

from interlace.workloads.unified.program import Problem, wide

NAME = "km"
PLACE = 11  # the program's place in tables
EXTENT = 8192  # the number of points


def make(extent: int, generator: np.random.Generator) -> Problem:
    points, features, clusters, iterations = extent, 32, 5, 5
    values = generator.integers(0, 17, (points, features))  # in units of 1/16
    centres = 16 * values[:clusters]  # in units of 1/256
    members = np.full(points, clusters)
    for _ in range(iterations):
        distances = ((16 * values[:, None, :] - centres[None, :, :]) ** 2).sum(axis=2)
        before, members = members, np.argmin(distances, axis=1)
        counts = np.bincount(members, minlength=clusters)[:, None]
        sums = np.array([values[members == k].sum(axis=0) for k in range(clusters)])
        centres = np.where(counts == 0, 0, (32 * sums + counts) // np.maximum(2 * counts, 1))
        if np.array_equal(before, members):
            break
    expected = np.concatenate((wide(members), wide(centres).reshape(-1) / 256))
    return Problem(
        "km", f"{points} points, {features} features, {clusters} clusters", "run_kmeans",
        ((values / 16).astype(np.float32), clusters, iterations), expected,
        np.zeros_like(expected),
    )  # fmt: skip
