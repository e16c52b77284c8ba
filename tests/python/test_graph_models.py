"""Tests graphs that resemble published graphs, and the workloads that can use them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fake_core import Fake
from interlace.base.errors import UserError
from interlace.data import graph_models, reading
from interlace.data.graph_models import MODELS, cage, crawl, rgg
from interlace.data.graphs import Graph, partition_by_edges
from interlace.model.mechanism_table import BULK_COPY
from interlace.workloads.als import Als, AlsInputs
from interlace.workloads.sssp import Sssp, SsspInputs
from study_helpers import MACHINE, Run

SIZES = {"cage": 11397, "crawl": 30000, "rgg": 32768}


def ends(graph: Graph) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the sources and the targets of all edges."""
    targets = np.repeat(np.arange(graph.rows), np.diff(graph.offsets))
    return graph.columns.astype(np.int64), targets


def between_parts(graph: Graph, parts: int) -> float:
    """Return the share of edges whose ends belong to different GPUs."""
    cut = partition_by_edges(graph.offsets, parts)
    owners = [np.searchsorted(cut, end, side="right") for end in ends(graph)]
    return float((owners[0] != owners[1]).mean())


def within(graph: Graph, distance: int) -> float:
    """Return the share of edges whose two vertex numbers differ by at most `distance`."""
    sources, targets = ends(graph)
    return float((np.abs(sources - targets) <= distance).mean())


# --- what all have --------------------------------------------------------------------------------


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("rows", [8, 9, 27, 100, 1000])
def test_a_graph_is_sound_and_the_same_each_time(model: str, rows: int) -> None:
    graph = MODELS[model].make(rows, 3)
    sources, targets = ends(graph)
    assert graph.rows == rows
    assert sources.max(initial=0) < rows
    keys = targets * rows + sources
    assert (np.diff(keys) > 0).all()  # each edge exists once, and the edges are sorted
    assert np.array_equal(np.bincount(sources, minlength=rows), graph.out_degree)
    again = MODELS[model].make(rows, 3)
    assert np.array_equal(again.columns, graph.columns)
    other = MODELS[model].make(rows, 4)
    if MODELS[model].seeded and rows >= 100:
        assert not np.array_equal(other.columns, graph.columns)
    elif not MODELS[model].seeded:
        assert np.array_equal(other.columns, graph.columns)


@pytest.mark.parametrize("make", [cage, rgg])
def test_what_has_undirected_edges_is_symmetric(make: Any) -> None:
    for rows in (50, 1000):
        sources, targets = ends(make(rows))
        there = np.sort(sources * rows + targets)
        assert np.array_equal(there, np.sort(targets * rows + sources))


def test_a_million_edges_take_memory_that_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "memory_bytes", lambda: 1_000_000_000)
    for model in MODELS.values():
        with pytest.raises(UserError, match="10000000 needs about"):
            model.make(10_000_000, 1)


# --- their character ------------------------------------------------------------------------------


@pytest.mark.parametrize(("rows", "mean"), [(1015, 10.9), (11397, 13.2), (130228, 15.6)])
def test_a_cage_has_rows_of_nearly_equal_length(rows: int, mean: float) -> None:
    # `mean` is the mean number of entries per row of cage8, cage10 and cage12.
    graph = cage(rows)
    assert graph.edges / rows == pytest.approx(mean, rel=0.15)
    degree = np.diff(graph.offsets)
    assert degree.min() >= 3
    assert degree.max() < 2 * mean
    sources, targets = ends(graph)
    assert (sources == targets).sum() == rows


def test_a_cage_is_banded_at_every_scale() -> None:
    graph = cage(3**9)
    sources, targets = ends(graph)
    distances = np.unique(np.abs(sources - targets))
    assert distances.size < 60  # the edges form bands
    assert within(graph, 3**5) == pytest.approx(0.65, abs=0.1)
    assert 0.05 < between_parts(graph, 4) < 0.25


