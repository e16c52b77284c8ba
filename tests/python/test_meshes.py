"""Compares matrices of meshes with matrices that the test builds entry by entry."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from interlace.data.meshes import UNKNOWNS, entries_of, mesh_graph, mesh_ratings, rows_of


def entries(side: int) -> list[tuple[int, int]]:
    """Return the row and the column of each entry, point by point."""
    found = []
    points = list(itertools.product(range(side), repeat=3))
    for (one, a), (other, b) in itertools.product(enumerate(points), repeat=2):
        if max(abs(x - y) for x, y in zip(a, b, strict=True)) <= 1:
            for i, j in itertools.product(range(UNKNOWNS), repeat=2):
                found.append((one * UNKNOWNS + i, other * UNKNOWNS + j))
    return sorted(found)


@pytest.mark.parametrize("side", [2, 3])
def test_a_mesh_couples_neighbours(side: int) -> None:
    graph = mesh_graph(side)
    assert graph.rows == rows_of(side) == UNKNOWNS * side**3
    assert graph.edges == entries_of(side)
    rows = np.repeat(np.arange(graph.rows), np.diff(graph.offsets))
    assert list(zip(rows.tolist(), graph.columns.tolist(), strict=True)) == entries(side)
    assert (graph.out_degree == np.bincount(graph.columns)).all()


def test_ratings_have_the_pattern_and_follow_the_seed() -> None:
    first, again, other = mesh_ratings(3, 1), mesh_ratings(3, 1), mesh_ratings(3, 2)
    graph = mesh_graph(3)
    for side in (first.users, first.items):
        assert (side.offsets == graph.offsets).all()
        assert (side.others == graph.columns).all()
    assert (first.users.values == again.users.values).all()
    assert (first.users.values != other.users.values).any()
    assert first.users.values.min() >= 0.5
    assert first.users.values.max() <= 5.5
    # Each rating has the same value in both orders, by user and by item.
    user, item = 7, 11
    by_user = first.users.offsets[user] + np.flatnonzero(
        first.users.others[first.users.offsets[user] : first.users.offsets[user + 1]] == item
    )
    by_item = first.items.offsets[item] + np.flatnonzero(
        first.items.others[first.items.offsets[item] : first.items.offsets[item + 1]] == user
    )
    assert first.users.values[by_user] == first.items.values[by_item]
