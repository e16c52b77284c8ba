"""Computes the level of each vertex of a random graph.

The vertex with the most edges has level 0. A vertex without a path from this vertex has level -1.
"""

from __future__ import annotations

import numpy as np

from interlace.workloads.unified.program import Problem, wide

NAME = "bfs"
PLACE = 9  # the program's place in tables
EXTENT = 32768  # the number of vertices


def make(extent: int, generator: np.random.Generator) -> Problem:
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import dijkstra

    vertices, degree = extent, 3
    ends = generator.integers(0, vertices, (2, degree * vertices))
    ends = ends[:, np.argsort(ends[0], kind="stable")]
    counts = np.bincount(ends[0], minlength=vertices)
    offsets = np.zeros(vertices + 1, np.uint32)
    offsets[1:] = np.cumsum(counts)
    source = int(np.argmax(counts))
    graph = csr_array((np.ones(ends.shape[1]), (ends[0], ends[1])), (vertices, vertices))
    expected = wide(dijkstra(graph, indices=source, unweighted=True))
    expected[np.isinf(expected)] = -1
    return Problem(
        "bfs", f"{vertices} vertices, {ends.shape[1]} edges", "run_breadth_first",
        (offsets, ends[1].astype(np.uint32), source), expected, np.zeros(vertices),
    )  # fmt: skip
