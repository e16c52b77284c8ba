"""Reads, generates and cuts graphs for the workloads, and computes a reference PageRank.

A graph is directed and has at most 2**32 vertices. It is stored by incoming edges, because a pull
kernel reads incoming edges. Duplicate edges and self-loops are kept and treated like other edges.
"""

from __future__ import annotations

import io
import math
import os
import warnings
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from interlace.base.errors import UserError
from interlace.data import reading

MAX_VERTICES = 2**32
EDGE_LIST_SUFFIXES = (".txt", ".el", ".edges", ".tsv")

_GOLDEN = 0x9E3779B97F4A7C15
_MASK64 = 2**64 - 1
_RMAT_CHUNK = 1 << 14  # the edges of a chunk; the temporary arrays of a chunk stay in the L2
_COUNT_CHUNK = 1 << 22  # the edges of a chunk while degrees are counted; this bounds the memory
_SPARSE_VERTICES = 1 << 20  # this many vertices cost little, even if most of them have no edge
_SPARSE_FACTOR = 100  # a graph may have at most this many vertices for each vertex with an edge
_REFERENCE_LIMIT = 1000  # the reference makes at most this many iterations


@dataclass(frozen=True, eq=False)
class Graph:
    """A directed graph, stored by incoming edges (compressed sparse rows, one row for each target).

    `columns[offsets[v]:offsets[v + 1]]` are the sources of the edges into vertex v, in ascending
    order. An edge that occurs twice is listed twice. Vertices are 0 .. rows - 1.
    """

    name: str
    rows: int
    offsets: NDArray[np.int64]  # length: rows + 1
    columns: NDArray[np.uint32]  # one entry for each edge
    # The number of edges out of each vertex, including all duplicates of an edge.
    out_degree: NDArray[np.uint32]
    weighted: bool = False  # whether the graph's file has weights; a Graph does not store them

    @property
    def edges(self) -> int:
        """Return the number of edges, including duplicates."""
        return int(self.columns.size)


class PagerankReference(NamedTuple):
    """The result of `pagerank_reference`."""

    ranks: NDArray[np.float64]  # one entry for each row; the ranks sum to 1
    iterations: int
    residual: float  # the L1 norm of the change in the last iteration


def load_graph(path: str | os.PathLike[str]) -> Graph:
    """Read a graph. The suffix of the file's name selects the format.

    - `.mtx`, `.mtx.gz`: Matrix Market, in coordinate format, with a square matrix. The field is
    pattern, real or integer. The symmetry is general or symmetric. Entry (i, j) is the edge i -> j.
    In a symmetric file, each off-diagonal entry is also the edge j -> i. Values are ignored: an
    entry whose value is zero, negative or NaN is still an edge.
    - `.txt`, `.el`, `.edges`, `.tsv`, and each of these with `.gz`: each line holds a source and a
    target, separated by blanks or tabs. Vertex numbers start at 0. Further columns, and text after
    a `#`, are ignored. The number of vertices is the largest vertex number plus one.

    Raises UserError if the file cannot be read, has an error (with the line's number), or has no
    vertices or no edges.
    """
    return _load(Path(path), want_weights=False)[0]


def load_with_weights(path: str | os.PathLike[str]) -> tuple[Graph, NDArray[np.float32] | None]:
    """Read a graph like `load_graph`, and the weight of each edge if the file has weights.

    In a Matrix Market file, the weights are the values if the field is real or integer. In an edge
    list, the weights are the third column. The first edge decides whether the list has weights:
    either every edge has a weight, or no edge has one.

    Also raises UserError, with the line's number, for a weight that is not a number, is negative,
    or is not finite in float32.
    """
    return _load(Path(path), want_weights=True)


