"""Tests graphs: loaders, the generator, the partition, and the reference of PageRank."""

from __future__ import annotations

import gzip
import os
import random
import warnings
from collections.abc import Sequence
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.io import mmwrite
from scipy.sparse import coo_array

from interlace.base.errors import UserError
from interlace.data import graphs, reading
from interlace.data.graphs import (
    Graph,
    load_graph,
    pagerank_reference,
    partition,
    partition_by_edges,
    rmat,
    rmat_edges,
)

Edges = list[tuple[int, int]]
BANNER = "%%MatrixMarket matrix coordinate pattern general\n"


def pairs_of(graph: Graph) -> Edges:
    """Return the edges as (source, target), sorted."""
    targets = np.repeat(np.arange(graph.rows), np.diff(graph.offsets))
    return sorted(zip(graph.columns.tolist(), targets.tolist(), strict=True))


def check_whole(graph: Graph) -> None:
    """Check the properties that every graph must have."""
    assert graph.offsets.dtype == np.int64
    assert graph.columns.dtype == graph.out_degree.dtype == np.uint32
    assert graph.offsets.shape == (graph.rows + 1,)
    assert graph.offsets[0] == 0
    assert graph.offsets[-1] == graph.edges == graph.columns.size > 0
    assert np.all(np.diff(graph.offsets) >= 0)
    assert graph.columns.max() < graph.rows
    assert np.array_equal(np.bincount(graph.columns, minlength=graph.rows), graph.out_degree)
    for v in range(min(graph.rows, 50)):
        row = graph.columns[graph.offsets[v] : graph.offsets[v + 1]].astype(np.int64)
        assert np.all(np.diff(row) >= 0)


def graph_of(rows: int, edges: Edges) -> Graph:
    sources, targets = (np.array(side, dtype=np.int64) for side in zip(*edges, strict=True))
    order = np.lexsort((sources, targets))
    offsets = np.zeros(rows + 1, dtype=np.int64)
    offsets[1:] = np.cumsum(np.bincount(targets, minlength=rows))
    degree = np.bincount(sources, minlength=rows).astype(np.uint32)
    return Graph("made", rows, offsets, sources[order].astype(np.uint32), degree)


@st.composite
def edge_lists(draw: st.DrawFn) -> tuple[int, Edges]:
    rows = draw(st.integers(1, 40))
    vertex = st.integers(0, rows - 1)
    return rows, draw(st.lists(st.tuples(vertex, vertex), min_size=1, max_size=80))


# --- Matrix Market ------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(
    made=edge_lists(),
    field=st.sampled_from(["pattern", "real", "integer"]),
    newline=st.sampled_from(["\n", "\r\n"]),
    packed=st.booleans(),
    noise=st.booleans(),
)
def test_matrix_market_round_trip(
    tmp_path_factory: pytest.TempPathFactory,
    made: tuple[int, Edges],
    field: str,
    newline: str,
    packed: bool,
    noise: bool,
) -> None:
    rows, edges = made
    value = {"pattern": "", "real": " -1.5e0", "integer": " 0"}[field]
    lines = [f"%%MatrixMarket MATRIX coordinate {field} General"]
    lines += ["% made for a test", "%", ""] if noise else []
    lines += [f"{rows} {rows} {len(edges)}"]
    lines += [f"{i + 1} {j + 1}{value}" for i, j in edges]
    lines += ["", ""] if noise else [""]
    data = newline.join(lines).encode()
    file = tmp_path_factory.mktemp("mtx") / ("some.graph.mtx.gz" if packed else "some.graph.mtx")
    file.write_bytes(gzip.compress(data) if packed else data)
    graph = load_graph(file)
    check_whole(graph)
    assert (graph.name, graph.rows, graph.edges) == ("some.graph", rows, len(edges))
    assert pairs_of(graph) == sorted(edges)


@settings(max_examples=30, deadline=None)
@given(made=edge_lists())
def test_matrix_market_symmetric_is_mirrored(
    tmp_path_factory: pytest.TempPathFactory, made: tuple[int, Edges]
) -> None:
    rows, edges = made
    lower = [(max(pair), min(pair)) for pair in edges]
    text = BANNER.replace("general", "symmetric") + f"{rows} {rows} {len(lower)}\n"
    file = tmp_path_factory.mktemp("mtx") / "s.mtx"
    file.write_text(text + "".join(f"{i + 1} {j + 1}\n" for i, j in lower))
    graph = load_graph(file)
    check_whole(graph)
    assert pairs_of(graph) == sorted(lower + [(j, i) for i, j in lower if i != j])


