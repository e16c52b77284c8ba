"""Programs that see several GPUs as one: their data, and references in float64 of their results.

Sizes of fir, mt, mm, atax and spmv are those that MGPUSim's runs were made with, or four times
those; the others' are our own. Data are seeded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from interlace.ciphers import encrypt
from interlace.errors import UserError

Floats = npt.NDArray[np.float32]
ROUNDING = 2.0**-24  # half a unit in the last place of float32
SCALES = (1, 4)
SEED = 1


class Problem(NamedTuple):
    """One program with its data: how a compiled module runs it, and what must come out."""

    name: str
    sizes: str  # for people
    function: str  # of the compiled module
    arrays: tuple[npt.NDArray[Any], ...]
    expected: npt.NDArray[np.float64]
    bound: npt.NDArray[np.float64]  # of the rounding errors, element by element

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
    samples, taps = 262144 * scale, 16
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
    width = 1024 * scale
    matrix = _random(generator, width, width)
    expected = _wide(matrix).T.reshape(-1)
    return Problem(
        "mt", f"{width} x {width}", "run_transpose", (matrix,), expected, np.zeros_like(expected)
    )


def mm(scale: int, generator: np.random.Generator) -> Problem:
    """The product of two square matrices."""
    width = 256 * scale
    one, other = _random(generator, width, width), _random(generator, width, width)
    expected = (_wide(one) @ _wide(other)).reshape(-1)
    size = (np.abs(_wide(one)) @ np.abs(_wide(other))).reshape(-1)
    sizes = f"{width} x {width} by {width} x {width}"
    return Problem("mm", sizes, "run_multiply", (one, other), expected, 2 * width * ROUNDING * size)


def atax(scale: int, generator: np.random.Generator) -> Problem:
    """A transposed times A times x."""
    width = 512 * scale
    matrix, vector = _random(generator, width, width), _random(generator, width)
    expected = _wide(matrix).T @ (_wide(matrix) @ _wide(vector))
    size = np.abs(_wide(matrix)).T @ (np.abs(_wide(matrix)) @ np.abs(_wide(vector)))
    return Problem(
        "atax", f"{width} x {width}", "run_atax", (matrix, vector), expected,
        4 * width * ROUNDING * size,
    )  # fmt: skip


def spmv(scale: int, generator: np.random.Generator) -> Problem:
    """A sparse matrix, of which one element in a hundred is not 0, times a vector."""
    rows = 4096 * scale
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
    width = 512 * scale
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
    count = 16384 * scale
    keys = generator.integers(0, 1 << 24, count).astype(np.uint32)
    expected = _wide(np.sort(keys))
    return Problem("bs", f"{count} keys", "run_sort", (keys,), expected, np.zeros(count))


def aes(scale: int, generator: np.random.Generator) -> Problem:
    """AES-256 of independent blocks."""
    count = 65536 * scale
    text = generator.integers(0, 256, count).astype(np.uint8)
    key = generator.integers(0, 256, 32).astype(np.uint8)
    expected = _wide(encrypt(text.reshape(-1, 16), key).reshape(-1))
    return Problem("aes", f"{count} bytes", "run_aes", (text, key), expected, np.zeros(count))


PROGRAMS: dict[str, Callable[[int, np.random.Generator], Problem]] = {
    "fir": fir,
    "mt": mt,
    "mm": mm,
    "atax": atax,
    "spmv": spmv,
    "bicg": bicg,
    "bs": bs,
    "aes": aes,
}


def problem(name: str, scale: int) -> Problem:
    """A program with its data; raises UserError for a size that there is not."""
    if scale not in SCALES:
        raise UserError(f"--times {scale}: there are 1 and 4")
    return PROGRAMS[name](scale, np.random.default_rng(SEED))
