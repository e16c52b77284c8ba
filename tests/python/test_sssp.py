"""Tests the shortest-path workload: weights, references, verification and the command."""

from __future__ import annotations

import heapq
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fake_core import Asked, Fake, FakeCuda, only_read
from interlace.base.errors import UserError
from interlace.data import graphs
from interlace.data import shortest_paths as paths
from interlace.data.graphs import Graph
from interlace.model.limits import work_of
from interlace.model.mechanism_table import BULK_COPY, INFINITE_BANDWIDTH, INLINE, SPLIT
from interlace.model.mechanisms import DEFAULTS, MIB, UPDATE_DEFAULTS, Config
from interlace.model.run import Case, RunFailure
from interlace.workloads.sssp import Sssp, SsspInputs
from study_helpers import MACHINE, Run

TINY = ("--rmat", 8, "--iterations", 4)  # the tests of all workloads use this small run


def faked(
    core: Fake,
    asked: Asked,
    offsets: NDArray[np.uint64],
    columns: NDArray[np.uint32],
    weights: NDArray[np.float32],
    source: int,
    kernel: str,
    subscribe: str,
) -> dict[str, Any]:
    """Return the result that the compiled module would return."""
    assert kernel in ("balanced", "warp-per-row")
    assert subscribe in ("all", "needed")
    for array, kind in ((offsets, np.uint64), (columns, np.uint32), (weights, np.float32)):
        assert array.dtype == kind
        assert array.flags.c_contiguous
    degree = np.bincount(columns, minlength=len(offsets) - 1).astype(np.uint32)
    graph = graphs.Graph("fake", len(degree), offsets.astype(np.int64), columns, degree)
    done = asked.iterations
    if asked.tolerance > 0:
        final = paths.bellman_ford(graph, weights, source, asked.iterations)
        done = next(
            n
            for n in range(asked.iterations + 1)
            if np.array_equal(paths.bellman_ford(graph, weights, source, n), final)
        )
    exact = paths.bellman_ford(graph, weights, source, done)
    result = core.run(asked, exact, max(1, done), 0.0, columns.size, "path_update")
    return (
        only_read(result, asked.boundaries, offsets, columns) if subscribe == "needed" else result
    )


BANNER = "%%MatrixMarket matrix coordinate real general\n"
STUDY = ["study", "sssp", "--machine", MACHINE]

# The path 1 -> 2 -> 3 -> 4 is shorter than the edge 1 -> 4. There are two edges 1 -> 2. Vertex 5
# has an edge to 1, but no edge leads to 5.
SMALL = BANNER + "5 5 7\n1 4 9\n1 2 3\n2 3 0.5\n3 4 1.25\n1 2 2\n5 1 1\n4 4 0\n"
SHORTEST = [0, 2, 2.5, 3.75, np.inf]


def by_heap(graph: Graph, weights: NDArray[np.float32], source: int) -> list[float]:
    """Return the distances by the textbook form of Dijkstra's algorithm, with a heap."""
    out: list[list[tuple[int, float]]] = [[] for _ in range(graph.rows)]
    for target in range(graph.rows):
        for edge in range(graph.offsets[target], graph.offsets[target + 1]):
            out[graph.columns[edge]].append((target, float(weights[edge])))
    found = [np.inf] * graph.rows
    found[source] = 0.0
    queue = [(0.0, source)]
    while queue:
        length, vertex = heapq.heappop(queue)
        if length > found[vertex]:
            continue
        for target, weight in out[vertex]:
            if length + weight < found[target]:
                found[target] = length + weight
                heapq.heappush(queue, (found[target], target))
    return found


@pytest.fixture
def small_file(tmp_path: Path) -> Path:
    path = tmp_path / "small.mtx"
    path.write_text(SMALL)
    return path


def rmat(scale: int = 7, **options: Any) -> Sssp:
    return Sssp.load(SsspInputs(rmat=scale, edge_factor=4, **options), None)


# --- weights and references -----------------------------------------------------------------------