def test_scipy_writes_what_is_read(tmp_path: Path) -> None:
    generator = np.random.default_rng(3)
    dense = generator.random((30, 30)) * (generator.random((30, 30)) < 0.2)
    mmwrite(tmp_path / "a.mtx", coo_array(dense))
    graph = load_graph(str(tmp_path / "a.mtx"))
    check_whole(graph)
    assert pairs_of(graph) == sorted(zip(*(s.tolist() for s in np.nonzero(dense)), strict=True))


def test_values_do_not_matter(tmp_path: Path) -> None:
    # The integers and the last value are too large for the fast reader, so the slow reader must
    # take over.
    real = "3 3 5\n1 2 nan\n2 3 -1\n3 1 0\n1 1 inf\n1 2 1e999\n"
    (tmp_path / "real.mtx").write_text(BANNER.replace("pattern", "real") + real)
    whole = "3 3 2\n1 2 99999999999999999999999\n2 3 -5\n"
    (tmp_path / "whole.mtx").write_text(BANNER.replace("pattern", "integer") + whole)
    graph = load_graph(tmp_path / "real.mtx")
    assert pairs_of(graph) == [(0, 0), (0, 1), (0, 1), (1, 2), (2, 0)]
    assert graph.out_degree.tolist() == [3, 1, 1]
    assert pairs_of(load_graph(tmp_path / "whole.mtx")) == [(0, 1), (1, 2)]


def test_slow_readers_agree_with_the_fast_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = random.Random(4)
    edges = [(generator.randrange(50), generator.randrange(50)) for _ in range(300)]
    lower = [(max(pair), min(pair)) for pair in edges]
    text = BANNER.replace("general", "symmetric") + f"50 50 {len(lower)}\n"
    (tmp_path / "a.mtx").write_text(text + "".join(f"{i + 1} {j + 1}\n" for i, j in lower))
    (tmp_path / "b.el").write_text("".join(f"{i} {j} 1.5 # x\n" for i, j in edges))
    fast = [load_graph(tmp_path / name) for name in ("a.mtx", "b.el")]
    monkeypatch.setattr(reading, "_fast_matrix_market", lambda *_: None)
    monkeypatch.setattr(graphs, "_fast_edge_list", lambda *_: None)
    slow = [load_graph(tmp_path / name) for name in ("a.mtx", "b.el")]
    for one, other in zip(fast, slow, strict=True):
        assert np.array_equal(one.offsets, other.offsets)
        assert np.array_equal(one.columns, other.columns)


# --- Edge lists ---------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(
    made=edge_lists(),
    suffix=st.sampled_from([".txt", ".el", ".edges", ".tsv", ".txt.gz", ".el.gz"]),
    between=st.sampled_from([" ", "\t", "   "]),
    newline=st.sampled_from(["\n", "\r\n"]),
    third=st.sampled_from(["", " 1", " 0.25", " # why"]),
    noise=st.booleans(),
)
def test_edge_list_round_trip(
    tmp_path_factory: pytest.TempPathFactory,
    made: tuple[int, Edges],
    suffix: str,
    between: str,
    newline: str,
    third: str,
    noise: bool,
) -> None:
    _, edges = made
    lines = ["# caf\xe9", "#", ""] if noise else []
    lines += [f"{i}{between}{j}{third}" for i, j in edges]
    lines += ["", "# end"] if noise else [""]
    data = newline.join(lines).encode("latin-1")
    file = tmp_path_factory.mktemp("edges") / f"web{suffix}"
    file.write_bytes(gzip.compress(data) if suffix.endswith(".gz") else data)
    graph = load_graph(file)
    check_whole(graph)
    assert graph.name == "web"
    assert graph.rows == max(max(pair) for pair in edges) + 1
    assert pairs_of(graph) == sorted(edges)


@pytest.mark.parametrize("name", ["a.el", "a.mtx"])
def test_a_byte_order_mark_is_no_text(tmp_path: Path, name: str) -> None:
    text = "0 1\n" if name == "a.el" else BANNER + "2 2 1\n1 2\n"
    (tmp_path / name).write_text(text, encoding="utf-8-sig")
    assert pairs_of(load_graph(tmp_path / name)) == [(0, 1)]


