"""Programs that see several GPUs as one: their data, and references of their results, in float64
or in whole numbers.

DualOpt (PACT 2022) gives no sizes. There are two sets, which were written down before any of the
paper's figures was compared, and stay: MGPUSim's parameters, and four times those. Sizes of fir,
mt, mm, atax and spmv are those of published runs of MGPUSim. Of the others it has defaults for a
quick look, of 16 nodes or 64 rows; what is no size is taken from there (edges of a vertex, density,
iterations, features, clusters, the mask), and sizes are our own: such that a program makes some
hundred thousand accesses, as those five do. Four times is each extent: rows and columns of a
matrix, of a grid and of an image, samples, keys, bytes, points, vertices. Data are seeded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from interlace.base.errors import UserError
from interlace.data.ciphers import encrypt
from interlace.model.run import RunFailure, core_errors

Floats = npt.NDArray[np.float32]
ROUNDING = 2.0**-24  # half a unit in the last place of float32
SCALES = (1, 4)
SEED = 1
# Of the smaller set: samples, keys, bytes, vertices, points; else rows, and as many columns.
SIZES = {
    "fir": 262144,
    "mt": 1024,
    "mm": 256,
    "atax": 512,
    "spmv": 4096,
    "bicg": 512,
    "bs": 16384,
    "aes": 65536,
    "bfs": 32768,
    "pr": 4096,
    "km": 8192,
    "st": 512,
    "sc": 512,  # with what the mask adds
}


class Problem(NamedTuple):
    """One program with its data: how a compiled module runs it, and what must come out."""

    name: str
    sizes: str  # for people
    function: str  # of the compiled module
    arguments: tuple[Any, ...]  # of it, behind those that all have
    expected: npt.NDArray[np.float64]
    bound: npt.NDArray[np.float64]  # of the rounding errors, element by element

    def error(self, values: Floats) -> float:
        """The largest difference from the reference, over its largest magnitude."""
        return float(np.max(np.abs(values - self.expected)) / np.max(np.abs(self.expected)))

    def wrong(self, values: Floats) -> int:
        """How many elements differ from the reference by more than rounding explains."""
        if values.shape != self.expected.shape:
            return max(values.size, self.expected.size)
        return int(np.count_nonzero(~(np.abs(values - self.expected) <= self.bound)))


def _random(generator: np.random.Generator, *shape: int) -> Floats:
    return generator.uniform(-1, 1, shape).astype(np.float32)


def _wide(array: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    return array.astype(np.float64)


def fir(scale: int, generator: np.random.Generator) -> Problem:
    """A filter of 16 taps: each sample with those before it."""
    samples, taps = SIZES["fir"] * scale, 16
    values, weights = _random(generator, samples), _random(generator, taps)
    history = _random(generator, taps)
    # Tap i of sample t is that of t - i; before the first sample the history is counted from its
    # end, one further back than the samples are.
    before = np.concatenate((history, values))
    expected = np.zeros(samples)
    size = np.zeros(samples)
    for tap in range(taps):
        shifted = _wide(before[taps - tap : taps - tap + samples])
        expected += float(weights[tap]) * shifted
        size += abs(float(weights[tap])) * np.abs(shifted)
    return Problem(
        "fir", f"{samples} samples, {taps} taps", "run_fir", (values, weights, history),
        expected, 2 * taps * ROUNDING * size,
    )  # fmt: skip


def mt(scale: int, generator: np.random.Generator) -> Problem:
    """The transpose of a square matrix."""
    width = SIZES["mt"] * scale
    matrix = _random(generator, width, width)
    expected = _wide(matrix).T.reshape(-1)
    return Problem(
        "mt", f"{width} x {width}", "run_transpose", (matrix,), expected, np.zeros_like(expected)
    )


def mm(scale: int, generator: np.random.Generator) -> Problem:
    """The product of two square matrices."""
    width = SIZES["mm"] * scale
    one, other = _random(generator, width, width), _random(generator, width, width)
    expected = (_wide(one) @ _wide(other)).reshape(-1)
    size = (np.abs(_wide(one)) @ np.abs(_wide(other))).reshape(-1)
    sizes = f"{width} x {width} by {width} x {width}"
    return Problem("mm", sizes, "run_multiply", (one, other), expected, 2 * width * ROUNDING * size)


def atax(scale: int, generator: np.random.Generator) -> Problem:
    """A transposed times A times x."""
    width = SIZES["atax"] * scale
    matrix, vector = _random(generator, width, width), _random(generator, width)
    expected = _wide(matrix).T @ (_wide(matrix) @ _wide(vector))
    size = np.abs(_wide(matrix)).T @ (np.abs(_wide(matrix)) @ np.abs(_wide(vector)))
    return Problem(
        "atax", f"{width} x {width}", "run_atax", (matrix, vector), expected,
        4 * width * ROUNDING * size,
    )  # fmt: skip


def spmv(scale: int, generator: np.random.Generator) -> Problem:
    """A sparse matrix, of which one element in a hundred is not 0, times a vector."""
    rows = SIZES["spmv"] * scale
    count = rows * rows // 100
    places = np.unique(generator.integers(0, rows * rows, count + count // 10))
    places = np.sort(generator.permutation(places)[:count])
    columns = (places % rows).astype(np.uint32)
    offsets = np.zeros(rows + 1, np.uint32)
    offsets[1:] = np.cumsum(np.bincount(places // rows, minlength=rows))
    values, vector = _random(generator, len(places)), _random(generator, rows)
    products = _wide(values) * _wide(vector)[columns]
    row_of = places // rows
    expected = _wide(np.bincount(row_of, products, rows))
    size = _wide(np.bincount(row_of, np.abs(products), rows))
    longest = int(np.max(np.diff(offsets)))
    return Problem(
        "spmv", f"{rows} x {rows}, {len(places)} elements", "run_sparse_product",
        (offsets, columns, values, vector), expected, 2 * longest * ROUNDING * size,
    )  # fmt: skip


def bicg(scale: int, generator: np.random.Generator) -> Problem:
    """A times p, and A transposed times r."""
    width = SIZES["bicg"] * scale
    matrix = _random(generator, width, width)
    right, left = _random(generator, width), _random(generator, width)
    wide = _wide(matrix)
    expected = np.concatenate((wide @ _wide(right), wide.T @ _wide(left)))
    size = np.concatenate(
        (np.abs(wide) @ np.abs(_wide(right)), np.abs(wide).T @ np.abs(_wide(left)))
    )
    return Problem(
        "bicg", f"{width} x {width}", "run_bicg", (matrix, right, left), expected,
        2 * width * ROUNDING * size,
    )  # fmt: skip


def bs(scale: int, generator: np.random.Generator) -> Problem:
    """Keys, sorted by a bitonic network."""
    count = SIZES["bs"] * scale
    keys = generator.integers(0, 1 << 24, count).astype(np.uint32)
    expected = _wide(np.sort(keys))
    return Problem("bs", f"{count} keys", "run_sort", (keys,), expected, np.zeros(count))


def aes(scale: int, generator: np.random.Generator) -> Problem:
    """AES-256 of independent blocks."""
    count = SIZES["aes"] * scale
    text = generator.integers(0, 256, count).astype(np.uint8)
    key = generator.integers(0, 256, 32).astype(np.uint8)
    expected = _wide(encrypt(text.reshape(-1, 16), key).reshape(-1))
    return Problem("aes", f"{count} bytes", "run_aes", (text, key), expected, np.zeros(count))


def bfs(scale: int, generator: np.random.Generator) -> Problem:
    """Levels of a random graph from the vertex of most edges; -1 where no path leads."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import dijkstra

    vertices, degree = SIZES["bfs"] * scale, 3
    ends = generator.integers(0, vertices, (2, degree * vertices))
    ends = ends[:, np.argsort(ends[0], kind="stable")]
    counts = np.bincount(ends[0], minlength=vertices)
    offsets = np.zeros(vertices + 1, np.uint32)
    offsets[1:] = np.cumsum(counts)
    source = int(np.argmax(counts))
    graph = csr_array((np.ones(ends.shape[1]), (ends[0], ends[1])), (vertices, vertices))
    expected = _wide(dijkstra(graph, indices=source, unweighted=True))
    expected[np.isinf(expected)] = -1
    return Problem(
        "bfs", f"{vertices} vertices, {ends.shape[1]} edges", "run_breadth_first",
        (offsets, ends[1].astype(np.uint32), source), expected, np.zeros(vertices),
    )  # fmt: skip