def test_seeded_weights_are_above_0_and_the_same_for_ever() -> None:
    weights = paths.seeded_weights(5, 1)
    raw = np.random.PCG64(1).random_raw(5) >> np.uint64(40)
    assert weights.dtype == np.float32
    assert weights.tolist() == [(int(r) + 1) / 2**24 for r in raw]
    many = paths.seeded_weights(1 << 20, 3)
    assert 0 < many.min() < 1e-5
    assert 1 - 1e-5 < many.max() <= 1


def test_weights_of_a_file_stay_with_their_edges(small_file: Path) -> None:
    graph, weights, own = paths.load_weighted(small_file, 1)
    assert own
    assert weights.dtype == np.float32
    found = {
        (int(graph.columns[e]), target, float(weights[e]))
        for target in range(5)
        for e in range(graph.offsets[target], graph.offsets[target + 1])
    }
    assert found == {
        (0, 3, 9), (0, 1, 3), (1, 2, 0.5), (2, 3, 1.25), (0, 1, 2), (4, 0, 1), (3, 3, 0),
    }  # fmt: skip
    again = graphs.load_graph(small_file)
    assert np.array_equal(again.columns, graph.columns)
    assert np.array_equal(again.out_degree, graph.out_degree)


@pytest.mark.parametrize("symmetry", ["general", "symmetric"])
def test_a_symmetric_file_has_each_weight_both_ways(tmp_path: Path, symmetry: str) -> None:
    path = tmp_path / "a.mtx"
    path.write_text(BANNER.replace("general", symmetry) + "3 3 2\n2 1 4\n3 3 5\n")
    graph, weights, _ = paths.load_weighted(path, 1)
    assert graph.edges == (3 if symmetry == "symmetric" else 2)
    assert sorted(weights.tolist()) == ([4, 4, 5] if symmetry == "symmetric" else [4, 5])


def test_files_without_weights_have_seeded_ones(tmp_path: Path) -> None:
    (tmp_path / "a.mtx").write_text(BANNER.replace("real", "pattern") + "2 2 2\n1 2\n2 1\n")
    (tmp_path / "a.el").write_text("0 1 # 7\n1 0\n")
    for name in ("a.mtx", "a.el"):
        graph, weights, own = paths.load_weighted(tmp_path / name, 4)
        assert not own
        assert np.array_equal(weights, paths.seeded_weights(graph.edges, 4))


@pytest.mark.parametrize("slow", [False, True])
@pytest.mark.parametrize("more", ["", " 1700000000"])
def test_weights_of_an_edge_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slow: bool, more: str
) -> None:
    edges = [(0, 3, 9), (0, 1, 3), (1, 2, 0.5), (2, 3, 1.25), (0, 1, 2), (4, 0, 1), (3, 3, 0)]
    lines = (f"{i}\t{j} {w}{more} # x\n" for i, j, w in edges)
    (tmp_path / "a.el").write_text("# from to weight\n\n" + "".join(lines))
    if slow:
        monkeypatch.setattr(graphs, "_fast_edge_list", lambda *_: None)
    graph, weights, own = paths.load_weighted(tmp_path / "a.el", 1)
    assert own
    assert graph.weighted
    assert paths.dijkstra(graph, weights, 0).tolist() == SHORTEST


def test_the_references_find_the_shortest_paths(small_file: Path) -> None:
    graph, weights, _ = paths.load_weighted(small_file, 1)
    assert paths.dijkstra(graph, weights, 0).tolist() == SHORTEST
    assert paths.bellman_ford(graph, weights, 0, 1).tolist() == [0, 2, np.inf, 9, np.inf]
    assert paths.bellman_ford(graph, weights, 0, 2).tolist() == [0, 2, 2.5, 9, np.inf]
    assert paths.bellman_ford(graph, weights, 0, 3).tolist() == SHORTEST
    assert paths.bellman_ford(graph, weights, 0, 99).tolist() == SHORTEST
    for scale, factor in ((3, 1), (6, 2), (8, 8)):
        made = graphs.rmat(scale, factor, 5)
        lengths = paths.seeded_weights(made.edges, 5)
        expected = by_heap(made, lengths, 1)
        assert np.allclose(paths.dijkstra(made, lengths, 1), expected, rtol=1e-14)
        assert np.allclose(paths.bellman_ford(made, lengths, 1, 999), expected, rtol=1e-14)