# --- Bad files ----------------------------------------------------------------------------------

REAL = BANNER.replace("pattern", "real")


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.mtx", "", "is empty"),
        ("a.mtx.gz", "1 2\n", "is not a sound gzip file"),
        ("a.mtx.gz", "", "is empty"),
        ("a.csv", "1,2\n", "this ending is unknown; files of graphs end in .mtx, .txt"),
        ("a", "1 2\n", "this ending is unknown; files of graphs end in"),
        ("a.mtx", "1 2\n2 3\n", "line 1: expected '%%MatrixMarket matrix"),
        ("a.mtx", "%%MatrixMarket matrix coordinate pattern\n2 2 1\n1 2\n", "line 1: expected"),
        (
            "a.mtx",
            "%%MatrixMarket matrix array real general\n1 1\n1\n",
            "format 'array' is impossible",
        ),
        (
            "a.mtx",
            BANNER.replace("pattern", "complex"),
            "field 'complex' is impossible for a graph",
        ),
        ("a.mtx", BANNER.replace("general", "hermitian"), "symmetry 'hermitian' is impossible"),
        ("a.mtx", BANNER.replace(" matrix", " vector"), "object 'vector' is impossible"),
        ("a.mtx", BANNER, "ends before the line with rows"),
        ("a.mtx", BANNER + "% only\n", "ends before the line with rows"),
        ("a.mtx", BANNER + "3 3\n1 2\n", "line 2: expected rows, columns and entries"),
        ("a.mtx", BANNER + "%\n3 x 3\n1 2\n", "line 3: expected rows, columns and entries"),
        ("a.mtx", BANNER + "-3 -3 1\n1 2\n", "line 2: expected rows, columns and entries"),
        ("a.mtx", BANNER + "3 4 1\n1 2\n", "line 2: the matrix is 3 x 4"),
        ("a.mtx", BANNER + "0 0 0\n", "line 2: the graph has no vertices"),
        ("a.mtx", BANNER + "3 3 0\n", "line 2: the graph has no edges"),
        ("a.mtx", BANNER + "5000000000 5000000000 1\n1 2\n", "more than 2**32"),
        ("a.mtx", BANNER + "3 3 2\n1 2\n3 4\n", "line 4: index 4 is outside 1 .. 3"),
        ("a.mtx", BANNER + "%\n3 3 2\n0 2\n3 1\n", "line 4: index 0 is outside 1 .. 3"),
        ("a.mtx", BANNER + "3 3 2\n1 2\n1 -2\n", "line 4: index -2 is outside 1 .. 3"),
        ("a.mtx", BANNER + "3 3 2\n1 2\n\n3 99999999999999999999\n", "line 5: index 9999999"),
        ("a.mtx", BANNER + "3 3 3\n1 2\n2 3\n", "ends after 2 of 3 entries"),
        ("a.mtx", BANNER + "3 3 900000000000\n1 2\n2 3\n", "ends after 2 of 900000000000"),
        ("a.mtx", BANNER + "3 3 1\n1 2\n2 3\n", "line 4: this is entry 2, but line 2"),
        ("a.mtx", BANNER + "3 3 1\n1 a\n", "line 3: expected two integers, found '1 a'"),
        ("a.mtx", BANNER + "3 3 1\n1\n", "line 3: expected two integers, found '1'"),
        ("a.mtx", REAL + "3 3 1\n1 2\n", "line 3: expected two integers and a value"),
        ("a.mtx", REAL + "3 3 1\n1 2 x\n", "line 3: expected two integers and a value"),
        ("a.el", "", "is empty"),
        ("a.el", "# nothing\n\n", "the graph has no edges"),
        ("a.el", "1 2\n3\n", "line 2: expected two integers, found '3'"),
        ("a.el", "# x\n\n1 2\n1 b\n", "line 4: expected two integers, found '1 b'"),
        ("a.el", "1,2\n", "line 1: expected two integers, found '1,2'"),
        (
            "a.el",
            "from to\n1 2\n",
            "an edge is `0 1`, and a line that is not an edge begins with #.",
        ),
        ("a.el", "1 2\n1.5 2\n", "line 2: expected two integers"),
        ("a.el", "1 2\n1 -2\n", "line 2: vertex -2 is outside 0 .. 2**32 - 1"),
        ("a.el", "1 2\n4294967296 2\n", "line 2: vertex 4294967296 is outside"),
        ("a.el", "0 99999999999999999999\n", "line 1: vertex 99999999999999999999 is outside"),
        ("a.el", "\x00\x01" * 50, "line 1: expected two integers"),
    ],
)
def test_bad_file(tmp_path: Path, name: str, content: str, words: str) -> None:
    file = tmp_path / name
    file.write_text(content)
    with pytest.raises(UserError) as caught:
        load_graph(file)
    message = str(caught.value)
    assert words in message
    assert message.startswith(str(file))
    assert message.endswith((".", "?"))
    assert "\n" not in message


