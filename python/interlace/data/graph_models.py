"""Generates graphs that resemble published graphs.

The published graphs come from DNA electrophoresis, from a web crawl and from random points. All
random numbers are the upper bits of PCG64's output for the seed. A graph is therefore the same on
every computer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from interlace.base.errors import UserError
from interlace.data import reading
from interlace.data.graphs import Graph, from_pairs

LEAST_ROWS = 8
MOST_ROWS = 2**31

_SYMBOLS = 3  # the number of symbols in the alphabet of strings
_PARETO = 1.1  # the exponent of the power law of host sizes
_LEAST_HOST = 16  # a host has at least this many pages
_STRIPS = 2  # the square is divided into this many strips

Pairs = tuple[NDArray[np.int64], NDArray[np.int64]]


def cage(rows: int) -> Graph:
    """Return a graph like the cage graphs of DNA electrophoresis.

    Van Heukelum, Barkema and Bisseling described the cage model in 2002. In this model, a chain of
    links moves: kinks hop along the chain, and the end of the chain changes. The matrix of the
    moves between the chain's states is structurally symmetric and has a diagonal. The rows of the
    matrix have nearly equal lengths, which grow with the logarithm of the number of rows: 13
    entries per row with 11,397 rows (cage10), 16 entries per row with 130,228 rows (cage12), and 18
    entries per row with 1,505,785 rows (cage14). In this function, a state is a string over an
    alphabet of three symbols, and row i stands for the i-th string. A move changes the last symbol,
    or exchanges two unequal symbols that are adjacent or have one symbol between them. The edges
    therefore form bands at distances of powers of three.

    Raises UserError for fewer than 8 rows, or for more rows than fit in memory.
    """
    _check("--cage", rows)
    length = 1
    while _SYMBOLS**length < rows:
        length += 1
    _require_memory(rows, 2 * length + 1, f"--cage {rows}")
    state = np.arange(rows, dtype=np.int64)
    sources = [state]
    targets = [state]

    def add(moved: NDArray[np.int64], real: NDArray[np.bool_]) -> None:
        real &= moved < rows
        sources.append(state[real])
        targets.append(moved[real])

    def symbol(place: int) -> NDArray[np.int64]:
        found: NDArray[np.int64] = state // _SYMBOLS**place % _SYMBOLS
        return found

    for apart in (1, 2):
        for place in range(length - apart):
            low, high = symbol(place), symbol(place + apart)
            by = (high - low) * (_SYMBOLS**place - _SYMBOLS ** (place + apart))
            add(state + by, low != high)
    last = symbol(0)
    for turn in range(1, _SYMBOLS):
        add(state - last + (last + turn) % _SYMBOLS, np.ones(rows, dtype=np.bool_))
    return from_pairs(f"cage-{rows}", rows, np.concatenate(sources), np.concatenate(targets))


def crawl(pages: int, seed: int = 1) -> Graph:
    """Return a graph like a web crawl whose pages are sorted by address.

    The pages of a host are consecutive, and the sizes of hosts follow a power law. A quarter of the
    pages have no links. For each of the remaining pages, the number of links is log-normal, 30 on
    average. If two links of a page have the same target, only one is kept. The targets of links
    are:

    - one link in five: a nearby page. The logarithm of the distance is uniform, so distances of 2
      to 4 pages are as frequent as distances of 20 to 40 pages.
    - three links in four: one of the first pages of a folder that contains the page. Folders are
      aligned blocks of 64 pages, 128 pages, and so on up to the host, so the first pages of large
      folders are popular.
    - one link in twenty: a popular page of any host.

    Raises UserError for fewer than 8 pages, a negative seed, or more pages than fit in memory.
    """
    _check("--crawl", pages, seed)
    _require_memory(pages, 30, f"--crawl {pages}")
    draw = _uniforms(seed)
    # Draw sizes of hosts until all pages belong to a host.
    drawn = (1 - draw(pages // _LEAST_HOST + 1)) ** (-1 / _PARETO) * _LEAST_HOST
    drawn = np.minimum(drawn, pages / 16 + _LEAST_HOST)
    starts = np.concatenate([[0], np.cumsum(drawn.astype(np.int64))])
    starts = starts[: int(np.searchsorted(starts, pages))]
    sizes = np.diff(np.append(starts, pages))
    host = np.repeat(np.arange(starts.size), sizes)

    # The Box-Muller transform.
    normal = np.sqrt(-2 * np.log(1 - draw(pages))) * np.cos(2 * np.pi * draw(pages))
    links = np.minimum(np.exp(2.65 + 1.2 * normal), pages / 8).astype(np.int64)
    links[draw(pages) < 0.24] = 0
    source = np.repeat(np.arange(pages), links)
    first, size = starts[host[source]], sizes[host[source]]
    kind, scale, place = (draw(source.size) for _ in range(3))

    # The distance is from 1 to the host's size, in either direction. Its logarithm is uniform.
    away = (size**scale).astype(np.int64) * np.where(place < 0.5, -1, 1)
    near = first + (source - first + away) % size
    least = np.minimum(6, np.log2(size))
    folder = np.exp2(np.floor(least + scale * (np.log2(2 * size) - least))).astype(np.int64)
    begin = (source - first) // folder * folder
    offset = np.minimum((-2 * np.log(1 - place)).astype(np.int64), size - begin - 1)
    other = (scale**3 * starts.size).astype(np.int64)
    abroad = starts[other] + (sizes[other] * place**12).astype(np.int64)
    popular = np.where(kind < 0.95, first + begin + offset, abroad)
    keys = source * pages + np.where(kind < 0.2, near, popular)
    keys.sort()
    keys = keys[np.append(True, keys[1:] != keys[:-1])]
    name = f"crawl-{pages}" + (f"-s{seed}" if seed != 1 else "")
    return from_pairs(name, pages, keys // pages, keys % pages)


def rgg(vertices: int, seed: int = 1) -> Graph:
    """Return a random geometric graph like rgg_n_2_* of the tenth DIMACS challenge.

    Vertices are random points of a square. Two points have edges in both directions if their
    distance is less than 0.55 sqrt(ln n / n). A vertex has 0.95 ln n edges on average, which is
    just enough to connect the graph. Vertices are numbered strip by strip of the square, so nearly
    all edges are in a narrow band of the matrix.

    Raises UserError for fewer than 8 vertices, a negative seed, or more vertices than fit in
    memory.
    """
    _check("--rgg", vertices, seed)
    _require_memory(vertices, round(np.log(vertices)) + 4, f"--rgg {vertices}")
    points = _uniforms(seed)(2 * vertices).reshape(vertices, 2)
    strip = (points[:, 0] * _STRIPS).astype(np.int64)
    points = points[np.lexsort((points[:, 1], strip))]
    radius = 0.55 * np.sqrt(np.log(vertices) / vertices)
    pairs = cKDTree(points).query_pairs(radius, output_type="ndarray").astype(np.int64)
    name = f"rgg-{vertices}" + (f"-s{seed}" if seed != 1 else "")
    both = np.concatenate([pairs, pairs[:, ::-1]])
    return from_pairs(name, vertices, both[:, 0], both[:, 1])


class Model(NamedTuple):
    """A kind of graph, with the function that generates such graphs."""

    make: Callable[[int, int], Graph]  # the function that makes a graph from a size and a seed
    source: str  # a phrase that says which data the graph resembles
    seeded: bool


MODELS = {
    "cage": Model(lambda rows, _: cage(rows), "like matrices of DNA electrophoresis", seeded=False),
    "crawl": Model(crawl, "like a web crawl", seeded=True),
    "rgg": Model(rgg, "random geometric", seeded=True),
}


def _check(option: str, rows: int, seed: int = 1) -> None:
    if not LEAST_ROWS <= rows <= MOST_ROWS:
        raise UserError(f"{option} {rows}: give a number from {LEAST_ROWS} to {MOST_ROWS}.")
    if not 0 <= seed < 2**64:
        raise UserError(f"--seed {seed}: give a number from 0 to 2**64 - 1.")


def _require_memory(rows: int, edges_a_row: int, what: str) -> None:
    reading.require_memory(80 * rows * edges_a_row, what, "graph")


def _uniforms(seed: int) -> Callable[[int], NDArray[np.float64]]:
    """Return a function that draws a given number of random numbers from 0 to below 1."""
    random = np.random.PCG64(seed)

    def draw(count: int) -> NDArray[np.float64]:
        numbers: NDArray[np.float64] = (random.random_raw(count) >> np.uint64(11)).astype(
            np.float64
        )
        numbers *= 2.0**-53
        return numbers

    return draw