def test_a_vertex_that_reaches_nothing() -> None:
    graph = graphs.rmat(5, 2, 1)
    weights = paths.seeded_weights(graph.edges, 1)
    lost = int(np.flatnonzero(graph.out_degree == 0)[0])
    for found in (
        paths.dijkstra(graph, weights, lost),
        paths.bellman_ford(graph, weights, lost, 9),
    ):
        assert found[lost] == 0
        assert np.isinf(np.delete(found, lost)).all()


# --- wrong input ----------------------------------------------------------------------------------

FILES = {
    "small.mtx": SMALL,
    "negative.mtx": BANNER + "3 3 2\n1 2 1\n3 2 -1\n",
    "nan.mtx": BANNER + "3 3 2\n1 2 1\n3 2 nan\n",
    "large.mtx": BANNER + "3 3 2\n1 2 1\n3 2 1e300\n",
    "negative.el": "0 1 1\n\n2 1 -1\n",
    "nan.el": "0 1 nan\n",
    "large.el": "0 1 1\n2 1 1e300\n",
    "word.el": "0 1 1\n1 2 hello\n",
    "some.el": "0 1 1\n1 2\n",
    "late.el": "# x\n0 1\n1 2 0.5\n",
}
UNSOUND = "give a number that is at least 0 and finite in float32."
WRONG: list[tuple[list[str], str]] = [
    *(
        (
            ["--data", f"{{folder}}/{name}"],
            f"{{folder}}/{name}, line {line}: the weight is {shown}; {UNSOUND}",
        )
        for name, line, shown in (
            ("negative.mtx", 4, "-1"),
            ("nan.mtx", 4, "nan"),
            ("large.mtx", 4, "1e+300"),
            ("negative.el", 3, "-1"),
            ("nan.el", 1, "nan"),
            ("large.el", 2, "1e+300"),
            ("word.el", 2, "'hello'"),
        )
    ),
    (
        ["--data", "{folder}/some.el"],
        "{folder}/some.el, line 2: the edge has no weight, but the edge in line 1 has a weight; "
        "give a weight to each edge, or to none.",
    ),
    (
        ["--data", "{folder}/late.el"],
        "{folder}/late.el, line 3: the edge has a weight, but the edge in line 2 has no weight; "
        "give a weight to each edge, or to none.",
    ),
    (
        [],
        "sssp needs a graph; give --data FILE, or --rmat SCALE, --cage ROWS, --crawl PAGES or "
        "--rgg VERTICES to generate one",
    ),
    (
        ["--data", "{folder}/small.mtx", "--rmat", "4"],
        "--data and --rmat exclude each other; give one of them",
    ),
    (
        ["--data", "{folder}/small.mtx", "--edge-factor", "4"],
        "--edge-factor is for --rmat; leave it out with --data",
    ),
    (
        ["--data", "{folder}/small.mtx", "--seed", "4"],
        "--seed is for graphs without weights, and {folder}/small.mtx has weights; leave it out",
    ),
    (
        ["--data", "{folder}/small.mtx", "--source", "5"],
        "--source 5: the graph has the vertices 0 to 4",
    ),
    (["--rmat", "4", "--source", "-1"], "--source -1: the graph has the vertices 0 to 15"),
    (["--rmat", "4", "--source", "x"], "--source 'x': give a whole number"),
    (["--rmat", "4", "--seed", "-1"], "--seed -1: give a number of at least 0"),
    (["--rmat", "33"], "--rmat 33: give a scale from 1 to 32"),
    (["--rmat", "4", "--damping", "0.5"], "--damping is for pagerank; leave it out with sssp"),
    (
        ["--rmat", "4", "--tolerance", "1"],
        "--tolerance is not for sssp, which ends when no distance changes; leave it out, or give "
        "--iterations",
    ),
    (["--rmat", "4", "--kernel", "x"], "--kernel x: give balanced or warp-per-row or push"),
    (["--rmat", "4", "--subscribe", "x"], "--subscribe x: give all or needed"),
    (["--rmat", "4", "--iterations", "0"], "--iterations 0: give a number from 1 to 1000000"),
]


