"""Computes the level of each vertex of a random graph.

The vertex with the most edges has level 0. A vertex without a path from this vertex has level -1.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from interlace.workloads.unified.program import Problem, wide

NAME = "bfs"
PLACE = 9  # the program's place in tables
EXTENT = 32768  # the number of vertices


DEGREE = 3  # the number of edges of a vertex, as in MGPUSim


def make(extent: int, generator: np.random.Generator) -> Problem:
    return of_edges(extent, generator.integers(0, extent, (2, DEGREE * extent)))


def of_edges(vertices: int, ends: npt.NDArray[np.integer]) -> Problem:
    """Return the search of a graph. Edge k goes from vertex ends[0, k] to vertex ends[1, k]."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import dijkstra

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