def _load(file: Path, *, want_weights: bool) -> tuple[Graph, NDArray[np.float32] | None]:
    stem = file.name.removesuffix(".gz")
    suffix = Path(stem).suffix.lower()
    if file.is_dir():
        raise UserError(f"{file} is a directory; name a graph file in it.")
    if suffix != ".mtx" and suffix not in EDGE_LIST_SUFFIXES:
        known = ", ".join((".mtx", *EDGE_LIST_SUFFIXES))
        raise UserError(
            f"{file}: this ending is unknown; files of graphs end in {known}, each also .gz."
        )
    name = stem[: -len(suffix)]
    try:
        data = reading.read(file)
        if not data:
            raise UserError(f"{file} is empty; name a file that holds a graph.")
        if suffix == ".mtx":
            return _load_matrix_market(file, name, data, want_weights=want_weights)
        return _load_edge_list(file, name, data, want_weights=want_weights)
    except MemoryError:
        raise UserError(f"{file} does not fit into memory; take a smaller graph.") from None


def rmat(
    scale: int,
    edge_factor: int = 16,
    seed: int = 1,
    a: float = 0.57,
    b: float = 0.19,
    c: float = 0.19,
) -> Graph:
    """Generate an R-MAT graph with 2**scale vertices and edge_factor * 2**scale edges.

    The model is from Chakrabarti, Zhan, Faloutsos, "R-MAT: A Recursive Model for Graph Mining", SDM
    2004. The default parameters are those of Graph500. Duplicates and self-loops are kept, and
    vertices are not permuted. The function `rmat_edges` defines every bit of the edges.

    Raises UserError for parameters out of range, and for a graph that does not fit in memory.
    """
    if not 1 <= edge_factor < MAX_VERTICES:
        raise UserError(f"R-MAT edge factor {edge_factor}: give a number from 1 to 2**32 - 1.")
    _rmat_thresholds(scale, seed, a, b, c)
    rows = 1 << scale
    edges = edge_factor << scale
    name = f"rmat-{scale}"
    what = f"R-MAT scale {scale} with edge factor {edge_factor}"
    reading.require_memory(_needed_bytes(rows, edges), what, "graph")
    try:
        keys = np.empty(edges, dtype=np.uint64)
        for first in range(0, edges, _RMAT_CHUNK):
            count = min(_RMAT_CHUNK, edges - first)
            sources, targets = rmat_edges(scale, first, count, seed, a, b, c)
            part = keys[first : first + count]
            np.left_shift(targets, np.uint64(32), out=part, dtype=np.uint64)
            np.bitwise_or(part, sources, out=part)
        return _from_keys(name, rows, keys)
    except MemoryError:
        raise UserError(
            f"R-MAT scale {scale} does not fit into memory; take a smaller scale."
        ) from None


