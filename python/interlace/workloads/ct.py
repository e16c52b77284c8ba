"""Model-based iterative reconstruction of a slice from a tomograph's measurements, float32.

An image has size x size pixels with sides of length 1. Row 0 is at the top, the centre is the
origin, and y points upwards. The direction of angle a is t = a * 180 / angles degrees. Ray b of
this angle, with b from 0 to detectors - 1, is the line x cos(t) + y sin(t) = b - (detectors - 1) /
2. Scans are arrays of angles by detectors.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Self

from interlace.base.counts import counted
from interlace.base.errors import UserError
from interlace.model.mechanisms import ELEMENT_BYTES
from interlace.model.run import Outcome, RunFailure
from interlace.workloads.base import Reference, Workload
from interlace.workloads.options import Default, Inputs, Iterations, Option, Size, Subscribe

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from scipy.sparse import csr_array

DEFAULT_SIZE = 128
DEFAULT_ANGLES = 64
DEFAULT_SUBSETS = 4
DEFAULT_SMOOTHING = 0.01

RAYS_OF_A_BLOCK = 128  # a part of the rays consists of whole blocks of this many rays
FLOAT32_ROUNDING = 2.0**-24
STRIPS_AT_A_TIME = 16  # the strips along a ray are summed in groups of this many strips
# The largest rounding error of a position in a tile, in units of 2**-24. A position follows from
# two steps of up to 45 bins. Each step rounds by at most 2**-19.
POSITION_ROUNDINGS = 64


@dataclass(frozen=True, kw_only=True)
class CtInputs(Inputs):
    """The options of the scan and its reconstruction."""

    iterations: Annotated[Iterations, Default(3)] = None
    size: Annotated[Size, Default(DEFAULT_SIZE)] = None
    angles: Annotated[int | None, Option("N", "angles in half a turn", DEFAULT_ANGLES)] = None
    detectors: Annotated[
        int | None, Option("N", "rays per angle", "the smallest number that sees the whole image")
    ] = None
    subsets: Annotated[
        int | None,
        Option(
            "N",
            "subsets of the angles; an iteration makes a step with each subset",
            DEFAULT_SUBSETS,
        ),
    ] = None
    smoothing: Annotated[float | None, Option("B", "strength of the prior", DEFAULT_SMOOTHING)] = (
        None
    )
    subscribe: Subscribe = None


class Ct(Workload):
    """Model-based iterative reconstruction of a tomograph's slice, float32."""

    name = "ct"
    place = 5
    summary = "X-ray tomography, an image from its projections; --size N, --angles, --subsets"
    takes = CtInputs
    values_are = "images"
    element = "pixel"

    def __init__(self, scan: Scan, source: str, inputs: CtInputs) -> None:
        super().__init__(f"shepp-logan-{scan.size}", source, inputs)
        self.scan = scan
        self.smoothing = DEFAULT_SMOOTHING if inputs.smoothing is None else inputs.smoothing
        self.cost: float | None = None  # the cost of the reference, once it is computed

    @classmethod
    def check_data(cls, inputs: CtInputs) -> None:

        size, angles, detectors, subsets = cls._shape(inputs)
        if not 2 <= size <= MOST_SIZE:
            raise UserError(f"--size {size}: give a number from 2 to {MOST_SIZE}")
        least = least_detectors(size)
        most = MOST_DETECTORS
        if not least <= detectors <= most or (detectors - least) % 2 != 0:
            parity = "an even" if least % 2 == 0 else "an odd"
            raise UserError(
                f"--detectors {detectors}: with --size {size} give {parity} number from {least} "
                f"to {most}"
            )
        if not 1 <= angles <= MOST_RAYS // detectors:
            raise UserError(
                f"--angles {angles}: with {detectors} detectors give a number from 1 to "
                f"{MOST_RAYS // detectors}"
            )
        if not 1 <= subsets <= angles or angles % subsets != 0:
            raise UserError(f"--subsets {subsets}: give a number that divides the {angles} angles")
        if inputs.smoothing is not None and not 0 <= inputs.smoothing < math.inf:
            raise UserError(f"--smoothing {inputs.smoothing:g}: give a finite number of at least 0")
        reason = "is not for ct, which makes a fixed number of iterations; give --iterations"
        inputs.refuse(("tolerance",), reason)

    @staticmethod
    def _shape(inputs: CtInputs) -> tuple[int, int, int, int]:
        """Return the size, the angles, the detectors and the subsets."""

        size = DEFAULT_SIZE if inputs.size is None else inputs.size
        angles = DEFAULT_ANGLES if inputs.angles is None else inputs.angles
        detectors = least_detectors(max(size, 0)) if inputs.detectors is None else inputs.detectors
        subsets = inputs.subsets
        if subsets is None:
            subsets = math.gcd(DEFAULT_SUBSETS, angles)
        return size, angles, detectors, subsets

    @classmethod
    def load(cls, inputs: CtInputs, cuda: Any | None) -> Self:  # noqa: ARG003

        smoothing = DEFAULT_SMOOTHING if inputs.smoothing is None else inputs.smoothing
        scan = generate(*cls._shape(inputs), smoothing)
        source = (
            f"exact projections of the Shepp-Logan phantom, {scan.angles} angles, "
            f"{scan.detectors} detectors"
        )
        return cls(scan, source, inputs)

    @property
    def size(self) -> str:
        scan = self.scan
        return (
            f"{scan.size} x {scan.size} pixels, {counted(scan.angles, 'angle')}, "
            f"{counted(scan.detectors, 'detector')}, {counted(scan.subsets, 'subset')}"
        )

    def parameters(self) -> dict[str, Any]:
        return {
            "pixels_a_side": self.scan.size,
            "angles": self.scan.angles,
            "detectors": self.scan.detectors,
            "subsets": self.scan.subsets,
            "smoothing": self.smoothing,
            "start_cost": self._start_cost(),
            "cost": self.cost,
            "subscribers": self.subscribers,
        }

    def _start_cost(self) -> float:
        import numpy as np

        wide = self.scan.measured.astype(np.float64)
        return float((self.scan.weights * wide**2).sum())

    def boundaries(self, gpus: int) -> Sequence[int]:
        return [self.scan.size * gpu // gpus * self.scan.size for gpu in range(gpus + 1)]

    def largest_part(self, gpus: int) -> int:
        scan = self.scan
        rays = scan.angles // scan.subsets * scan.detectors // gpus + RAYS_OF_A_BLOCK
        return max(super().largest_part(gpus), ELEMENT_BYTES * rays)

    def arguments(self) -> tuple[Any, ...]:
        scan = self.scan
        return scan.measured, scan.weights, scan.curvature, scan.subsets, scan.beta, self.subscribe

    def reference(self, iterations: int) -> Reference:
        import numpy as np

        found = reconstruct(self.scan, iterations)
        self.cost = found.cost
        if not self.cost < self._start_cost():
            raise UserError(
                f"the weighted error does not fall in {iterations} iterations (from "
                f"{self._start_cost():.3g} to {self.cost:.3g}); give fewer --subsets"
            )
        image = found.image.ravel()
        return Reference(image, np.full(image.size, image.max()))

    def verify(self, outcome: Outcome) -> float:
        largest = super().verify(outcome)
        if outcome.values.min() < 0:
            raise RunFailure(f"verification failed: {outcome.case}: a pixel is below 0")
        return largest

    # Errors are relative to the largest pixel of the image. A step changes a pixel by the mean of
    # (y - a . x) / |a| over the rays that cross the pixel, and a . x / |a| is itself a mean of
    # pixels. A ray adds up two products for each strip, first within groups of 16 strips and then
    # over the groups. A pixel adds up two products for each angle of the subset. Independent
    # roundings partly cancel: the sum of n roundings is about as large as sqrt(n) roundings.
    #
    # Positions are also rounded. The length of a ray in a pixel depends on the ray's distance from
    # the centre of the pixel. Over all distances, the changes of this length sum to twice the
    # longest length. On average over the angles, the relative error of lengths is therefore the
    # relative error of positions.
    #
    # A step minimises a surrogate above the objective, so the step does not enlarge earlier errors.
    # It adds its own errors, which partly cancel over the steps as described above. Four times this
    # bound is above the largest error of very many pixels. A lost or late transfer causes a far
    # larger error: an old pixel is wrong by its change in the step, and a ray through this pixel is
    # wrong by this change times the length of the ray in the pixel.
    def allowed_error(self) -> float:
        scan = self.scan
        of_ray = 2 * STRIPS_AT_A_TIME + scan.size / STRIPS_AT_A_TIME
        of_pixel = 2 * scan.angles / scan.subsets
        a_step = math.sqrt(of_ray + of_pixel) + POSITION_ROUNDINGS
        return 4 * FLOAT32_ROUNDING * a_step * math.sqrt(self.iterations * scan.subsets)


# --- the data and the reference ------------------------------------------------------------------

MOST_SIZE = 8192  # the largest number of pixels on a side
MOST_DETECTORS = 4 * MOST_SIZE
MOST_RAYS = 2**31 - 1

# A side of an image stands for 24 cm. Level 1 attenuates by 1 per cm. Level 0.2 is brain tissue,
# which attenuates like water.
SIDE_CM = 24.0

# the number of rows of pixels, or of rays, to compute together; their data fit in a cache
_BAND = 64
_ENTRY_BYTES = 12  # the bytes of an entry of the system's matrix


class Ellipse(NamedTuple):
    """An ellipse that is turned counter-clockwise. Lengths are in halves of the image's side."""

    x: float
    y: float
    half_width: float
    half_height: float
    degrees: float
    level: float


# L. A. Shepp and B. F. Logan, "The Fourier reconstruction of a head section", IEEE Transactions on
# Nuclear Science 21 (1974) 21-43, Table 1, with the levels of P. A. Toft, "The Radon transform",
# PhD thesis, Technical University of Denmark, 1996, Table B.3.
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
    """The measurement of a tomograph, and the parameters of its reconstruction."""

    size: int
    angles: int
    detectors: int
    subsets: int  # a divisor of `angles`; subset s has the angles s, s + subsets and so on
    beta: float  # the strength of the prior
    measured: NDArray[np.float32]  # y
    weights: NDArray[np.float32]  # w
    curvature: NDArray[np.float32]  # the curvature d of each of the size by size pixels

    @cached_property
    def system(self) -> System:
        """Return the projector of this scan."""
        return System(self.size, self.angles, self.detectors)


class Reconstruction(NamedTuple):
    """The result of `reconstruct`."""

    image: NDArray[np.float64]  # size by size pixels
    # The sum of w (y - a . x)^2 over all rays. For each ray, x is the image just before the last
    # update by the ray's subset.
    cost: float


def least_detectors(size: int) -> int:
    """Return the smallest number of detectors that see the whole image.

    The number is even if the image's size is even, and odd if the size is odd. With such a number,
    no ray runs along an edge between pixels, where the pixel of the ray would be ambiguous.
    """
    diagonal = math.ceil(size * math.sqrt(2))
    return diagonal + (diagonal + size) % 2


def generate(size: int, angles: int, detectors: int, subsets: int, smoothing: float) -> Scan:
    """Return a scan of the Shepp-Logan phantom.

    The measurements are the exact line integrals of the phantom's ellipses, without noise. The
    weight of a ray is the fraction of photons that pass through the phantom. beta, the strength of
    the prior, is `smoothing` times the mean curvature of the measurements. Raises UserError if
    there is not enough memory.
    """
    import numpy as np

    from interlace.data import reading

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
    """Return the cosine and the sine of an angle. They are exact at 0 and 90 degrees."""
    if 2 * angle == angles:
        return 0.0, 1.0
    turn = math.pi * angle / angles
    return math.cos(turn), math.sin(turn)


def phantom(size: int) -> NDArray[np.float64]:
    """Return the Shepp-Logan phantom.

    A pixel is the sum of the levels of all ellipses that contain the pixel.
    """
    import numpy as np

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
    """Return the exact line integrals of the phantom's ellipses. Lengths are in pixels."""
    import numpy as np

    half = size / 2
    distance = (np.arange(detectors) - (detectors - 1) / 2) / half
    scan = np.zeros((angles, detectors))
    for angle in range(angles):
        c, s = direction(angle, angles)
        for e in SHEPP_LOGAN:
            turn = math.radians(e.degrees)
            across = c * math.cos(turn) + s * math.sin(turn)
            along = s * math.cos(turn) - c * math.sin(turn)
            reach = (e.half_width * across) ** 2 + (e.half_height * along) ** 2
            inside = np.maximum(reach - (distance - (e.x * c + e.y * s)) ** 2, 0)
            chord = 2 * e.half_width * e.half_height * np.sqrt(inside) / reach
            scan[angle] += e.level * half * chord
    return np.maximum(scan, 0)


def neighbours(size: int) -> NDArray[np.int64]:
    """Return the number of neighbours of each pixel, which is at most four."""
    import numpy as np

    inner = np.full(size, 2)
    inner[0] -= 1
    inner[-1] -= 1
    both: NDArray[np.int64] = np.add.outer(inner, inner)
    return both


def data_curvature(size: int, weights: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the curvature of the data term for each pixel j.

    The curvature is the sum over all rays of a(j) w |a|. |a| is the length of a ray in the image,
    and a(j) is its length in pixel j. a(j) is a trapezoid function of the distance of the ray from
    the centre of the pixel.
    """
    import numpy as np

    angles, detectors = weights.shape
    turns = [direction(angle, angles) for angle in range(angles)]
    distance = np.arange(detectors) - (detectors - 1) / 2
    weighted = [weights[a] * _chords(size, distance, *turns[a]) for a in range(angles)]
    centres = np.arange(size) + 0.5 - size / 2

    def band(first: int) -> NDArray[np.float64]:
        rows = centres[first : first + _BAND, np.newaxis]
        total = np.zeros((len(rows), size))
        for (c, s), ray in zip(turns, weighted, strict=True):
            longest, flat = 1 / max(abs(c), abs(s)), max(min(abs(c), abs(s)), 1e-9)
            edge = (abs(c) + abs(s)) / 2
            at = centres * c - rows * s + (detectors - 1) / 2
            lower = at.astype(np.int64)  # no pixel lies before the first ray
            at -= lower
            for beside in (0, 1):
                share = np.clip((edge - np.abs(at - beside)) * (longest / flat), 0, longest)
                total += share * ray[lower + beside]
        return total

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return np.concatenate(list(pool.map(band, range(0, size, _BAND))))


def _chords(
    size: int, distance: NDArray[np.float64], cosine: float, sine: float
) -> NDArray[np.float64]:
    """Return the lengths of an angle's rays inside the image."""
    import numpy as np

    half = size / 2
    enters, leaves = np.full(len(distance), -np.inf), np.full(len(distance), np.inf)
    for across, along in ((cosine, -sine), (sine, cosine)):
        if along == 0:
            leaves = np.where(np.abs(distance * across) < half, leaves, -np.inf)
            continue
        ends = (np.array([[-half], [half]]) - distance * across) / along
        enters = np.maximum(enters, ends.min(axis=0))
        leaves = np.minimum(leaves, ends.max(axis=0))
    chords: NDArray[np.float64] = np.maximum(leaves - enters, 0)
    return chords


class System:
    """The matrix of a tomograph, made by Siddon's method, one angle at a time.

    The method comes from R. L. Siddon, "Fast calculation of the exact radiological path for a
    three-dimensional CT array", Medical Physics 12 (1985) 252-255. Here the method has two
    dimensions. The lines of the grid cut a ray into pieces. The middle of a piece shows which pixel
    contains the piece.
    """

    def __init__(self, size: int, angles: int, detectors: int) -> None:
        from interlace.data import reading

        self.size, self.angles, self.detectors = size, angles, detectors
        self._kept: dict[int, csr_array] = {}
        # Rows that do not fit in memory are computed again each time they are needed.
        self._room = reading.memory_bytes() // 4

    def matrices(self, chosen: range) -> Iterator[csr_array]:
        """Yield a matrix of detectors by pixels for each chosen angle.

        Threads make several matrices at a time.
        """
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for angle, matrix in zip(chosen, pool.map(self._kept_or_made, chosen), strict=True):
                size = _ENTRY_BYTES * matrix.nnz
                if angle not in self._kept and size <= self._room:
                    self._kept[angle] = matrix
                    self._room -= size
                yield matrix

    def _kept_or_made(self, angle: int) -> csr_array:
        import numpy as np
        from scipy.sparse import csr_array

        if angle in self._kept:
            return self._kept[angle]
        distance = np.arange(self.detectors, dtype=np.float64) - (self.detectors - 1) / 2
        bands = [
            self._pieces(distance[first : first + _BAND], *direction(angle, self.angles))
            for first in range(0, self.detectors, _BAND)
        ]
        counts, pixels, lengths = (np.concatenate(part) for part in zip(*bands, strict=True))
        starts = np.zeros(self.detectors + 1, dtype=np.int32)
        np.cumsum(counts, out=starts[1:])
        return csr_array((lengths, pixels, starts), shape=(self.detectors, self.size**2))

    def _pieces(
        self, distance: NDArray[np.float64], cosine: float, sine: float
    ) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]:
        """Return the pieces of the rays of an angle.

        The result has the number of pieces of each ray, the pixel of each piece, and the length of
        each piece.
        """
        import numpy as np

        size, half = self.size, self.size / 2
        lines = np.arange(size + 1) - half
        # The points of a ray are distance * (cosine, sine) + along * (-sine, cosine).
        crossings = []
        if sine != 0:
            crossings.append((distance[:, np.newaxis] * cosine - lines) / sine)
        if cosine != 0:
            crossings.append((lines - distance[:, np.newaxis] * sine) / cosine)
        along = np.sort(np.concatenate(crossings, axis=1), axis=1)
        lengths = np.diff(along, axis=1)
        middle = (along[:, 1:] + along[:, :-1]) / 2
        column = np.floor(distance[:, np.newaxis] * cosine - middle * sine + half).astype(np.int32)
        row = np.floor(half - distance[:, np.newaxis] * sine - middle * cosine).astype(np.int32)
        inside = (column >= 0) & (column < size) & (row >= 0) & (row < size)
        pixels = row[inside] * np.int32(size) + column[inside]
        return inside.sum(axis=1), pixels, lengths[inside]


def reconstruct(scan: Scan, iterations: int) -> Reconstruction:
    """Iterate from an image of zeros, in float64. src/workload/ct.hpp describes the method."""
    import numpy as np

    size = scan.size
    image = np.zeros(size * size)
    measured, weights = scan.measured.astype(np.float64), scan.weights.astype(np.float64)
    curvature = scan.curvature.astype(np.float64).ravel()
    cost = 0.0
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
    return Reconstruction(image.reshape(size, size), cost)


def _differences(image: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return, for each pixel, the sum of its differences from its neighbours."""
    import numpy as np

    total = np.zeros_like(image)
    for axis in (0, 1):
        step = np.diff(image, axis=axis)
        before = [slice(None)] * 2
        after = [slice(None)] * 2
        before[axis], after[axis] = slice(None, -1), slice(1, None)
        total[tuple(before)] -= step
        total[tuple(after)] += step
    return total