def test_files_that_cannot_be_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match=r"none.mtx does not exist"):
        load_graph(tmp_path / "none.mtx")
    with pytest.raises(UserError, match=r"none.el.gz does not exist"):
        load_graph(tmp_path / "none.el.gz")
    with pytest.raises(UserError, match="is a directory"):
        load_graph(tmp_path)
    (tmp_path / "file.mtx").write_text("x")
    with pytest.raises(UserError, match="cannot be read"):
        load_graph(tmp_path / "file.mtx" / "inner.mtx")
    with pytest.raises(UserError, match="cannot be read"):
        load_graph("nul\0.mtx")

    os.mkfifo(tmp_path / "pipe.el")
    with pytest.raises(
        UserError, match=r"pipe\.el is not a regular file; give the name of a regular file"
    ):
        load_graph(tmp_path / "pipe.el")
    (tmp_path / "loop.el").symlink_to("loop.el")
    with pytest.raises(UserError, match="Too many levels of symbolic links"):
        load_graph(tmp_path / "loop.el")

    def forbid(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", forbid)
    with pytest.raises(UserError, match="may not be read; change its permissions"):
        load_graph(tmp_path / "file.mtx")


def test_cut_and_damaged_gzip(tmp_path: Path) -> None:
    text = BANNER + "9 9 500\n" + "".join(f"{i % 9 + 1} {i % 7 + 1}\n" for i in range(500))
    packed = gzip.compress(text.encode())
    file = tmp_path / "a.mtx.gz"
    for end in (5, 40, len(packed) // 2, len(packed) - 9, len(packed) - 1):
        file.write_bytes(packed[:end])
        with pytest.raises(UserError, match="is cut off"):
            load_graph(file)
    damaged = bytearray(packed)
    damaged[20] ^= 0xFF
    file.write_bytes(damaged)
    with pytest.raises(UserError, match="gzip"):
        load_graph(file)


def test_memory_is_checked_before_it_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "memory_bytes", lambda: 10_000_000_000)
    (tmp_path / "a.mtx").write_text(BANNER + "4294967296 4294967296 1\n1 2\n")
    with pytest.raises(UserError, match=r"needs about 137.4 GB .* has 10.0 GB"):
        load_graph(tmp_path / "a.mtx")
    monkeypatch.setattr(graphs, "_SPARSE_VERTICES", graphs.MAX_VERTICES)
    (tmp_path / "a.el").write_text("0 4294967295\n")
    with pytest.raises(UserError, match=r"needs about 137.4 GB .* has 10.0 GB"):
        load_graph(tmp_path / "a.el")
    with pytest.raises(UserError, match=r"R-MAT scale 30 .* needs about 584.1 GB"):
        rmat(30)


def test_a_matrix_with_hardly_any_edge_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.mtx"
    file.write_text(BANNER + "240000000 240000000 2\n1 2\n2 240000000\n")
    with pytest.raises(UserError) as caught:
        load_graph(file)
    assert str(caught.value) == (
        f"{file}: vertices are numbered up to 240,000,000, but only 3 of them have an edge; "
        "number the vertices that have edges from 1 to 3, without gaps."
    )


def test_a_file_that_unpacks_to_more_than_it_says_is_refused_early(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a.mtx.gz"
    file.write_bytes(gzip.compress(BANNER.encode() + b"3 3 1\n1 2\n" + bytes(10_000_000)))
    with pytest.raises(UserError, match=r"a\.mtx\.gz has more than 1 MB of text"):
        load_graph(file)
    file = tmp_path / "a.el.gz"
    file.write_bytes(gzip.compress(b"0 1\n" * 3_000_000))
    monkeypatch.setattr(reading, "memory_bytes", lambda: 40_000_000)
    with pytest.raises(UserError, match=r"a\.el\.gz has more than 10 MB of text"):
        load_graph(file)


def test_numbers_with_gaps_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.el").write_text("7 4294967295\n7 9\n")
    with pytest.raises(UserError) as refused:
        load_graph(tmp_path / "a.el")
    assert str(refused.value) == (
        f"{tmp_path}/a.el: vertices are numbered up to 4,294,967,295, but only 3 of them have an "
        "edge; number the vertices that have edges from 0 to 2, without gaps."
    )
    (tmp_path / "a.el").write_text("0 1000000\n")
    assert load_graph(tmp_path / "a.el").rows == 1000001


# --- Fuzz ---------------------------------------------------------------------------------------


def seeds() -> dict[str, bytes]:
    """Return small valid files by name."""
    edges = [(1, 2), (2, 3), (3, 1), (3, 3), (5, 4), (1, 12)]
    body = "".join(f"{i} {j}\n" for i, j in edges)
    valued = "".join(f"{i} {j} {i / j:.2f}\n" for i, j in edges)
    pattern = (BANNER + f"% c\n12 12 {len(edges)}\n" + body).encode()
    real = (REAL + f"12 12 {len(edges)}\n" + valued).encode()
    symmetric = pattern.replace(b"general", b"symmetric")
    plain = ("# list\n" + valued).encode()
    return {
        "a.mtx": pattern,
        "b.mtx": real,
        "c.mtx": symmetric,
        "d.mtx.gz": gzip.compress(pattern, mtime=0),
        "e.el": plain,
        "f.tsv": body.replace(" ", "\t").encode(),
        "g.txt.gz": gzip.compress(plain, mtime=0),
    }


def mutated(data: bytes, generator: random.Random) -> bytes:
    """Return the data with one to four bytes changed, inserted, removed or doubled, or with its end
    cut off.
    """
    out = bytearray(data)
    for _ in range(generator.randint(1, 4)):
        at = generator.randrange(len(out) + 1)
        kind = generator.randrange(6)
        if kind == 0 and at < len(out):
            out[at] = generator.randrange(256)
        elif kind == 1 and at < len(out):
            out[at] = generator.choice(b"0123456789 -.#%\n\t\r\0eE+")
        elif kind == 2:
            out[at:at] = bytes([generator.choice(b"0123456789 -\n#%\xff")])
        elif kind == 3:
            del out[at : at + generator.randint(1, 9)]
        elif kind == 4:
            out[at:at] = out[at : at + generator.randint(1, 30)]
        elif kind == 5 and generator.random() < 0.2:
            del out[at:]
    return bytes(out)


def load_or_refuse(file: Path) -> Graph | UserError:
    try:
        return load_graph(file)
    except UserError as error:
        return error


@pytest.mark.parametrize(
    ("content", "refusal"),
    [
        (BANNER + "3 3 1\n1 2\0", "expected two integers, found '1 2?'"),
        (BANNER + "3 3 2\n1 2\0\n1 3\n", "expected two integers, found '1 2?'"),
        (
            REAL + "3 3 2\n1 2 0.\0005\n1 3 0-0",
            "expected two integers and a value, found '1 2 0.?5'",
        ),
    ],
)
def test_what_scipys_reader_crashes_on(tmp_path: Path, content: str, refusal: str) -> None:
    file = tmp_path / "a.mtx"
    file.write_text(content)
    with pytest.raises(UserError) as refused:
        load_graph(file)
    assert str(refused.value) == f"{file}, line 3: {refusal}; correct the line."


def test_a_last_line_that_scipys_reader_crashes_on(tmp_path: Path) -> None:
    (tmp_path / "a.mtx").write_text(BANNER + "3 3 1\n1 2 9")  # an entry of a pattern has no value
    graph = load_graph(tmp_path / "a.mtx")
    assert (graph.rows, graph.offsets.tolist(), graph.columns.tolist()) == (3, [0, 0, 1, 1], [0])


@pytest.mark.parametrize("name", list(seeds()))
def test_loaders_survive_mutations(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The loaders refuse files that need much memory, so every case ends soon.
    monkeypatch.setattr(reading, "memory_bytes", lambda: 32_000_000)
    generator = random.Random(f"mutations of {name}")
    data = seeds()[name]
    file = tmp_path / name
    read = refused = 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(400):
            file.write_bytes(mutated(data, generator))
            outcome = load_or_refuse(file)
            if isinstance(outcome, UserError):
                refused += 1
                assert str(outcome).startswith(str(file))
                assert str(outcome).isprintable()
            else:
                read += 1
                check_whole(outcome)
    assert read > 5
    assert refused > 20


# --- R-MAT --------------------------------------------------------------------------------------


def rmat_edge(scale: int, k: int, seed: int, thresholds: tuple[int, int, int]) -> tuple[int, int]:
    """Return one edge, computed by the definition with Python's integers."""
    mask = 2**64 - 1
    source = target = 0
    for level in range(scale):
        z = (seed * 0x9E3779B97F4A7C15 + k * scale + level) & mask
        z = (z + 0x9E3779B97F4A7C15) & mask
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        u = (z ^ (z >> 31)) >> 32
        quadrant = sum(u >= threshold for threshold in thresholds)
        source, target = 2 * source + quadrant // 2, 2 * target + quadrant % 2
    return source, target


@settings(max_examples=40, deadline=None)
@given(
    scale=st.integers(1, 32),
    first=st.integers(0, 2**36),
    seed=st.integers(0, 2**64 - 1),
)
def test_rmat_edges_are_the_defined_ones(scale: int, first: int, seed: int) -> None:
    sources, targets = rmat_edges(scale, first, 5, seed)
    defaults = (2448131358, 3264175144, 4080218931)
    expected = [rmat_edge(scale, k, seed, defaults) for k in range(first, first + 5)]
    assert list(zip(sources.tolist(), targets.tolist(), strict=True)) == expected


def test_rmat_known_edges() -> None:
    # Implementations on other devices must give these edges, too.
    sources, targets = rmat_edges(20, 0, 4)
    assert sources.tolist() == [32912, 393249, 540672, 6280]
    assert targets.tolist() == [478722, 106388, 870920, 155659]


def test_rmat_parts_make_the_whole() -> None:
    scale, edges = 12, 16 << 12
    whole = rmat_edges(scale, 0, edges)
    for cut in (1, 777, 16384, 40000):
        parts = rmat_edges(scale, 0, cut), rmat_edges(scale, cut, edges - cut)
        for side in (0, 1):
            assert np.array_equal(whole[side], np.concatenate([p[side] for p in parts]))
    graph = rmat(scale)
    check_whole(graph)
    assert (graph.name, graph.rows, graph.edges) == ("rmat-12", 4096, edges)
    assert pairs_of(graph) == sorted(zip(whole[0].tolist(), whole[1].tolist(), strict=True))


def test_rmat_is_deterministic_and_seeded() -> None:
    one, same, other = rmat(10), rmat(10), rmat(10, seed=2)
    assert np.array_equal(one.columns, same.columns)
    assert np.array_equal(one.offsets, same.offsets)
    assert not np.array_equal(one.columns, other.columns)
    assert rmat(10, edge_factor=3).edges == 3072


def test_rmat_quadrants_and_skew() -> None:
    scale, count = 16, 1 << 18
    sources, targets = rmat_edges(scale, 0, count)
    for level in (0, 7, 15):
        quadrant = 2 * (sources >> level & 1) + (targets >> level & 1)
        share = np.bincount(quadrant, minlength=4) / count
        assert share == pytest.approx([0.57, 0.19, 0.19, 0.05], abs=0.005)
    graph = rmat(14)
    needed = np.sort(np.diff(graph.offsets))[::-1]
    assert needed[0] > 50 * graph.edges / graph.rows  # one vertex is a hub
    assert needed[: graph.rows // 100].sum() > 0.15 * graph.edges  # a few vertices have many edges
    assert np.count_nonzero(needed == 0) > graph.rows // 10
    even = np.diff(rmat(14, a=0.25, b=0.25, c=0.25).offsets)
    assert even.max() < 60  # without skew, the degrees have a Poisson distribution with mean 16


def test_rmat_extreme_probabilities() -> None:
    sources, targets = rmat_edges(8, 0, 100, a=1.0, b=0.0, c=0.0)
    assert not sources.any()
    assert not targets.any()
    sources, targets = rmat_edges(8, 0, 100, a=0.0, b=0.0, c=0.0)
    assert np.all(sources == 255)
    assert np.all(targets == 255)
    sources, targets = rmat_edges(8, 0, 100, a=0.0, b=1.0, c=0.0)
    assert not sources.any()
    assert np.all(targets == 255)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"scale": 0}, "R-MAT scale 0: give a number from 1 to 32"),
        ({"scale": 33}, "R-MAT scale 33"),
        ({"scale": 4, "edge_factor": 0}, "R-MAT edge factor 0"),
        ({"scale": 4, "seed": -1}, "R-MAT seed -1"),
        ({"scale": 4, "seed": 2**64}, "R-MAT seed"),
        ({"scale": 4, "a": -0.1}, "R-MAT a, b, c are -0.1"),
        ({"scale": 4, "a": 0.8, "b": 0.3}, "R-MAT a, b, c are 0.8, 0.3"),
        ({"scale": 4, "c": float("nan")}, "R-MAT a, b, c are"),
    ],
)
def test_rmat_bad_options(options: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError) as caught:
        rmat(**options)
    assert words in str(caught.value)


