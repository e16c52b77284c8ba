"""Model-based iterative reconstruction of a tomograph's slice, float32."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Self

from interlace.base.errors import UserError
from interlace.model.mechanisms import ELEMENT_BYTES
from interlace.model.run import Outcome, RunFailure
from interlace.workloads.base import Reference, Workload
from interlace.workloads.options import Default, Inputs, Iterations, Option, Size, Subscribe

if TYPE_CHECKING:
    from interlace.data.tomography import Scan

DEFAULT_SIZE = 128
DEFAULT_ANGLES = 64
DEFAULT_SUBSETS = 4
DEFAULT_SMOOTHING = 0.01

RAYS_OF_A_BLOCK = 128  # parts of the rays end with a block
FLOAT32_ROUNDING = 2.0**-24
STRIPS_AT_A_TIME = 16  # that a ray's sum is made of
POSITION_ROUNDINGS = 64  # of a position in a tile: two of up to 45 bins, each up to 2**-19


@dataclass(frozen=True, kw_only=True)
class CtInputs(Inputs):
    """What may be said of the scan and its reconstruction."""

    iterations: Annotated[Iterations, Default(3)] = None
    size: Annotated[Size, Default(DEFAULT_SIZE)] = None
    angles: Annotated[int | None, Option("N", "angles in half a turn", DEFAULT_ANGLES)] = None
    detectors: Annotated[
        int | None, Option("N", "rays an angle", "the fewest that see the whole image")
    ] = None
    subsets: Annotated[
        int | None,
        Option("N", "subsets of the angles, each a step of an iteration", DEFAULT_SUBSETS),
    ] = None
    smoothing: Annotated[float | None, Option("B", "strength of the prior", DEFAULT_SMOOTHING)] = (
        None
    )
    subscribe: Subscribe = None


class Ct(Workload):
    """Model-based iterative reconstruction of a tomograph's slice, float32."""

    name = "ct"
    summary = "X-ray tomography, an image from its projections; --size N, --angles, --subsets"
    takes = CtInputs
    values_are = "images"
    element = "pixel"

    def __init__(self, scan: Scan, source: str, inputs: CtInputs) -> None:
        super().__init__(f"shepp-logan-{scan.size}", source, inputs)
        self.scan = scan
        self.smoothing = DEFAULT_SMOOTHING if inputs.smoothing is None else inputs.smoothing
        self.cost: float | None = None  # of the reference, once there is one

    @classmethod
    def check_data(cls, inputs: CtInputs) -> None:
        from interlace.data import tomography

        size, angles, detectors, subsets = cls._shape(inputs)
        if not 2 <= size <= tomography.MOST_SIZE:
            raise UserError(f"--size {size}: give a number from 2 to {tomography.MOST_SIZE}")
        least = tomography.least_detectors(size)
        most = tomography.MOST_DETECTORS
        if not least <= detectors <= most or (detectors - least) % 2 != 0:
            parity = "an even" if least % 2 == 0 else "an odd"
            raise UserError(
                f"--detectors {detectors}: with --size {size} give {parity} number from {least} "
                f"to {most}"
            )
        if not 1 <= angles <= tomography.MOST_RAYS // detectors:
            raise UserError(
                f"--angles {angles}: with {detectors} detectors give a number from 1 to "
                f"{tomography.MOST_RAYS // detectors}"
            )
        if not 1 <= subsets <= angles or angles % subsets != 0:
            raise UserError(f"--subsets {subsets}: give a number that divides the {angles} angles")
        if inputs.smoothing is not None and not 0 <= inputs.smoothing < math.inf:
            raise UserError(f"--smoothing {inputs.smoothing:g}: give a finite number of at least 0")
        reason = "is not for ct, which makes a fixed number of iterations; give --iterations"
        inputs.refuse(("tolerance",), reason)

    @staticmethod
    def _shape(inputs: CtInputs) -> tuple[int, int, int, int]:
        """Size, angles, detectors and subsets."""
        from interlace.data.tomography import least_detectors

        size = DEFAULT_SIZE if inputs.size is None else inputs.size
        angles = DEFAULT_ANGLES if inputs.angles is None else inputs.angles
        detectors = least_detectors(max(size, 0)) if inputs.detectors is None else inputs.detectors
        subsets = inputs.subsets
        if subsets is None:
            subsets = math.gcd(DEFAULT_SUBSETS, angles)
        return size, angles, detectors, subsets

    @classmethod
    def load(cls, inputs: CtInputs, cuda: Any | None) -> Self:  # noqa: ARG003
        from interlace.data import tomography

        smoothing = DEFAULT_SMOOTHING if inputs.smoothing is None else inputs.smoothing
        scan = tomography.generate(*cls._shape(inputs), smoothing)
        source = (
            f"exact projections of the Shepp-Logan phantom, {scan.angles} angles, "
            f"{scan.detectors} detectors"
        )
        return cls(scan, source, inputs)

    @property
    def size(self) -> str:
        scan = self.scan
        return (
            f"{scan.size} x {scan.size} pixels, {scan.angles} angles, {scan.detectors} detectors, "
            f"{scan.subsets} subsets"
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

        from interlace.data import tomography

        found = tomography.reconstruct(self.scan, iterations)
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

    # Errors are relative to the image's largest pixel, for a step changes a pixel by a mean, over
    # the rays that cross it, of (y - a . x) / |a|, and a . x / |a| is a mean of pixels. A ray adds
    # up two products a strip, 16 strips at a time and then those sums; a pixel two products an
    # angle of the subset. Roundings that do not depend on each other cancel to about the root of
    # their number times one. Positions round too: what a ray's length in a pixel changes with its
    # distance from the centre sums up, over all distances, to twice the longest, so that on the
    # mean over angles lengths are as wrong as positions are. A step passes the errors before it on
    # about as large as they are, for it minimises a surrogate that lies above, and adds its own,
    # which cancel likewise over the steps. Four times that is beyond the largest of very many
    # pixels. What a lost or a late transfer does is far above: an old pixel is wrong by its change
    # in the step, and a ray of it by that times the step from ray to image.
    def allowed_error(self) -> float:
        scan = self.scan
        of_ray = 2 * STRIPS_AT_A_TIME + scan.size / STRIPS_AT_A_TIME
        of_pixel = 2 * scan.angles / scan.subsets
        a_step = math.sqrt(of_ray + of_pixel) + POSITION_ROUNDINGS
        return 4 * FLOAT32_ROUNDING * a_step * math.sqrt(self.iterations * scan.subsets)
