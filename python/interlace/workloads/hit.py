"""Homogeneous isotropic turbulence in a periodic box, pseudo-spectral, float32."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Self

from interlace.base.errors import UserError
from interlace.workloads.base import Reference
from interlace.workloads.options import Default, Inputs, Iterations, Kernel, Seed, Size
from interlace.workloads.slabs import Slabs

if TYPE_CHECKING:
    from interlace.data.turbulence import Start

DEFAULT_SIZE = 32

FLOAT32_ROUNDING = 2.0**-24
COMPLEX_BYTES = 8
FIELDS = 6  # of the larger transpose
STAGES = 2


@dataclass(frozen=True, kw_only=True)
class HitInputs(Inputs):
    """What may be said of the turbulence."""

    iterations: Annotated[Iterations, Default(5)] = None
    size: Annotated[Size, Default(DEFAULT_SIZE)] = None
    seed: Seed = None
    kernel: Annotated[Kernel, Default("runs (or tiles)")] = None


class Hit(Slabs):
    """Homogeneous isotropic turbulence in a periodic box, pseudo-spectral, float32."""

    name = "hit"
    summary = "turbulence in a periodic box, by Fourier transforms that GPUs transpose; --size N"
    takes = HitInputs
    values_are = "coefficients"
    element = "number"
    kernels = ("runs", "tiles")

    def __init__(self, start: Start, source: str, inputs: HitInputs) -> None:
        super().__init__(f"turbulence-{start.side}", source, inputs, start.velocity, halo=0)
        self.start = start
        self.energy: float | None = None  # of the reference, once there is one

    @classmethod
    def check_data(cls, inputs: HitInputs) -> None:
        from interlace.data.turbulence import MOST_SIDE

        size = DEFAULT_SIZE if inputs.size is None else inputs.size
        if not 4 <= size <= MOST_SIDE or size % 2 != 0:
            raise UserError(f"--size {size}: give an even number from 4 to {MOST_SIDE}")
        super().check_data(inputs)

    @classmethod
    def load(cls, inputs: HitInputs, cuda: Any | None) -> Self:  # noqa: ARG003
        from interlace.data import turbulence

        seed = 1 if inputs.seed is None else inputs.seed
        start = turbulence.generate(DEFAULT_SIZE if inputs.size is None else inputs.size, seed)
        return cls(start, f"generated, random velocity of seed {seed}", inputs)

    @property
    def size(self) -> str:
        side = self.start.side
        return f"{side} x {side} x {side} points"

    def parameters(self) -> dict[str, Any]:
        from interlace.data.turbulence import energy

        return {
            "points": self.start.side**3,
            "viscosity": self.start.viscosity,
            "step": self.start.step,
            "start_energy": energy(self.start.velocity),
            "energy": self.energy,
        }

    def largest_part(self, gpus: int) -> int:
        # Of a transpose, each other GPU gets a block of its own.
        planes = -(-self.start.side // gpus)
        return COMPLEX_BYTES * FIELDS * planes * planes * (self.start.side // 2 + 1)

    def arguments(self) -> tuple[Any, ...]:
        # A ky's components and kz one behind the other, and its complex numbers as two.
        flat = self.start.velocity.reshape(self.start.side, 3 * self.start.side, -1)
        return flat, self.start.viscosity, self.start.step, self.kernel

    def reference(self, iterations: int) -> Reference:
        import numpy as np

        from interlace.data import turbulence

        found = turbulence.evolve(self.start, iterations)
        self.energy = turbulence.energy(found)
        values = found.ravel()
        return Reference(values, np.full(values.size, np.abs(values).max()))

    # Errors are relative to the largest coefficient. A transform of n^3 numbers makes log2(n^3)
    # roundings of each, which do not depend on each other and, spread over all coefficients, are
    # far below the largest; two of them are behind each other in a stage, with a product and a
    # projection of about ten roundings between and behind. A stage adds all that times the step's
    # part of the change, and a few roundings of what was there. Roundings cancel to about the root
    # of their number times one; four times that is beyond the largest of very many numbers. What a
    # lost or a late transfer does is far above: a block of an old transpose is wrong by what all
    # its waves changed in a stage.
    def allowed_error(self) -> float:
        of_transforms = 2 * 3 * math.log2(self.start.side)
        return 4 * FLOAT32_ROUNDING * math.sqrt(STAGES * self.iterations * (of_transforms + 10))