# --- Partition ----------------------------------------------------------------------------------


@settings(max_examples=200, deadline=None)
@given(degrees=st.lists(st.integers(0, 30) | st.just(2000), max_size=60), parts=st.integers(1, 70))
def test_partition_properties(degrees: list[int], parts: int) -> None:
    offsets = np.concatenate([[0], np.cumsum(degrees)]).astype(np.int64)
    rows = len(degrees)
    bounds = partition_by_edges(offsets, parts)
    assert len(bounds) == parts + 1
    assert bounds[0] == 0
    assert bounds[-1] == rows
    sizes = np.diff(bounds)
    assert np.all(sizes >= (1 if rows >= parts else 0))
    work = offsets + np.arange(rows + 1)
    largest = max((d + 1 for d in degrees), default=0)
    assert np.all(np.diff(work[bounds]) <= work[-1] / parts + largest)
    assert all(isinstance(b, int) for b in bounds)


def test_partition_examples() -> None:
    even = np.arange(0, 101, 10, dtype=np.int64)  # ten rows with ten edges each
    assert partition_by_edges(even, 1) == [0, 10]
    assert partition_by_edges(even, 2) == [0, 5, 10]
    assert partition_by_edges(even, 10) == list(range(11))
    hub = np.array([0, 1000, 1001, 1002, 1003], dtype=np.int64)
    assert partition_by_edges(hub, 2) == [0, 1, 4]
    assert partition_by_edges(hub, 4) == [0, 1, 2, 3, 4]
    assert len(partition_by_edges(hub, 6)) == 7
    with pytest.raises(ValueError, match="at least 1"):
        partition_by_edges(even, 0)