def rmat_edges(
    scale: int,
    first: int,
    count: int,
    seed: int = 1,
    a: float = 0.57,
    b: float = 0.19,
    c: float = 0.19,
) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Return sources and targets of the R-MAT edges first .. first + count - 1, in order.

    An edge depends only on its number and the parameters, so any part of the graph can be made
    separately. All arithmetic uses unsigned integers of 64 bits, modulo 2**64. For edge k and each
    level l from 0 to scale - 1:

        x = seed * 0x9E3779B97F4A7C15 + k * scale + l
        z = x + 0x9E3779B97F4A7C15                        (from here on: SplitMix64 of state x)
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB
        u = (z ^ (z >> 31)) >> 32                         (the upper 32 bits of its output)

        u <  A            source bit 0, target bit 0
        A   <= u <  AB    source bit 0, target bit 1
        AB  <= u <  ABC   source bit 1, target bit 0
        ABC <= u          source bit 1, target bit 1

        source = 2 * source + source bit; target = 2 * target + target bit   (both start as 0)

    The first level gives the most significant bit. The thresholds are A = floor(a * 2**32),
    AB = floor((a + b) * 2**32) and ABC = floor(((a + b) + c) * 2**32), with the sums in IEEE
    binary64 and the product exact: 2448131358, 3264175144 and 4080218931 for the defaults.

    Raises UserError unless scale is in 1 .. 32, seed is in 0 .. 2**64 - 1, each of a, b and c is at
    least 0, and the sum of a, b and c is at most 1.
    """
    thresholds = _rmat_thresholds(scale, seed, a, b, c)
    at_a, at_ab, at_abc = (np.uint64(t) for t in thresholds)
    sources = np.zeros(count, dtype=np.uint32)
    targets = np.zeros(count, dtype=np.uint32)
    one = np.uint32(1)
    for start in range(0, count, _RMAT_CHUNK):
        stop = min(start + _RMAT_CHUNK, count)
        counter = np.arange(first + start, first + stop, dtype=np.uint64)
        counter *= np.uint64(scale)
        counter += np.uint64((seed * _GOLDEN + _GOLDEN) & _MASK64)
        source, target = sources[start:stop], targets[start:stop]
        u = np.empty_like(counter)
        shifted = np.empty_like(counter)
        for level in range(scale):
            np.add(counter, np.uint64(level), out=u)
            np.right_shift(u, np.uint64(30), out=shifted)
            u ^= shifted
            u *= np.uint64(0xBF58476D1CE4E5B9)
            np.right_shift(u, np.uint64(27), out=shifted)
            u ^= shifted
            u *= np.uint64(0x94D049BB133111EB)
            np.right_shift(u, np.uint64(31), out=shifted)
            u ^= shifted
            u >>= np.uint64(32)
            source_bit = u >= at_ab
            target_bit = (u >= at_a) ^ source_bit ^ (u >= at_abc)
            np.left_shift(source, one, out=source)
            np.bitwise_or(source, source_bit, out=source)
            np.left_shift(target, one, out=target)
            np.bitwise_or(target, target_bit, out=target)
    return sources, targets


def partition_by_edges(offsets: NDArray[np.int64], parts: int) -> list[int]:
    """Cut rows into contiguous parts of nearly equal work.

    `offsets` are a graph's row offsets (rows + 1 numbers). The work of a row is its number of edges
    plus one. The result b has parts + 1 boundaries in ascending order, from 0 to the number of
    rows. Part p has the rows b[p] .. b[p + 1] - 1. With n parts, the work of each part is at most
    one n-th of the total work plus the work of the largest row. If there are at least as many rows
    as parts, no part is empty.

    Raises ValueError if parts is less than 1.
    """
    if parts < 1:
        raise ValueError(f"parts is {parts}; it must be at least 1")
    rows = len(offsets) - 1
    work = np.asarray(offsets, dtype=np.int64) + np.arange(rows + 1, dtype=np.int64)
    work -= work[0]
    total = int(work[-1])
    spare = rows >= parts
    boundaries = [0]
    for part in range(1, parts):
        ideal = total * part  # in units of 1 / parts, so that all values are whole numbers
        row = int(np.searchsorted(work, -(-ideal // parts)))
        if row > 0 and ideal - int(work[row - 1]) * parts < int(work[row]) * parts - ideal:
            row -= 1
        if spare:
            row = min(max(row, boundaries[-1] + 1), rows - (parts - part))
        boundaries.append(row)
    boundaries.append(rows)
    return boundaries


def partition(offsets: NDArray[np.int64], parts: int) -> list[int]:
    """Cut rows into contiguous parts of nearly equal computation and communication.

    The value of each row is stored to every other part. The cut assumes that a value takes as long
    on a link as an edge takes in memory. A value has 4 bytes, and a link has about a tenth of the
    memory's rate. An edge takes 36 bytes of memory traffic: a sector of 32 bytes, and the 4 bytes
    of its source's number. The result is the cut of `partition_by_edges` if, in this cut, no part
    sends for longer than the part with the most work computes. Otherwise the result minimises the
    time of the slowest part, which is the longer of its computation and its stores.

    Raises ValueError if parts is less than 1.
    """
    even = partition_by_edges(offsets, parts)
    rows, stores = len(offsets) - 1, parts - 1  # each row is stored to this many other parts
    work = np.asarray(offsets, dtype=np.int64) + np.arange(rows + 1, dtype=np.int64)
    most_work = int(np.diff(work[even]).max())
    most = max(most_work, stores * int(np.diff(even).max()))
    if most == most_work or rows < parts:
        return even

    def cut(limit: int) -> list[int]:
        found = [0]
        for part in range(1, parts):
            by_work = int(np.searchsorted(work, work[found[-1]] + limit, side="right")) - 1
            by_stores = found[-1] + limit // stores
            found.append(min(by_work, by_stores, rows - (parts - part)))
        return [*found, rows]

    def fits(limit: int) -> bool:
        last = cut(limit)[-2]
        return max(int(work[rows] - work[last]), stores * (rows - last)) <= limit

    # With the limit `low`, every single row fits into a part. With the limit `high`, the cut of
    # `partition_by_edges` fits.
    low, high = max(int(np.diff(work).max()), stores), most
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle + 1, high)
    return cut(low) if low < most else even


def pagerank_reference(
    graph: Graph,
    damping: float = 0.85,
    *,
    iterations: int | None = None,
    tolerance: float | None = None,
) -> PagerankReference:
    """Compute PageRank in float64 by power iteration, to check a kernel's result.

    x starts as 1/n for every vertex. Each iteration is
    x'[v] = (1 - damping) / n + damping * (sum over edges u -> v of x[u] / out_degree[u] + D / n),
    where D is the sum of x over the vertices without outgoing edges. The function ends after
    `iterations` iterations, or earlier if the L1 norm of the change is at most `tolerance`. The
    caller must give `iterations`, `tolerance` or both.

    Raises UserError for values out of range. Also raises UserError if only `tolerance` is given and
    the change is still larger after 1000 iterations.
    """
    if iterations is None and tolerance is None:
        raise ValueError("give iterations, tolerance or both")
    if not 0 <= damping <= 1:
        raise UserError(f"damping {damping}: give a number from 0 to 1.")
    if iterations is not None and iterations < 1:
        raise UserError(f"iterations {iterations}: give a number of at least 1.")
    if tolerance is not None and not tolerance > 0:
        raise UserError(f"tolerance {tolerance}: give a number above 0.")
    rows = graph.rows
    shape = (rows, rows)
    into = csr_array((np.ones(graph.edges), graph.columns, graph.offsets), shape=shape)
    dangling = graph.out_degree == 0
    share = 1.0 / np.maximum(graph.out_degree, 1).astype(np.float64)
    ranks: NDArray[np.float64] = np.full(rows, 1.0 / rows)
    limit = _REFERENCE_LIMIT if iterations is None else iterations
    done = 0
    residual = math.inf
    while done < limit and (tolerance is None or residual > tolerance):
        lost = float(ranks[dangling].sum())
        pulled = np.asarray(into @ (ranks * share), dtype=np.float64)
        updated = (1.0 - damping) / rows + damping * (pulled + lost / rows)
        residual = float(np.abs(updated - ranks).sum())
        ranks = updated
        done += 1
    if iterations is None and tolerance is not None and residual > tolerance:
        raise UserError(
            f"tolerance {tolerance}: after {done} iterations the change is still {residual:.2e}; "
            "give a larger tolerance or a number of iterations."
        )
    return PagerankReference(ranks, done, residual)


def _rmat_thresholds(scale: int, seed: int, a: float, b: float, c: float) -> tuple[int, int, int]:
    """Check all parameters and return the three integer thresholds."""
    if not 1 <= scale <= 32:
        raise UserError(f"R-MAT scale {scale}: give a number from 1 to 32.")
    if not 0 <= seed <= _MASK64:
        raise UserError(f"R-MAT seed {seed}: give a number from 0 to 2**64 - 1.")
    sums = (a, a + b, (a + b) + c)
    if not (a >= 0 and b >= 0 and c >= 0 and sums[2] <= 1):
        raise UserError(
            f"R-MAT a, b, c are {a}, {b}, {c}: give numbers of at least 0 whose sum is at most 1."
        )
    low, middle, high = (math.floor(s * 2**32) for s in sums)
    return low, middle, high


def _needed_bytes(rows: int, edges: int) -> int:
    """Return the bytes of memory that building a graph needs."""
    return 32 * edges + 32 * rows


def _from_keys(name: str, rows: int, keys: NDArray[np.uint64]) -> Graph:
    """Make a graph from edges that are packed as target << 32 | source. This sorts `keys` in
    place.
    """
    keys.sort()
    columns = np.empty(keys.size, dtype=np.uint32)
    degree = np.zeros(rows, dtype=np.int64)
    for start in range(0, keys.size, _COUNT_CHUNK):
        part = columns[start : start + _COUNT_CHUNK]
        part[:] = keys[start : start + _COUNT_CHUNK] & np.uint64(0xFFFFFFFF)
        degree += np.bincount(part, minlength=rows)
    offsets = np.empty(rows + 1, dtype=np.int64)
    first_keys = np.arange(rows, dtype=np.uint64) << np.uint64(32)
    offsets[:-1] = np.searchsorted(keys, first_keys)
    offsets[-1] = keys.size
    return Graph(name, rows, offsets, columns, degree.astype(np.uint32))


def from_pairs(
    name: str, rows: int, sources: NDArray[np.int64], targets: NDArray[np.int64]
) -> Graph:
    """Make a graph from these edges."""
    keys = targets.astype(np.uint64)
    keys <<= np.uint64(32)
    keys |= sources.astype(np.uint64)
    return _from_keys(name, rows, keys)


# --- Files ---------------------------------------------------------------------------------------


def _load_matrix_market(
    file: Path, name: str, data: bytes, *, want_weights: bool
) -> tuple[Graph, NDArray[np.float32] | None]:
    header = reading.matrix_market_header(file, data, "a graph", ("pattern", "real", "integer"))
    if header.rows == 0 or header.entries == 0:
        what = "vertices" if header.rows == 0 else "edges"
        raise UserError(f"{file}, line {header.line}: the graph has no {what}; name another file.")
    if header.rows > MAX_VERTICES:
        raise UserError(
            f"{file}, line {header.line}: {header.rows} vertices are more than 2**32; "
            "take a smaller graph."
        )
    needed = _needed_bytes(header.rows, header.stored)
    want_weights = want_weights and not header.pattern
    needed += 24 * header.stored if want_weights else 0
    entries = reading.matrix_market_entries(file, data, header, needed, "graph")
    _refuse_gaps(file, header.rows, entries.rows, entries.columns, first=1)
    graph = from_pairs(name, header.rows, entries.rows, entries.columns)
    graph = replace(graph, weighted=not header.pattern)
    if not want_weights:
        return graph, None
    if not _sound(entries.values).all():
        number, value = reading.find_value(data, header, lambda value: not _sound(value).all())
        raise _unsound(file, number, f"{value:g}")
    return graph, _in_order_of_edges(entries.values, entries.rows, entries.columns)


def _in_order_of_edges(
    values: NDArray[np.float64], sources: NDArray[np.int64], targets: NDArray[np.int64]
) -> NDArray[np.float32]:
    """Return the values in the order in which `_from_keys` sorts the edges.

    The values of duplicate edges keep the file's order.
    """
    return values[np.lexsort((sources, targets))].astype(np.float32)


def _sound(weights: Any) -> NDArray[np.bool_]:
    """Return a mask of the weights that are allowed: not negative, and finite in float32."""
    return np.asarray((weights >= 0) & (weights <= float(np.finfo(np.float32).max)))


def _unsound(file: Path, number: int, shown: str) -> UserError:
    return UserError(
        f"{file}, line {number}: the weight is {shown}; give a number that is at least 0 and "
        "finite in float32."
    )


class _EdgeList(NamedTuple):
    """The edges of a file, in the order of the file."""

    sources: NDArray[np.int64]
    targets: NDArray[np.int64]
    weights: NDArray[np.float64] | None


def _load_edge_list(
    file: Path, name: str, data: bytes, *, want_weights: bool
) -> tuple[Graph, NDArray[np.float32] | None]:
    first = next(_content_lines(data), (0, b""))
    weighted = len(first[1].split()) > 2
    columns = (2 + weighted) if want_weights else None
    edges = _fast_edge_list(data, columns) or _scan_edge_list(file, data, columns, first[0])
    sources, targets, weights = edges
    if sources.size == 0:
        raise UserError(f"{file}: the graph has no edges; name another file.")
    rows = int(max(sources.max(), targets.max())) + 1
    _refuse_gaps(file, rows, sources, targets, first=0)
    reading.require_memory(_needed_bytes(rows, sources.size), str(file), "graph")
    graph = replace(from_pairs(name, rows, sources, targets), weighted=weighted)
    return graph, None if weights is None else _in_order_of_edges(weights, sources, targets)


def _refuse_gaps(
    file: Path, rows: int, sources: NDArray[np.int64], targets: NDArray[np.int64], first: int
) -> None:
    """Refuse vertex numbers with large gaps, because nearly all vertices would have no edge."""
    if rows <= _SPARSE_VERTICES or 2 * sources.size * _SPARSE_FACTOR > rows:
        return
    used = np.unique(np.concatenate([sources, targets])).size
    raise UserError(
        f"{file}: vertices are numbered up to {rows - 1 + first:,}, but only {used:,} of them have "
        f"an edge; number the vertices that have edges from {first} to {used - 1 + first:,}, "
        "without gaps."
    )


def _fast_edge_list(data: bytes, columns: int | None) -> _EdgeList | None:
    """Return the edges, read by numpy, or None if numpy found an error.

    `columns` is the number of columns that each line must have: 3 with weights, 2 without weights.
    If `columns` is None, the third column is optional.
    """
    kinds: Any = [("source", np.int64), ("target", np.int64), ("weight", np.float64)]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            edges = np.loadtxt(
                io.BytesIO(data),
                dtype=np.dtype(kinds[: columns or 2]),
                usecols=None if columns == 2 else range(columns or 2),
                ndmin=1,
                encoding="latin-1",
            )
    except (ValueError, OverflowError, Warning):
        return None
    sources, targets = (np.ascontiguousarray(edges[name]) for name in ("source", "target"))
    if edges.size == 0 or min(sources.min(), targets.min()) < 0:
        return None
    if max(sources.max(), targets.max()) >= MAX_VERTICES:
        return None
    if columns != 3:
        return _EdgeList(sources, targets, None)
    weights = np.ascontiguousarray(edges["weight"])
    return _EdgeList(sources, targets, weights) if _sound(weights).all() else None


def _scan_edge_list(file: Path, data: bytes, columns: int | None, first: int) -> _EdgeList:
    """Return the edges, read line by line. This is slow, but an error names the line.

    `columns` has the same meaning as in `_fast_edge_list`. `first` is the number of the line that
    holds the first edge.
    """
    sources, targets, weights = array("q"), array("q"), array("d")
    for number, line in _content_lines(data):
        words = line.split()
        if len(words) < 2 or not (reading.is_integer(words[0]) and reading.is_integer(words[1])):
            raise UserError(
                f"{file}, line {number}: expected two integers, found {reading.shown(line)}; "
                "correct the line: an edge is `0 1`, and a line that is not an edge begins with #."
            )
        for word, ends in zip(words, (sources, targets), strict=False):
            vertex = int(word)
            if not 0 <= vertex < MAX_VERTICES:
                raise UserError(
                    f"{file}, line {number}: vertex {vertex} is outside 0 .. 2**32 - 1; "
                    "number the vertices from 0."
                )
            ends.append(vertex)
        if columns is not None and (columns == 3) != (len(words) > 2):
            has, others = ("a", "no") if columns == 2 else ("no", "a")
            raise UserError(
                f"{file}, line {number}: the edge has {has} weight, but the edge in line {first} "
                f"has {others} weight; give a weight to each edge, or to none."
            )
        if columns == 3:
            weights.append(_weight(file, number, words[2]))
    return _EdgeList(
        np.array(sources, dtype=np.int64),
        np.array(targets, dtype=np.int64),
        np.array(weights, dtype=np.float64) if columns == 3 else None,
    )


def _weight(file: Path, number: int, word: bytes) -> float:
    try:
        weight = float(word)
    except ValueError:
        raise _unsound(file, number, reading.shown(word)) from None
    if not _sound(weight).all():
        raise _unsound(file, number, f"{weight:g}")
    return weight


def _content_lines(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield each line without its comment, with its number from 1. Leave out blank lines."""
    for number, line in enumerate(io.BytesIO(data), start=1):
        content = line.split(b"#", 1)[0]
        if content.strip():
            yield number, content