@pytest.mark.parametrize(("words", "sentence"), WRONG, ids=[" ".join(w[0]) for w in WRONG])
def test_wrong_input(run: Run, core: Fake, tmp_path: Path, words: list[str], sentence: str) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    ran = run(*STUDY, *(word.format(folder=tmp_path) for word in words))
    assert ran.err == f"interlace: {sentence.format(folder=tmp_path).removesuffix('.')}\n"
    assert (ran.code, ran.out) == (2, "")
    assert core.calls == []


@pytest.mark.usefixtures("core")
def test_the_source_with_pagerank(run: Run) -> None:
    ran = run("study", "pagerank", "--rmat", 4, "--machine", MACHINE, "--source", 1)
    assert (ran.code, ran.err) == (
        2,
        "interlace: --source is for sssp; leave it out with pagerank\n",
    )


# --- verification ---------------------------------------------------------------------------------


@pytest.mark.parametrize("iterations", [None, 2])
def test_no_wrong_distance_passes(core: Fake, iterations: int | None) -> None:
    workload = rmat(iterations=iterations)
    case = Case(2, INLINE)
    good = workload.simulate(core, "machine", case)
    assert workload.verify(good) < 1e-7
    exact = good.values[1].copy()
    finite = np.flatnonzero(np.isfinite(exact) & (exact > 0))
    lost = np.flatnonzero(np.isinf(exact))
    assert finite.size
    assert lost.size
    for vertex, value in (
        *((int(finite[3]), float(exact[finite[3]] * f)) for f in (1.0001, 0.9999)),
        *((int(finite[3]), v) for v in (np.inf, -np.inf, np.nan, 0.0)),
        *((int(lost[0]), v) for v in (5.0, -np.inf, np.nan, 0.0)),
        (workload.start, 1e-30),
    ):
        outcome = workload.simulate(core, "machine", case)
        outcome.values[1, vertex] = value
        with pytest.raises(RunFailure, match=rf"inline on 2 GPUs: GPU 1 .* vertex {vertex},"):
            workload.verify(outcome)


def test_only_what_a_gpu_reads_is_compared(core: Fake) -> None:
    workload = rmat(iterations=2, subscribe="needed")
    outcome = workload.simulate(core, "machine", Case(2, INLINE))
    lost = np.isnan(outcome.values)
    assert lost.any(axis=1).all()
    assert workload.verify(outcome) < 1e-7
    graph = workload.graph
    cut = workload.boundaries(2)
    for device in range(2):
        rows = range(graph.rows)
        read = {
            int(c)
            for c in graph.columns[graph.offsets[cut[device]] :][
                : graph.offsets[cut[device + 1]] - graph.offsets[cut[device]]
            ]
        }
        held = [v for v in rows if cut[device] <= v < cut[device + 1] or v in read]
        assert workload.held(outcome.case, device).tolist() == held
        assert np.array_equal(np.flatnonzero(~lost[device]), held)
        # The device reads this vertex but does not own it.
        other = next(v for v in held if not cut[device] <= v < cut[device + 1])
        wrong = workload.simulate(core, "machine", Case(2, INLINE))
        wrong.values[device, other] = np.nan
        with pytest.raises(RunFailure, match=rf"GPU {device} has nan for vertex {other},"):
            workload.verify(wrong)


def test_an_iteration_too_few_is_found() -> None:
    workload = rmat(iterations=3)
    two, three = (workload.reference(n).values for n in (2, 3))
    changed = two != three
    assert changed.any()
    with np.errstate(invalid="ignore"):
        assert (two[changed] / three[changed] - 1 > 10 * workload.allowed_error()).all()