def test_partition_of_a_skewed_graph_is_balanced() -> None:
    graph = rmat(14)
    work = graph.offsets + np.arange(graph.rows + 1)
    for parts in (2, 4, 8):
        shares = np.diff(work[partition_by_edges(graph.offsets, parts)]) / work[-1]
        assert shares == pytest.approx(np.full(parts, 1 / parts), rel=0.05)


def heaviest(offsets: NDArray[np.int64], bounds: Sequence[int]) -> int:
    """Return the largest load of a part. The load is the work or the number of stores to other
    parts, whichever is larger.
    """
    rows = np.diff(bounds)
    work = np.diff(offsets[np.asarray(bounds)]) + rows
    return int(max(work.max(), (len(bounds) - 2) * rows.max()))


@settings(max_examples=200, deadline=None)
@given(degrees=st.lists(st.integers(0, 9) | st.just(40), min_size=1, max_size=9),
       parts=st.integers(1, 4))  # fmt: skip
@example(degrees=[0, 0, 0, 0], parts=3)  # here, no cut is lighter than the even cut
def test_no_cut_has_a_lighter_heaviest_part(degrees: list[int], parts: int) -> None:
    offsets = np.concatenate([[0], np.cumsum(degrees)]).astype(np.int64)
    rows = len(degrees)
    found, even = partition(offsets, parts), partition_by_edges(offsets, parts)
    assert (found[0], found[-1], len(found)) == (0, rows, parts + 1)
    assert np.all(np.diff(found) >= (1 if rows >= parts else 0))
    assert all(isinstance(b, int) for b in found)
    if found != even:
        least = min(
            heaviest(offsets, [0, *inner, rows])
            for inner in combinations_with_replacement(range(rows + 1), parts - 1)
        )
        assert heaviest(offsets, found) == least < heaviest(offsets, even)


