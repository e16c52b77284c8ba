"""Makes or reads the weights of a graph's edges, and computes reference shortest paths."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from interlace.data.graphs import Graph, load_with_weights


def seeded_weights(edges: int, seed: int) -> NDArray[np.float32]:
    """Return weights from above 0 up to 1, in the order of a graph's edges.

    A weight is (u + 1) / 2**24, where u is the upper 24 bits of PCG64's output for the seed.
    """
    drawn = np.random.PCG64(seed).random_raw(edges) >> np.uint64(40)
    return (drawn.astype(np.float32) + np.float32(1)) * np.float32(2**-24)


def load_weighted(file: Path, seed: int) -> tuple[Graph, NDArray[np.float32], bool]:
    """Read a graph and the weights of its edges.

    The third result says whether the file has weights. If the file has no weights, the edges get
    random weights from `seed`. Raises UserError like `load_with_weights`.
    """
    graph, weights = load_with_weights(file)
    if weights is None:
        return graph, seeded_weights(graph.edges, seed), False
    return graph, weights, True


def bellman_ford(
    graph: Graph, weights: NDArray[np.float32], source: int, iterations: int
) -> NDArray[np.float64]:
    """Return the lengths of the shortest paths from `source` with at most `iterations` edges.

    The length is infinity if there is no such path. The computation uses float64. Each iteration
    relaxes all edges.
    """
    lengths = weights.astype(np.float64)
    rows = np.flatnonzero(np.diff(graph.offsets))
    starts = graph.offsets[rows]
    distance = np.full(graph.rows, np.inf)
    distance[source] = 0
    for _ in range(iterations if rows.size else 0):
        least = np.minimum.reduceat(distance[graph.columns] + lengths, starts)
        closer = distance.copy()
        closer[rows] = np.minimum(closer[rows], least)
        if np.array_equal(closer, distance):
            break  # if the distances no longer change, no later step changes them
        distance = closer
    return distance


def dijkstra(graph: Graph, weights: NDArray[np.float32], source: int) -> NDArray[np.float64]:
    """Return the lengths of the shortest paths from the source, in float64.

    The length is infinity if there is no path.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import dijkstra as search

    if graph.edges == 0:
        return bellman_ford(graph, weights, source, 0)
    targets = np.repeat(np.arange(graph.rows, dtype=np.int64), np.diff(graph.offsets))
    # If several edges connect the same two vertices, keep only the shortest edge. Otherwise scipy
    # could add their weights.
    first = np.ones(graph.edges, dtype=bool)
    first[1:] = (targets[1:] != targets[:-1]) | (graph.columns[1:] != graph.columns[:-1])
    starts = np.flatnonzero(first)
    lengths = np.minimum.reduceat(weights.astype(np.float64), starts)
    sources = graph.columns[starts].astype(np.int64)
    shape = (graph.rows, graph.rows)
    by_source = csr_array((lengths, (sources, targets[starts])), shape=shape)
    return np.asarray(search(by_source, directed=True, indices=source), dtype=np.float64)