def test_what_rounding_does_is_allowed() -> None:
    for scale, factor in ((10, 2), (10, 16), (13, 4)):
        graph = graphs.rmat(scale, factor, 2)
        weights = paths.seeded_weights(graph.edges, 2)
        workload = Sssp(graph, weights, "", "", SsspInputs(source=0))
        rows = np.flatnonzero(np.diff(graph.offsets))
        distance = np.full(graph.rows, np.inf, dtype=np.float32)
        distance[0] = 0
        iterations = 0
        while True:
            least = np.minimum.reduceat(distance[graph.columns] + weights, graph.offsets[rows])
            closer = distance.copy()
            closer[rows] = np.minimum(closer[rows], least)
            iterations += 1
            if np.array_equal(closer, distance):
                break
            distance = closer
        exact = workload.reference(iterations).values
        assert np.array_equal(np.isinf(exact), np.isinf(distance))
        near = np.isfinite(exact) & (exact > 0)
        worst = np.abs(distance[near] / exact[near] - 1).max()
        assert 0 < worst < workload.allowed_error() < 1e-5


# --- the command ----------------------------------------------------------------------------------


def test_what_the_core_is_given(core: Fake) -> None:
    workload = rmat(iterations=7)
    workload.simulate(core, "machine", Case(4, SPLIT, Config(ranges=8)))
    workload = rmat()
    workload.simulate(core, "machine", Case(2, INLINE))
    assert core.calls == [
        ("sim", 4, SPLIT, 7, 0.0, 8, MIB, 32, ""),
        ("sim", 2, INLINE, 128, 0.5, 1, MIB, 32, ""),
    ]
    assert workload.start == int(workload.graph.out_degree.argmax())
    assert rmat(source=9).start == 9


