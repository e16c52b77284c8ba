#!/usr/bin/env python3
"""Make the system matrix of a parallel-beam tomograph by Siddon's method.

    python data/make_siddon_projector.py       # siddon-64.mtx.gz

The method is that of R. L. Siddon, "Fast calculation of the exact radiological path for a
three-dimensional CT array", Medical Physics 12 (1985) 252-255, in two dimensions. The lines of the
pixel grid cut a ray into pieces. The middle of a piece shows in which pixel the piece lies.

The image has size x size pixels of side 1. Its centre is the origin, and y points upwards. Pixel
(r, c) is in row r from the top and column c from the left, both counted from 0. Column r * size + c
of the matrix belongs to this pixel. If the phantom of make_shepp_logan.py is written as a vector,
row after row, the product of the matrix and this vector is therefore a sinogram. Row a * bins + b
of the matrix is the ray x cos(t) + y sin(t) = b - (bins - 1) / 2 with t = a * 180 / angles degrees.
The bins are 1 apart. The default number of bins is the smallest even number that sees the whole
image. With an even number, no ray lies on a grid line. With an odd number, some rays lie on grid
lines. These rays belong to the pixels above or to the right.

An entry is the length of the ray in the pixel, rounded to 7 decimals. The rounding error is below
half of float32's spacing at 1. Entries that round to 0 are left out.

The output is Matrix Market, coordinate real general, entries sorted by row and column. The same
options give the same bytes.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from _output import Parser, run, write_text

LARGEST = 1024
DECIMALS = 7


def default_bins(size: int) -> int:
    """Return the smallest even number of bins that covers the image's diagonal."""
    return 2 * math.ceil(size * math.sqrt(2) / 2)


def direction(angle: int, angles: int) -> tuple[float, float]:
    """Return the cosine and the sine of angle number `angle` out of `angles` in half a turn. They
    are exact at 0 and 90 degrees.
    """
    if 2 * angle == angles:
        return 0.0, 1.0
    turn = math.pi * angle / angles
    return math.cos(turn), math.sin(turn)


def project(
    size: int, cosine: float, sine: float, bins: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Return the entries of one angle, unsorted: bin, column, and length in pixel sides."""
    half = size / 2
    distance = np.arange(bins) - (bins - 1) / 2  # distance of each ray from the origin
    lines = np.arange(size + 1) - half
    # The points of a ray are distance * (cosine, sine) + s * (-sine, cosine).
    crossings = []
    if sine != 0:
        crossings.append((distance[:, np.newaxis] * cosine - lines) / sine)
    if cosine != 0:
        crossings.append((lines - distance[:, np.newaxis] * sine) / cosine)
    s = np.sort(np.concatenate(crossings, axis=1), axis=1)
    lengths = np.diff(s, axis=1)
    middle = (s[:, 1:] + s[:, :-1]) / 2
    x = distance[:, np.newaxis] * cosine - middle * sine
    y = distance[:, np.newaxis] * sine + middle * cosine
    column = np.floor(x + half).astype(np.int64)
    row = size - 1 - np.floor(y + half).astype(np.int64)
    inside = (column >= 0) & (column < size) & (row >= 0) & (row < size)
    rays = np.nonzero(inside)[0]
    return rays, (row * size + column)[inside], lengths[inside]


def matrix_market(size: int, angles: int, bins: int) -> tuple[str, int]:
    """Return the matrix as Matrix Market text, and its number of entries."""
    entries: list[str] = []
    for angle in range(angles):
        rays, columns, lengths = project(size, *direction(angle, angles), bins)
        scaled = np.rint(lengths * 10**DECIMALS)
        order = np.lexsort((columns, rays))
        order = order[scaled[order] > 0]
        rows = (angle * bins + rays + 1)[order].tolist()
        entries += (
            f"{row} {column} {_decimal(value)}\n"
            for row, column, value in zip(
                rows,
                (columns + 1)[order].tolist(),
                scaled.astype(np.int64)[order].tolist(),
                strict=True,
            )
        )
    head = (
        "%%MatrixMarket matrix coordinate real general\n"
        f"% parallel-beam projector (Siddon 1985): {size} x {size} pixels, {angles} angles, "
        f"{bins} bins\n"
        "% made by data/make_siddon_projector.py, which states the rules\n"
        f"{angles * bins} {size * size} {len(entries)}\n"
    )
    return head + "".join(entries), len(entries)


def _decimal(value: int) -> str:
    """Write value / 10**DECIMALS in as few characters as possible."""
    whole, rest = divmod(value, 10**DECIMALS)
    text = f"{rest:0{DECIMALS}d}".rstrip("0")
    return f"{whole}.{text}" if text else f"{whole}"


def main() -> None:
    """Run the command line."""
    parser = Parser(description="Make a parallel-beam projector by Siddon's method.")
    parser.add_argument("--size", type=int, default=64, help="pixels a side (64)")
    parser.add_argument("--angles", type=int, default=45, help="angles in half a turn (45)")
    parser.add_argument(
        "--bins", type=int, help="detector bins (default: enough for the whole image)"
    )
    parser.add_argument("--output", type=Path, help="file, gzip-packed if it ends in .gz")
    options = parser.parse_args()
    bins = default_bins(options.size) if options.bins is None else options.bins
    for key, value in (("size", options.size), ("angles", options.angles), ("bins", bins)):
        limit = LARGEST if key == "size" else 4 * LARGEST
        if not 1 <= value <= limit:
            parser.error(f"argument --{key}: {value} is not in 1 .. {limit}")
    output = options.output or Path(__file__).parent / f"siddon-{options.size}.mtx.gz"
    text, entries = matrix_market(options.size, options.angles, bins)
    write_text(output, text)
    print(f"{output}: {options.angles * bins} x {options.size**2}, {entries} nnz", file=sys.stderr)


if __name__ == "__main__":
    run(main)