def test_a_part_of_many_light_rows_gives_some_away() -> None:
    graph = rmat(14, 2)  # half of the vertices have only a quarter of the edges
    even, found = (cut(graph.offsets, 4) for cut in (partition_by_edges, partition))
    assert np.diff(even).max() > 0.4 * graph.rows
    assert np.diff(found).max() < 0.34 * graph.rows
    dense = rmat(12, 64)  # the load is the computation, which is larger than the stores
    assert partition(dense.offsets, 4) == partition_by_edges(dense.offsets, 4)


# --- Reference PageRank -------------------------------------------------------------------------


def dense_pagerank(rows: int, edges: Edges, damping: float, iterations: int) -> NDArray[np.float64]:
    """Compute PageRank by power iteration with the dense Google matrix."""
    matrix = np.zeros((rows, rows))
    for source, target in edges:
        matrix[target, source] += 1
    out = matrix.sum(axis=0)
    matrix[:, out == 0] = 1 / rows
    matrix[:, out > 0] /= out[out > 0]
    google = damping * matrix + (1 - damping) / rows
    ranks = np.full(rows, 1 / rows)
    for _ in range(iterations):
        ranks = google @ ranks
    return ranks


@settings(max_examples=80, deadline=None)
@given(made=edge_lists(), damping=st.floats(0, 1), iterations=st.integers(1, 30))
def test_reference_equals_dense_iteration(
    made: tuple[int, Edges], damping: float, iterations: int
) -> None:
    rows, edges = made
    found = pagerank_reference(graph_of(rows, edges), damping, iterations=iterations)
    expected = dense_pagerank(rows, edges, damping, iterations)
    before = dense_pagerank(rows, edges, damping, iterations - 1)
    assert found.iterations == iterations
    assert np.abs(found.ranks - expected).max() < 1e-13
    assert found.ranks.sum() == pytest.approx(1, abs=1e-12)
    assert found.residual == pytest.approx(np.abs(expected - before).sum(), abs=1e-12)


