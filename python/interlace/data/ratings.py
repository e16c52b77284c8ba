"""Reads and generates ratings of items by users, and computes reference factors of the ratings.

A rating r(u, i) is approximated by the product of the factors of the user and of the item. A
factor has `rank` numbers. A user may rate an item more than once.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from interlace.base.errors import UserError
from interlace.data import reading
from interlace.data.graphs import Graph

# a limit on users and on items, because kernels index all factors with 32 bits
MOST_ROWS = 2**27 - 1
_SOLVED_AT_ONCE = 4096
_PREDICTED_AT_ONCE = 1 << 18

Floats = NDArray[np.floating]


@dataclass(frozen=True, eq=False)
class Side:
    """Ratings sorted by user or by item. Row r holds ratings offsets[r] .. offsets[r + 1] - 1."""

    offsets: NDArray[np.int64]
    # The item of each rating, or the user if the ratings are sorted by item. The numbers ascend
    # within a row.
    others: NDArray[np.uint32]
    values: NDArray[np.float32]

    @property
    def rows(self) -> int:
        """Return the number of users or of items."""
        return len(self.offsets) - 1

    @cached_property
    def row_of(self) -> NDArray[np.int64]:
        """Return, for each rating, the number of its row."""
        return np.repeat(np.arange(self.rows, dtype=np.int64), np.diff(self.offsets))


@dataclass(frozen=True, eq=False)
class Ratings:
    """The ratings of items by users, in two orders: sorted by user, and sorted by item."""

    name: str
    users: Side
    items: Side

    @property
    def count(self) -> int:
        """Return the number of ratings."""
        return int(self.users.values.size)


def load_ratings(path: str | os.PathLike[str]) -> Ratings:
    """Read ratings from a Matrix Market file (coordinate; real or integer).

    A row is a user, and a column is an item. Raises UserError if the file cannot be read or has an
    error (with the line's number), if it has no ratings, or if a rating is not a finite float32.
    """
    file = Path(path)
    stem = file.name.removesuffix(".gz")
    if file.is_dir():
        raise UserError(f"{file} is a directory; name a file of ratings in it.")
    if Path(stem).suffix.lower() != ".mtx":
        raise UserError(f"{file}: files of ratings end in .mtx or .mtx.gz; name such a file.")
    try:
        return _load(file, stem[: -len(".mtx")], reading.read(file))
    except MemoryError:
        raise UserError(f"{file} does not fit into memory; take fewer ratings.") from None


def generate(users: int, items: int, ratings: int, seed: int = 1) -> Ratings:
    """Generate random ratings from 1 to 5.

    A few users and items have many ratings. With n users, a rating belongs to user floor(n * u**3),
    where u is random. So the first eighth of the users has half of all ratings. Items are chosen in
    the same way. Each user and each item has a vector of two hidden numbers in -1 .. 1. The rating
    of an item with the vector q by a user with the vector p is 3 + p . q + noise in -0.5 .. 0.5.
    All random numbers are uniform and come from the upper 24 bits of PCG64's output for the seed.
    They are drawn in this order: u for the users of all ratings, u for the items of all ratings,
    the noise, the users' hidden numbers, the items' hidden numbers.
    """
    what = f"{ratings} ratings"
    reading.require_memory(
        _needed_bytes(users, items, ratings), what, "number of users, items or ratings"
    )
    try:
        random = np.random.PCG64(seed)
        skewed = [(_uniform(random, ratings) ** 3 * n).astype(np.int64) for n in (users, items)]
        disturbance = _uniform(random, ratings) - 0.5
        hidden = [2 * _uniform(random, 2 * n).reshape(n, 2) - 1 for n in (users, items)]
        of_user, of_item = hidden[0][skewed[0]], hidden[1][skewed[1]]
        values = 3 + (of_user * of_item).sum(axis=1) + disturbance
        name = f"ratings-{users}x{items}-{ratings}"
        name += f"-s{seed}" if seed != 1 else ""
        return from_entries(name, users, items, skewed[0], skewed[1], values.astype(np.float32))
    except MemoryError:
        raise UserError(
            f"{what} do not fit into memory; take fewer users, items or ratings."
        ) from None


def on_pattern(
    name: str, rows: int, of_user: NDArray[np.int64], of_item: NDArray[np.int64], seed: int
) -> Ratings:
    """Generate ratings at the entries of a square matrix. Rows are users, and columns are items.

    Each user and each item has a vector of two hidden numbers in -1 .. 1. The rating of an item
    with the vector q by a user with the vector p is 3 + p . q + noise in -0.5 .. 0.5. All random
    numbers are uniform and come from PCG64 with the seed.
    """
    random = np.random.Generator(np.random.PCG64(seed))
    users, items = (random.uniform(-1, 1, (rows, 2)) for _ in range(2))
    disturbance = random.uniform(-0.5, 0.5, of_user.size)
    values = 3 + np.einsum("ij,ij->i", users[of_user], items[of_item]) + disturbance
    return from_entries(name, rows, rows, of_user, of_item, values.astype(np.float32))


def on_graph(graph: Graph, name: str, seed: int) -> Ratings:
    """Generate ratings at the edges of a graph.

    An edge's source is the item, and its target is the user.
    """
    reading.require_memory(_needed_bytes(graph.rows, graph.rows, graph.edges), name, "graph")
    targets = np.repeat(np.arange(graph.rows, dtype=np.int64), np.diff(graph.offsets))
    return on_pattern(name, graph.rows, graph.columns.astype(np.int64), targets, seed)


def start_factors(
    ratings: Ratings, rank: int, seed: int = 1
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return positive initial factors, with a row for each user and for each item.

    On average, the product of a user's and an item's factors has the magnitude of the mean rating
    m. Factors are uniform from 0 to 2 * sqrt(m / rank), from the upper 24 bits of PCG64's output
    for the seed. The users' factors are drawn first.
    """
    mean = float(np.abs(ratings.users.values).mean(dtype=np.float64))
    scale = 2 * math.sqrt((mean or 1.0) / rank)
    random = np.random.PCG64(seed)
    users, items = (
        (scale * _uniform(random, side.rows * rank)).astype(np.float32).reshape(side.rows, rank)
        for side in (ratings.users, ratings.items)
    )
    return users, items


def factorise(
    ratings: Ratings,
    start: tuple[Floats, Floats],
    iterations: int,
    renew: Callable[[Side, Floats, Floats], Floats],
) -> tuple[Floats, Floats]:
    """Factorise the ratings in iterations.

    Each iteration first computes new factors of the users from the items' factors, and then new
    factors of the items from the users' factors. `renew(side, own, other)` returns the new factors
    of a side. The result has the data type of the initial factors.
    """
    users, items = start
    for _ in range(iterations):
        users = renew(ratings.users, users, items)
        items = renew(ratings.items, items, users)
    return users, items


def by_equations(damping: float) -> Callable[[Side, Floats, Floats], Floats]:
    """Factorise by alternating least squares.

    For each row of n ratings, solve (Y^T Y + damping n I) x = Y^T r.
    """

    def renew(side: Side, own: Floats, other: Floats) -> Floats:
        rank = own.shape[1]
        new = np.zeros_like(own)
        ridge = np.asarray(damping, dtype=own.dtype) * np.eye(rank, dtype=own.dtype)
        rated = np.flatnonzero(np.diff(side.offsets))
        for first in range(0, rated.size, _SOLVED_AT_ONCE):
            rows = rated[first : first + _SOLVED_AT_ONCE]
            matrices = np.empty((rows.size, rank, rank), dtype=own.dtype)
            right = np.empty((rows.size, rank, 1), dtype=own.dtype)
            for k, row in enumerate(rows):
                part = slice(side.offsets[row], side.offsets[row + 1])
                y = other[side.others[part]]
                matrices[k] = y.T @ y + (part.stop - part.start) * ridge
                right[k, :, 0] = y.T @ side.values[part].astype(own.dtype)
            new[rows] = np.linalg.solve(matrices, right)[:, :, 0]
        return new

    return renew


def by_gradient(
    damping: float, rate: float, steps: int
) -> Callable[[Side, Floats, Floats], Floats]:
    """Factorise by gradient steps.

    A step replaces the factors x of each row by x + rate * (mean of (r - x . y) y - damping * x).
    """

    def renew(side: Side, own: Floats, other: Floats) -> Floats:
        kind = own.dtype
        counts = np.diff(side.offsets)
        inverse = (1.0 / np.maximum(counts, 1)).astype(kind)[:, None]
        shape = (side.rows, len(other))
        x = own
        for _ in range(steps):
            errors = side.values.astype(kind) - predictions(side, x, other)
            sums = csr_array((errors, side.others.astype(np.int64), side.offsets), shape=shape)
            change = (sums @ other) * inverse - kind.type(damping) * x
            x = np.where(counts[:, None] > 0, x + kind.type(rate) * change, x).astype(kind)
        return x

    return renew


def predictions(side: Side, own: Floats, other: Floats) -> Floats:
    """Return the prediction for each rating: the product of the user's and the item's factors."""
    found = np.empty(side.values.size, dtype=own.dtype)
    for first in range(0, found.size, _PREDICTED_AT_ONCE):
        part = slice(first, first + _PREDICTED_AT_ONCE)
        found[part] = np.einsum("ij,ij->i", own[side.row_of[part]], other[side.others[part]])
    return found


def rmse(ratings: Ratings, users: Floats, items: Floats) -> float:
    """Return the root of the mean squared error of the predicted ratings."""
    wide = predictions(ratings.users, users.astype(np.float64), items.astype(np.float64))
    return float(np.sqrt(np.mean((ratings.users.values - wide) ** 2)))


def _uniform(random: np.random.PCG64, count: int) -> NDArray[np.float64]:
    drawn = random.random_raw(count) >> np.uint64(40)
    return drawn.astype(np.float64) * 2.0**-24


def _needed_bytes(users: int, items: int, ratings: int) -> int:
    """Return the bytes that a run needs.

    The bytes hold the ratings, the factors of 32 numbers of all users and items, and the reference
    values of these factors.
    """
    return 72 * ratings + 32 * 24 * (users + items)


def from_entries(
    name: str,
    users: int,
    items: int,
    of_user: NDArray[np.int64],
    of_item: NDArray[np.int64],
    values: NDArray[np.float32],
) -> Ratings:
    """Make ratings from arrays of users, items and values.

    The ratings of a user are sorted by item, and the ratings of an item by user.
    """

    def side(rows: int, row: NDArray[np.int64], other: NDArray[np.int64]) -> Side:
        order = np.lexsort((other, row))
        offsets = np.zeros(rows + 1, dtype=np.int64)
        np.cumsum(np.bincount(row, minlength=rows), out=offsets[1:])
        return Side(offsets, other[order].astype(np.uint32), values[order])

    return Ratings(name, side(users, of_user, of_item), side(items, of_item, of_user))


def _load(file: Path, name: str, data: bytes) -> Ratings:
    if not data:
        raise UserError(f"{file} is empty; name a file that holds ratings.")
    header = reading.matrix_market_header(file, data, "ratings", ("real", "integer"), square=False)
    if header.entries == 0 or header.rows == 0 or header.columns == 0:
        raise UserError(f"{file}, line {header.line}: there are no ratings; name another file.")
    if max(header.rows, header.columns) > MOST_ROWS:
        raise UserError(
            f"{file}, line {header.line}: {max(header.rows, header.columns)} users or items are "
            f"more than {MOST_ROWS}; take fewer."
        )
    needed = _needed_bytes(header.rows, header.columns, header.entries)
    entries = reading.matrix_market_entries(file, data, header, needed, "file")
    with np.errstate(over="ignore"):
        values = entries.values.astype(np.float32)
    finite = np.isfinite(values)
    if not finite.all():
        at = int(finite.argmin())
        raise UserError(
            f"{file}: the rating of item {entries.columns[at] + 1} by user {entries.rows[at] + 1} "
            f"is {entries.values[at]:g}, which is not a finite float32; correct it."
        )
    return from_entries(name, header.rows, header.columns, entries.rows, entries.columns, values)
