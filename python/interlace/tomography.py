"""Tomography of a slice: the phantom, its projections, and the reference of the reconstruction.

An image has size x size pixels of side 1, row 0 at the top, its centre at the origin and y upwards.
The rays of an angle t, a * 180 / angles degrees, are x cos(t) + y sin(t) = b - (detectors - 1) / 2
for b = 0 .. detectors - 1. Scans are arrays of angles by detectors.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from interlace import reading
from interlace.errors import UserError

MOST_SIZE = 8192  # pixels a side
MOST_DETECTORS = 4 * MOST_SIZE
MOST_RAYS = 2**31 - 1

# An image stands for 24 cm, and level 1 attenuates by 1 a cm: brain, level 0.2, as water does.
SIDE_CM = 24.0

# Bytes that are kept of the system's matrix; what is more is made anew when it is needed.
_KEPT_BYTES = 4_000_000_000
_ENTRY_BYTES = 12


class Ellipse(NamedTuple):
    """Lengths in half sides of the image, turned counter-clockwise."""

    x: float
    y: float
    half_width: float
    half_height: float
    degrees: float
    level: float


# L. A. Shepp and B. F. Logan, "The Fourier reconstruction of a head section", IEEE Transactions on
# Nuclear Science 21 (1974) 21-43, Table 1, with the levels of P. A. Toft, "The Radon transform", PhD
# thesis, Technical University of Denmark, 1996, Table B.3.
SHEPP_LOGAN = (
    Ellipse(0.00, 0.0000, 0.6900, 0.920, 0.0, 1.0),
    Ellipse(0.00, -0.0184, 0.6624, 0.874, 0.0, -0.8),
    Ellipse(0.22, 0.0000, 0.1100, 0.310, -18.0, -0.2),
    Ellipse(-0.22, 0.0000, 0.1600, 0.410, 18.0, -0.2),
    Ellipse(0.00, 0.3500, 0.2100, 0.250, 0.0, 0.1),
    Ellipse(0.00, 0.1000, 0.0460, 0.046, 0.0, 0.1),
    Ellipse(0.00, -0.1000, 0.0460, 0.046, 0.0, 0.1),
    Ellipse(-0.08, -0.6050, 0.0460, 0.023, 0.0, 0.1),
    Ellipse(0.00, -0.6050, 0.0230, 0.023, 0.0, 0.1),
    Ellipse(0.06, -0.6050, 0.0230, 0.046, 0.0, 0.1),
)


@dataclass(frozen=True, eq=False)
class Scan:
    """What a tomograph measured, and how it is reconstructed."""

    size: int
    angles: int
    detectors: int
    subsets: int  # divides `angles`; subset s has the angles s, s + subsets, ...
    beta: float  # strength of the prior
    measured: NDArray[np.float32]  # y
    weights: NDArray[np.float32]  # w
    curvature: NDArray[np.float32]  # d, size by size

    @cached_property
    def system(self) -> System:
        """Its projector."""
        return System(self.size, self.angles, self.detectors)


class Reconstruction(NamedTuple):
    """What `reconstruct` returns."""

    image: NDArray[np.float64]  # size by size
    costs: list[float]  # sum of w (y - a . x)^2 over all rays at the end of each iteration


def least_detectors(size: int) -> int:
    """The fewest detectors that see all of the image, as even or odd as its size.

    Then no ray lies on an edge between pixels, where its lengths would be ambiguous.
    """
    diagonal = math.ceil(size * math.sqrt(2))
    return diagonal + (diagonal + size) % 2


def generate(
    size: int, angles: int, detectors: int, subsets: int, smoothing: float
) -> Scan:
    """A scan of the Shepp-Logan phantom: exact line integrals of its ellipses, without noise.

    A ray's weight is the share of photons that pass. The prior's strength beta is `smoothing` times
    the mean curvature of what is measured. Raises UserError if memory does not suffice.
    """
    needed = 40 * size * size + 40 * angles * detectors
    what = f"an image of {size} x {size} with {angles} angles"
    reading.require_memory(needed, what, "size")
    try:
        exact = phantom_scan(size, angles, detectors)
        weights = np.exp(-exact * (SIDE_CM / size)).astype(np.float32)
        data = data_curvature(size, weights)
        beta = float(np.float32(smoothing * data.mean()))
        curvature = (data + 2 * beta * neighbours(size)).astype(np.float32)
        measured = exact.astype(np.float32)
        return Scan(size, angles, detectors, subsets, beta, measured, weights, curvature)
    except MemoryError:
        raise UserError(f"{what} does not fit into memory; take a smaller --size.") from None


def direction(angle: int, angles: int) -> tuple[float, float]:
    """Cosine and sine of an angle; exact at 0 and 90 degrees."""
    if 2 * angle == angles:
        return 0.0, 1.0
    turn = math.pi * angle / angles
    return math.cos(turn), math.sin(turn)


def phantom(size: int) -> NDArray[np.float64]:
    """The Shepp-Logan phantom: a pixel is the sum of the levels of the ellipses it lies in."""
    centres = (2 * np.arange(size) + 1) / size - 1
    x, y = centres[np.newaxis, :], -centres[:, np.newaxis]
    image = np.zeros((size, size))
    for e in SHEPP_LOGAN:
        c, s = math.cos(math.radians(e.degrees)), math.sin(math.radians(e.degrees))
        along = ((x - e.x) * c + (y - e.y) * s) / e.half_width
        across = ((y - e.y) * c - (x - e.x) * s) / e.half_height
        image[along * along + across * across <= 1] += e.level
    return image


def phantom_scan(size: int, angles: int, detectors: int) -> NDArray[np.float64]:
    """Line integrals of the phantom's ellipses, which have a closed form, in levels by pixels."""
    half = size / 2
    distance = (np.arange(detectors) - (detectors - 1) / 2) / half
    scan = np.zeros((angles, detectors))
    for angle in range(angles):
        c, s = direction(angle, angles)
        for e in SHEPP_LOGAN:
            turn = math.radians(e.degrees)
            across, along = c * math.cos(turn) + s * math.sin(turn), 0.0
            along = s * math.cos(turn) - c * math.sin(turn)
            reach = (e.half_width * across) ** 2 + (e.half_height * along) ** 2
            inside = np.maximum(reach - (distance - (e.x * c + e.y * s)) ** 2, 0)
            chord = 2 * e.half_width * e.half_height * np.sqrt(inside) / reach
            scan[angle] += e.level * half * chord
    return np.maximum(scan, 0)