def test_reference_tolerance() -> None:
    graph = rmat(10)
    loose, tight = (pagerank_reference(graph, tolerance=t) for t in (1e-3, 1e-10))
    assert loose.iterations < tight.iterations < 200
    assert tight.residual <= 1e-10
    again = pagerank_reference(graph, iterations=tight.iterations)
    assert np.array_equal(again.ranks, tight.ranks)
    assert again.residual == tight.residual
    # The run ends as soon as the first of the two conditions holds.
    assert pagerank_reference(graph, tolerance=1e-10, iterations=3).iterations == 3
    assert pagerank_reference(graph, tolerance=1e-3, iterations=500).iterations == loose.iterations
    # The stationary vector is an eigenvector, so one more step changes almost nothing.
    assert np.abs(tight.ranks - dense_pagerank(1024, pairs_of(graph), 0.85, 200)).sum() < 1e-9


def test_reference_bad_values() -> None:
    ring = graph_of(2, [(0, 1), (1, 0), (0, 0)])
    with pytest.raises(ValueError, match="give iterations, tolerance or both"):
        pagerank_reference(ring)
    with pytest.raises(UserError, match=r"damping 1.5: give a number from 0 to 1"):
        pagerank_reference(ring, 1.5, iterations=1)
    with pytest.raises(UserError, match="iterations 0: give a number of at least 1"):
        pagerank_reference(ring, iterations=0)
    for tolerance in (0.0, -1.0, float("nan")):
        with pytest.raises(UserError, match="give a number above 0"):
            pagerank_reference(ring, tolerance=tolerance)
    # Without damping, the ranks oscillate and never converge.
    star = graph_of(3, [(0, 1), (0, 2), (1, 0), (2, 0)])
    with pytest.raises(UserError, match=r"tolerance 1e-06: after 1000 iterations the change is"):
        pagerank_reference(star, 1.0, tolerance=1e-6)
