#!/usr/bin/env python3
"""Make the Shepp-Logan head phantom, the usual test image of tomography.

    python data/make_shepp_logan.py            # shepp-logan-256.mtx.gz
    python data/make_shepp_logan.py --size 64  # shepp-logan-64.mtx.gz

The phantom consists of ten ellipses on the square -1 <= x, y <= 1 (L. A. Shepp and B. F. Logan,
"The Fourier reconstruction of a head section", IEEE Transactions on Nuclear Science 21 (1974)
21-43, Table 1). By default the grey levels have a contrast that the eye can see, as in most
programs (P. A. Toft, "The Radon transform", PhD thesis, Technical University of Denmark, 1996,
Table B.3). `--contrast original` selects the levels of Shepp and Logan. A pixel is the sum of the
levels of all ellipses that contain its centre.

The output is a Matrix Market array (dense, real, general, column after column). The pixel in row r
and column c of the image is at x = (2 c + 1) / size - 1, y = 1 - (2 r + 1) / size, so row 0 is the
top of the head. The sums are integers, in hundredths. The same options give the same bytes.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from _output import Parser, run, write_text

LARGEST = 4096


@dataclass(frozen=True)
class Ellipse:
    """An ellipse. Lengths are in units of half a side of the square, and levels are in
    hundredths.
    """

    x: float
    y: float
    half_width: float  # the half axis that lies along x before the turn
    half_height: float
    degrees: float  # the angle of the turn, counter-clockwise
    modified: int  # Toft's level
    original: int  # the level in the paper of Shepp and Logan


ELLIPSES = (
    Ellipse(0.00, 0.0000, 0.6900, 0.920, 0.0, 100, 200),
    Ellipse(0.00, -0.0184, 0.6624, 0.874, 0.0, -80, -98),
    Ellipse(0.22, 0.0000, 0.1100, 0.310, -18.0, -20, -2),
    Ellipse(-0.22, 0.0000, 0.1600, 0.410, 18.0, -20, -2),
    Ellipse(0.00, 0.3500, 0.2100, 0.250, 0.0, 10, 1),
    Ellipse(0.00, 0.1000, 0.0460, 0.046, 0.0, 10, 1),
    Ellipse(0.00, -0.1000, 0.0460, 0.046, 0.0, 10, 1),
    Ellipse(-0.08, -0.6050, 0.0460, 0.023, 0.0, 10, 1),
    Ellipse(0.00, -0.6050, 0.0230, 0.023, 0.0, 10, 1),
    Ellipse(0.06, -0.6050, 0.0230, 0.046, 0.0, 10, 1),
)


def phantom(size: int, contrast: str = "modified") -> NDArray[np.int64]:
    """Return the image in hundredths, as an array of size x size. Its indices are the row from the
    top and the column from the left.
    """
    centres = (2 * np.arange(size) + 1) / size - 1
    x, y = centres[np.newaxis, :], -centres[:, np.newaxis]
    image = np.zeros((size, size), dtype=np.int64)
    for ellipse in ELLIPSES:
        turn = math.radians(ellipse.degrees)
        cosine, sine = math.cos(turn), math.sin(turn)
        along = ((x - ellipse.x) * cosine + (y - ellipse.y) * sine) / ellipse.half_width
        across = ((y - ellipse.y) * cosine - (x - ellipse.x) * sine) / ellipse.half_height
        level = ellipse.modified if contrast == "modified" else ellipse.original
        image[along * along + across * across <= 1] += level
    return image


def matrix_market(image: NDArray[np.int64], contrast: str) -> str:
    """Return the image as Matrix Market text."""
    rows, columns = image.shape
    head = (
        "%%MatrixMarket matrix array real general\n"
        f"% Shepp-Logan phantom, {contrast} contrast, row 1 is the top\n"
        "% made by data/make_shepp_logan.py, which states the rules\n"
        f"{rows} {columns}\n"
    )
    return head + "".join(f"{value / 100:g}\n" for value in image.T.ravel().tolist())


def main() -> None:
    """Run the command line."""
    parser = Parser(description="Make the Shepp-Logan phantom.")
    parser.add_argument("--size", type=int, default=256, help="pixels a side (256)")
    parser.add_argument("--contrast", choices=("modified", "original"), default="modified")
    parser.add_argument("--output", type=Path, help="file, gzip-packed if it ends in .gz")
    options = parser.parse_args()
    if not 1 <= options.size <= LARGEST:
        parser.error(f"argument --size: {options.size} is not in 1 .. {LARGEST}")
    name = f"shepp-logan-{options.size}.mtx.gz"
    output = options.output or Path(__file__).parent / name
    image = phantom(options.size, options.contrast)
    write_text(output, matrix_market(image, options.contrast))
    print(f"{output}: {options.size} x {options.size}", file=sys.stderr)


if __name__ == "__main__":
    run(main)
