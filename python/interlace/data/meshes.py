"""Matrices with the structure of three-dimensional finite-element meshes.

The points of a mesh form a cube, and each point has five unknowns. A point is coupled with itself
and with its neighbours in all directions: 27 points, or fewer at the surface. A row of the matrix
has an entry for each unknown of these points, so most rows have 5 x 27 = 135 entries. HV15R of the
SuiteSparse Collection is the matrix of a flow problem and has 140 entries per row.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array, kron

from interlace.data import reading
from interlace.data.graphs import Graph
from interlace.data.ratings import Ratings, on_pattern

UNKNOWNS = 5


def rows_of(side: int) -> int:
    """Return the number of unknowns of a cube with `side` points in each dimension."""
    return UNKNOWNS * side**3


def entries_of(side: int) -> int:
    """Return the number of entries of the cube's matrix."""
    return UNKNOWNS**2 * (3 * side - 2) ** 3


def _pattern(side: int) -> csr_array:
    """Return the pattern of a cube's matrix.

    The unknowns of a point are adjacent, and points are in row order.
    """
    if side < 2:
        raise ValueError(f"a mesh has at least 2 points in each dimension, not {side}")
    reading.require_memory(40 * entries_of(side), f"a mesh of side {side}", "side")
    ones = np.ones(side, dtype=np.int8)
    line = diags_array([ones[1:], ones, ones[1:]], offsets=[-1, 0, 1], dtype=np.int8)
    cube = kron(kron(line, line), line)
    found = csr_array(kron(cube, np.ones((UNKNOWNS, UNKNOWNS), dtype=np.int8), format="csr"))
    found.eliminate_zeros()  # kron stores explicit zeros if a factor is nearly dense
    found.sort_indices()
    return found


def mesh_graph(side: int) -> Graph:
    """Return a graph with an edge for each entry of a cube's matrix.

    The graph therefore has edges in both directions, and an edge from each vertex to itself.
    """
    found = _pattern(side)
    offsets = found.indptr.astype(np.int64)
    degree: NDArray[np.uint32] = np.diff(offsets).astype(np.uint32)
    name = f"mesh-{side}"
    return Graph(name, rows_of(side), offsets, found.indices.astype(np.uint32), degree)


def mesh_ratings(side: int, seed: int) -> Ratings:
    """Return ratings at the entries of a cube's matrix. `ratings.on_pattern` makes their values."""
    pattern = _pattern(side).tocoo()
    entries = pattern.row.astype(np.int64), pattern.col.astype(np.int64)
    return on_pattern(f"mesh-ratings-{side}", rows_of(side), *entries, seed)