@pytest.mark.usefixtures("core")
def test_the_facts_of_a_study(run: Run, small_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "o.json"
    ran = run(*STUDY, "--data", small_file, "--source", 4, "--json", out, "--gpus", 2)
    assert ran.code == 0, ran.err
    assert ran.out.startswith(
        "sssp, small (5 vertices, 7 edges with the file's weights, from 4), 4 iterations; simulated"
    )
    data = json.loads(out.read_text())["data"]
    assert list(data) == [
        "name", "source", "size", "vertices", "edges", "start", "until_unchanged",
        "subscribers", "kernel", "iterations", "tolerance", "max_allowed_error", "weights",
    ]  # fmt: skip
    assert data["source"] == str(small_file)
    assert data["weights"] == "file"
    assert data["until_unchanged"]
    assert data["max_allowed_error"] == pytest.approx(4 * 2**-24, rel=0.02)


@pytest.mark.usefixtures("core")
def test_a_study_says_which_weights_it_used(run: Run, tmp_path: Path) -> None:
    (tmp_path / "own.el").write_text("0 1 0.5\n1 0 2\n")
    (tmp_path / "none.el").write_text("0 0\n")
    out = tmp_path / "o.json"
    for workload, file, words, size, weights in (
        ("sssp", "own.el", (), "2 vertices, 2 edges with the file's weights, from 0", "file"),
        ("sssp", "none.el", (), "1 vertex, 1 edge with weights of seed 1, from 0", "seeded"),
        ("sssp", "none.el", ("--seed", 7), "1 vertex, 1 edge with weights of seed 7, from 0",
         "seeded"),
        ("pagerank", "own.el", (), "2 vertices, 2 edges; the file's weights are not used", None),
        ("pagerank", "none.el", (), "1 vertex, 1 edge", None),
    ):  # fmt: skip
        asked = ("--data", tmp_path / file, *words, "--gpus", 1, "--json", out)
        ran = run("study", workload, "--machine", MACHINE, *asked)
        assert ran.code == 0, ran.err
        assert f"({size})" in ran.out
        data = json.loads(out.read_text())["data"]
        assert (data["size"], data.get("weights")) == (size, weights)


def test_a_measured_study(run: Run, cuda: FakeCuda, tmp_path: Path) -> None:
    out = tmp_path / "o.json"
    ran = run("study", "sssp", "--rmat", 6, "--gpus", 2, "--repeats", 3, "--json", out)
    assert ran.code == 0, ran.err
    rows = {row["mechanism"]: row for row in json.loads(out.read_text())["rows"]}
    assert rows[INFINITE_BANDWIDTH]["derived"]
    assert {call[0] for call in cuda.calls} == {"cuda"}


@pytest.mark.parametrize("words", [[], ["--iterations", "3"]])
def test_the_real_core(run: Run, tmp_path: Path, words: list[str]) -> None:
    pytest.importorskip("interlace._core")
    out = tmp_path / "o.json"
    some = ["--rmat", 8, "--gpus", "1,2,4", "--split", "2", "--json", out]
    ran = run(*STUDY, *some, *words)
    assert ran.code == 0, ran.err
    rows = json.loads(out.read_text())["rows"]
    assert len(rows) == 1 + 2 * len(DEFAULTS)
    for row in rows:
        assert row["max_error"] < 1e-6
        assert row["iterations"] == 3 if words else row["iterations"] % 5 == 0


@pytest.mark.parametrize("iterations", [2, 5, 9])
def test_every_node_gives_what_a_path_has(small_file: Path, iterations: int) -> None:
    core = pytest.importorskip("interlace._core")
    workload = Sssp.load(SsspInputs(data=small_file, iterations=iterations), None)
    result = workload._run(
        core, Case(2, SPLIT, Config(ranges=2)), ("host", None), (iterations, 0.0)
    )
    exact = workload.reference(iterations).values.tolist()
    assert [row.tolist() for row in result.values] == [exact, exact]
    assert workload.verify(workload.simulate(core, _machine(core), Case(2, INLINE))) == 0


def test_what_a_long_run_counts_follows_from_short_ones() -> None:
    core = pytest.importorskip("interlace._core")
    workload = rmat()
    case = Case(4, INLINE)
    found, work, sent = workload.count(core, case, 9)
    result = workload._run(core, case, ("host", None), (9, 0.0))
    assert (found.useful, found.wasted) == (result.wire.useful, result.wire.wasted)
    assert work == work_of(result.work, 0)
    assert sent == result.sent_bytes


def test_the_core_refuses_what_is_no_graph() -> None:
    core = pytest.importorskip("interlace._core")
    offsets = np.array([0, 1, 2], dtype=np.uint64)
    columns = np.array([1, 0], dtype=np.uint32)
    weights = np.ones(2, dtype=np.float32)
    cut = np.array([0, 2], dtype=np.uint64)
    for change, sentence in (
        (
            {"offsets": np.array([0, 2, 1], dtype=np.uint64)},
            "do not divide the given columns into rows",
        ),
        ({"offsets": np.array([], dtype=np.uint64)}, "do not divide the given columns into rows"),
        ({"columns": np.array([1, 2], dtype=np.uint32)}, "not one of the 2 vertices"),
        ({"weights": np.ones(3, dtype=np.float32)}, "a weight for each edge"),
        ({"weights": -weights}, "weights must be at least 0"),
        ({"source": 2}, "there is no vertex 2"),
        ({"kernel": "tiles"}, "unknown kernel 'tiles'; give 'balanced', 'warp-per-row' or 'push'"),
        ({"subscribe": "some"}, "unknown choice of subscribers 'some'; give 'all' or 'needed'"),
    ):
        given: dict[str, Any] = {
            "offsets": offsets, "columns": columns, "weights": weights, "source": 0,
            "kernel": "balanced", "subscribe": "all", **change,
        }  # fmt: skip
        with pytest.raises(UserError, match=sentence):
            core.run_sssp("host", None, BULK_COPY, cut, 1, 0.0, 1, MIB, 32, "", *given.values())


def _machine(core: Any) -> Any:
    from interlace.nodes.nodes import SimulatedNode

    return SimulatedNode(core, MACHINE, 1).machine


@pytest.mark.parametrize("iterations", [(), ("--iterations", 2)])
def test_push_gives_the_distances_of_pull(
    run: Run, tmp_path: Path, iterations: tuple[object, ...]
) -> None:
    pytest.importorskip("interlace._core")
    path = tmp_path / "out.json"
    done = run(
        "study", "sssp", "--rmat", 8, *iterations, "--kernel", "push", "--machine", MACHINE,
        "--gpus", 4, "--json", path,
    )  # fmt: skip
    assert done.code == 0, done.err
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    assert {row["mechanism"] for row in rows if row["gpus"] == 4} == set(UPDATE_DEFAULTS)
    assert all(row["verified"] for row in rows)