def neighbours(size: int) -> NDArray[np.int64]:
    """How many of the four neighbours of each pixel there are."""
    inner = 2 - (np.arange(size) == 0) - (np.arange(size) == size - 1)
    return inner[:, np.newaxis] + inner[np.newaxis, :]


def data_curvature(size: int, weights: NDArray[np.float32]) -> NDArray[np.float64]:
    """Sums over all rays of a(j) w |a|, where |a| is a ray's length in the image.

    The ray's length in a pixel is taken from its distance to the centre: a trapezoid.
    """
    angles, detectors = weights.shape
    half = size / 2
    distance = np.arange(detectors) - (detectors - 1) / 2
    centres = np.arange(size) + 0.5 - half
    total = np.zeros((size, size))
    for angle in range(angles):
        c, s = direction(angle, angles)
        longest, flat = 1 / max(abs(c), abs(s)), max(min(abs(c), abs(s)), 1e-9)
        edge = (abs(c) + abs(s)) / 2
        # Where a ray enters and leaves, along it.
        enters, leaves = np.full(detectors, -np.inf), np.full(detectors, np.inf)
        for across, along in ((c, -s), (s, c)):
            if along == 0:
                leaves = np.where(np.abs(distance * across) < half, leaves, -np.inf)
                continue
            ends = (np.array([[-half], [half]]) - distance * across) / along
            enters = np.maximum(enters, ends.min(axis=0))
            leaves = np.minimum(leaves, ends.max(axis=0))
        weighted = weights[angle] * np.maximum(leaves - enters, 0)
        at = centres[np.newaxis, :] * c - centres[:, np.newaxis] * s + (detectors - 1) / 2
        lower = np.floor(at).astype(np.int64)
        at -= lower
        for beside in (0, 1):
            share = np.clip((edge - np.abs(at - beside)) / flat, 0, 1)
            total += longest * share * weighted[lower + beside]
    return total