def pr(scale: int, generator: np.random.Generator) -> Problem:
    """Ranks of a random graph, of whose pairs one in a thousand is joined."""
    from scipy.sparse import csr_array

    rows, iterations = SIZES["pr"] * scale, 16
    count = rows * rows // 1000
    places = np.unique(generator.integers(0, rows * rows, count + count // 10))
    places = np.sort(generator.permutation(places)[:count])
    columns = (places % rows).astype(np.uint32)
    offsets = np.zeros(rows + 1, np.uint32)
    offsets[1:] = np.cumsum(np.bincount(places // rows, minlength=rows))
    values = (1 / np.bincount(columns, minlength=rows)[columns]).astype(np.float32)
    matrix = csr_array((_wide(values), columns, offsets), (rows, rows))
    expected = np.full(rows, 1 / rows)
    for _ in range(iterations):
        expected = matrix @ expected
    steps = int(np.max(np.diff(offsets))) + 8  # additions of a row, and in its block
    return Problem(
        "pr", f"{rows} vertices, {count} edges, {iterations} iterations", "run_rank_iteration",
        (offsets, columns, values, iterations), expected,
        2 * iterations * steps * ROUNDING * expected,
    )  # fmt: skip


def km(scale: int, generator: np.random.Generator) -> Problem:
    """Clusters of random points: the cluster of each, and the centres; in whole numbers."""
    points, features, clusters, iterations = SIZES["km"] * scale, 32, 5, 5
    values = generator.integers(0, 17, (points, features))  # of 1/16
    centres = 16 * values[:clusters]  # of 1/256
    members = np.full(points, clusters)
    for _ in range(iterations):
        distances = ((16 * values[:, None, :] - centres[None, :, :]) ** 2).sum(axis=2)
        before, members = members, np.argmin(distances, axis=1)
        counts = np.bincount(members, minlength=clusters)[:, None]
        sums = np.array([values[members == k].sum(axis=0) for k in range(clusters)])
        centres = np.where(counts == 0, 0, (32 * sums + counts) // np.maximum(2 * counts, 1))
        if np.array_equal(before, members):
            break
    expected = np.concatenate((_wide(members), _wide(centres).reshape(-1) / 256))
    return Problem(
        "km", f"{points} points, {features} features, {clusters} clusters", "run_kmeans",
        ((values / 16).astype(np.float32), clusters, iterations), expected,
        np.zeros_like(expected),
    )  # fmt: skip


def st(scale: int, generator: np.random.Generator) -> Problem:
    """A stencil of nine points."""
    width, iterations = SIZES["st"] * scale, 5
    weights = np.array([0.25, 0.15, 0.05], np.float32)
    grid = _random(generator, width + 2, width + 2)

    def step(old: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        new = old.copy()
        new[1:-1, 1:-1] = sum(
            float(weights[abs(down) + abs(right)])
            * old[1 + down : width + 1 + down, 1 + right : width + 1 + right]
            for down in (-1, 0, 1)
            for right in (-1, 0, 1)
        )
        return new

    expected, size = _wide(grid), np.abs(_wide(grid))
    for _ in range(iterations):
        expected, size = step(expected), step(size)
    return Problem(
        "st", f"{width} x {width}, {iterations} iterations", "run_stencil_2d",
        (grid, weights, iterations), expected.reshape(-1),
        2 * 9 * iterations * ROUNDING * size.reshape(-1),
    )  # fmt: skip


def sc(scale: int, generator: np.random.Generator) -> Problem:
    """A convolution of an image and a mask, whose products and sums are exact."""
    side = 3
    width = SIZES["sc"] * scale - side + 1
    image = generator.integers(0, 256, (width + side - 1, width + side - 1))
    mask = generator.integers(0, 16, (side, side))  # of 1/16
    sums = np.zeros((width, width), np.int64)
    for down in range(side):
        for right in range(side):
            sums += mask[down, right] * image[down : down + width, right : right + width]
    expected = _wide((sums + 8) // 16).reshape(-1)
    return Problem(
        "sc", f"{width} x {width}, mask {side} x {side}", "run_convolution",
        (image.astype(np.uint32), (mask / 16).astype(np.float32)), expected,
        np.zeros_like(expected),
    )  # fmt: skip


PROGRAMS: dict[str, Callable[[int, np.random.Generator], Problem]] = {
    "fir": fir,
    "mt": mt,
    "mm": mm,
    "atax": atax,
    "spmv": spmv,
    "bicg": bicg,
    "bs": bs,
    "aes": aes,
    "bfs": bfs,
    "pr": pr,
    "km": km,
    "st": st,
    "sc": sc,
}


def simulate(
    core: Any, machine: Any, it: Problem, gpus: int, mechanism: str, *, pages: str = "",
    blocks: str = "contiguous",
) -> dict[str, Any]:  # fmt: skip
    """One verified run: what the compiled module tells of it, with `max_error` for its values.

    Raises RunFailure where a value differs from the reference by more than rounding explains.
    """
    run = f"{it.name} on {gpus} GPUs"
    with core_errors(run):
        found: dict[str, Any] = getattr(core, it.function)(
            "sim", machine, gpus, pages, blocks, mechanism, *it.arguments
        )
    return _verified(found, it, run)


def measure(
    cuda: Any, it: Problem, gpus: int, *, pages: str = "", blocks: str = "contiguous",
    warmup: int, repeats: int,
) -> dict[str, Any]:  # fmt: skip
    """Runs on real GPUs, of which the last is verified: `time_s` of each, and `max_error`.

    Raises RunFailure as `simulate` does.
    """
    run = f"{it.name} on {gpus} GPUs"
    with core_errors(run):
        found: dict[str, Any] = getattr(cuda, it.function)(
            gpus, pages, blocks, warmup, repeats, *it.arguments
        )
    return _verified(found, it, run)


def _verified(found: dict[str, Any], it: Problem, run: str) -> dict[str, Any]:
    values = found.pop("values")
    wrong = it.wrong(values)
    if wrong:
        raise RunFailure(
            f"{run}: {wrong} of {it.expected.size} elements are not those of the reference"
        )
    found["max_error"] = it.error(values)
    return found


def problem(name: str, scale: int) -> Problem:
    """A program with its data; raises UserError for a size that there is not."""
    if scale not in SCALES:
        raise UserError(f"--times {scale}: there are 1 and 4")
    return PROGRAMS[name](scale, np.random.default_rng(SEED))