def test_cage_moves_exchange_two_symbols_or_change_the_last() -> None:
    def moves(i: int) -> set[int]:
        symbols = [i // 3**p % 3 for p in range(4)]
        found = {i - symbols[0] + s for s in range(3)}
        for apart in (1, 2):
            for p in range(4 - apart):
                turned = list(symbols)
                turned[p], turned[p + apart] = turned[p + apart], turned[p]
                found.add(sum(s * 3**q for q, s in enumerate(turned)))
        return found

    graph = cage(81)
    for i in range(81):
        row = graph.columns[graph.offsets[i] : graph.offsets[i + 1]]
        assert set(row.tolist()) == moves(i)


def test_an_rgg_is_that_of_the_challenge() -> None:
    # In rgg_n_2_15_s0, a vertex has 9.78 edges on average, and at most 24. For nearly every edge,
    # the numbers of its two vertices differ by at most 170.
    graph = rgg(32768)
    degree = np.diff(graph.offsets)
    assert degree.mean() == pytest.approx(0.55**2 * np.pi * np.log(32768), rel=0.03)
    assert np.quantile(degree, [0.1, 0.5, 0.9]).tolist() == [6, 10, 14]
    assert degree.max() < 32
    assert within(graph, 66) == pytest.approx(0.5, abs=0.03)
    assert within(graph, 180) > 0.99
    assert between_parts(graph, 4) < 0.02


def test_rgg_edges_are_the_near_points() -> None:
    rows = 200
    graph = rgg(rows, 5)
    points = graph_models._uniforms(5)(2 * rows).reshape(rows, 2)
    order = sorted(range(rows), key=lambda i: (int(2 * points[i, 0]), points[i, 1]))
    at = points[order]
    near = ((at[:, None] - at) ** 2).sum(axis=2) <= 0.55**2 * np.log(rows) / rows
    np.fill_diagonal(near, val=False)
    sources, targets = ends(graph)
    assert np.array_equal(np.flatnonzero(near), np.sort(sources * rows + targets))


def test_a_crawl_is_local_and_has_popular_pages() -> None:
    # cnr-2000 has 9.9 links per page. A quarter of all pages have no links. Half of the links lead
    # to a page that is at most 256 pages away. One link in eleven crosses a border between four
    # equal parts. One page in a hundred gets more than half of the links.
    graph = crawl(60000, 2)
    links, linked = np.sort(graph.out_degree), np.sort(np.diff(graph.offsets))[::-1]
    assert graph.edges / graph.rows == pytest.approx(9.9, rel=0.2)
    assert (links == 0).mean() == pytest.approx(0.25, abs=0.08)
    assert links[-1] > 20 * links.mean()
    assert linked[: graph.rows // 100].sum() > 0.2 * graph.edges
    assert linked[0] > 1000
    assert np.median(linked) < 0.6 * linked.mean()
    assert within(graph, 16) == pytest.approx(0.3, abs=0.08)
    assert 0.5 < within(graph, 256) < 0.8
    assert between_parts(graph, 4) < 0.15


# --- the command ----------------------------------------------------------------------------------


def study(workload: str, *words: object) -> list[object]:
    return ["study", workload, "--machine", MACHINE, *words]


@pytest.mark.parametrize("workload", ["pagerank", "sssp", "als"])
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.usefixtures("core")
def test_a_study_of_one(run: Run, tmp_path: Path, workload: str, model: str) -> None:
    out = tmp_path / "o.json"
    words = [f"--{model}", 200, "--gpus", 2, "--iterations", 2, "--mechanisms", BULK_COPY]
    ran = run(*study(workload, *words, "--json", out))
    assert ran.code == 0, ran.err
    data = json.loads(out.read_text())["data"]
    assert data["name"] == f"{model}-200"
    assert data["source"].startswith(f"generated, {MODELS[model].source}")


@pytest.mark.usefixtures("core")
def test_a_seed_is_in_the_name(run: Run) -> None:
    ran = run(*study("pagerank", "--rgg", 100, "--seed", 7, "--gpus", 1))
    assert ran.out.startswith("pagerank, rgg-100-s7 (100 vertices")


def test_ratings_stand_where_edges_are() -> None:
    rated = Als.load(AlsInputs(crawl=300, seed=2), None).ratings
    graph = crawl(300, 2)
    assert rated.count == graph.edges
    assert np.array_equal(rated.items.offsets, graph.offsets)
    assert np.array_equal(rated.items.others, graph.columns)
    assert 1 < rated.users.values.mean() < 5


def test_weights_follow_the_seed() -> None:
    one, two = (Sssp.load(SsspInputs(cage=100, seed=seed), None) for seed in (1, 2))
    assert np.array_equal(one.graph.columns, two.graph.columns)
    assert not np.array_equal(one.weights, two.weights)


WRONG: list[tuple[str, list[str], str]] = [
    *(
        (workload, [f"--{model}", n], f"--{model} {n}: give a number from 8 to 2147483648")
        for workload in ("pagerank", "als")
        for model in MODELS
        for n in ("7", "-1", "2147483649")
    ),
    ("sssp", ["--rgg", "x"], "--rgg 'x': give a whole number"),
    (
        "sssp",
        ["--rgg", "9", "--cage", "9"],
        "--cage and --rgg exclude each other; give one of them",
    ),
    ("als", ["--rgg", "9", "--data", "a"], "--data and --rgg exclude each other; give one of them"),
    (
        "als",
        ["--rgg", "9", "--items", "9"],
        "--items is for random ratings; leave it out with --rgg",
    ),
    (
        "pagerank",
        ["--crawl", "9", "--edge-factor", "2"],
        "--edge-factor is for --rmat; leave it out with --crawl",
    ),
    (
        "pagerank",
        ["--cage", "9", "--seed", "2"],
        "--seed is for random graphs; leave it out with --cage",
    ),
    ("pagerank", ["--rgg", "9", "--seed", "-1"], "--seed -1: give a number from 0 to 2**64 - 1"),
    (
        "jacobi",
        ["--rgg", "9"],
        "--rgg is for pagerank, sssp and als; leave it out with jacobi",
    ),
]


@pytest.mark.parametrize(
    ("workload", "words", "sentence"), WRONG, ids=[" ".join([w[0], *w[1]]) for w in WRONG]
)
def test_wrong_input(run: Run, core: Fake, workload: str, words: list[str], sentence: str) -> None:
    ran = run(*study(workload, *words))
    assert (ran.code, ran.out, ran.err) == (2, "", f"interlace: {sentence}\n")
    assert core.calls == []