class System:
    """The matrix of a tomograph, made by Siddon's method an angle at a time.

    R. L. Siddon, "Fast calculation of the exact radiological path for a three-dimensional CT
    array", Medical Physics 12 (1985) 252-255, in two dimensions: a ray's crossings with the lines
    of the grid, sorted, cut it into pieces, and the middle of a piece says which pixel it lies in.
    """

    def __init__(self, size: int, angles: int, detectors: int) -> None:
        self.size, self.angles, self.detectors = size, angles, detectors
        self._kept: dict[int, csr_array] = {}
        self._kept_bytes = 0

    def matrices(self, chosen: range) -> Iterator[csr_array]:
        """The rows of these angles, detectors by pixels each; several are made at a time."""
        missing = [angle for angle in chosen if angle not in self._kept]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            made = pool.map(self._make, missing)
            for angle in chosen:
                if angle in self._kept:
                    yield self._kept[angle]
                    continue
                matrix = next(made)
                bytes_of = _ENTRY_BYTES * matrix.nnz
                if self._kept_bytes + bytes_of <= _KEPT_BYTES:
                    self._kept[angle] = matrix
                    self._kept_bytes += bytes_of
                yield matrix

    def _make(self, angle: int) -> csr_array:
        size, half = self.size, self.size / 2
        cosine, sine = direction(angle, self.angles)
        distance = np.arange(self.detectors) - (self.detectors - 1) / 2
        lines = np.arange(size + 1) - half
        # A ray is the points distance * (cosine, sine) + along * (-sine, cosine).
        crossings = []
        if sine != 0:
            crossings.append((distance[:, np.newaxis] * cosine - lines) / sine)
        if cosine != 0:
            crossings.append((lines - distance[:, np.newaxis] * sine) / cosine)
        along = np.concatenate(crossings, axis=1)
        along.sort(axis=1)
        lengths = np.diff(along, axis=1)
        middle = along[:, 1:]
        middle += along[:, :-1]
        middle /= 2
        column = np.floor(distance[:, np.newaxis] * cosine - middle * sine + half).astype(np.int32)
        row = np.floor(half - distance[:, np.newaxis] * sine - middle * cosine).astype(np.int32)
        inside = (column >= 0) & (column < size) & (row >= 0) & (row < size)
        starts = np.zeros(self.detectors + 1, dtype=np.int32)
        np.cumsum(inside.sum(axis=1), out=starts[1:])
        pixels = row[inside] * np.int32(size) + column[inside]
        return csr_array((lengths[inside], pixels, starts), shape=(self.detectors, size * size))


def reconstruct(scan: Scan, iterations: int) -> Reconstruction:
    """So many iterations from 0, in float64; see src/workload/ct.hpp for the method."""
    size = scan.size
    image = np.zeros(size * size)
    measured, weights = scan.measured.astype(np.float64), scan.weights.astype(np.float64)
    curvature = scan.curvature.astype(np.float64).ravel()
    costs = []
    for _ in range(iterations):
        cost = 0.0
        for subset in range(scan.subsets):
            down = np.zeros(size * size)
            chosen = range(subset, scan.angles, scan.subsets)
            for angle, matrix in zip(chosen, scan.system.matrices(chosen), strict=True):
                error = measured[angle] - matrix @ image
                weighted = weights[angle] * error
                cost += float(weighted @ error)
                down += scan.subsets * (matrix.T @ weighted)
            down -= scan.beta * _differences(image.reshape(size, size)).ravel()
            image = np.maximum(image + down / curvature, 0)
        costs.append(cost)
    return Reconstruction(image.reshape(size, size), costs)


def _differences(image: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of each pixel, the sum of its differences to its neighbours."""
    total = np.zeros_like(image)
    for axis in (0, 1):
        step = np.diff(image, axis=axis)
        before = [slice(None)] * 2
        after = [slice(None)] * 2
        before[axis], after[axis] = slice(None, -1), slice(1, None)
        total[tuple(before)] -= step
        total[tuple(after)] += step
    return total
