"""The heat equation and the inviscid Burgers' equation on a grid, float32."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Self

from interlace.base.errors import UserError
from interlace.workloads.base import Reference
from interlace.workloads.options import Default, Inputs, Iterations, Option, Seed, Size
from interlace.workloads.slabs import Slabs

if TYPE_CHECKING:
    from interlace.data.diffusion import Start

DEFAULT_SIZE = {2: 256, 3: 40}
DEFAULT_DIMENSIONS = 3

FLOAT32_ROUNDING = 2.0**-24
STAGES = 3
# Roundings of a point in a stage that do not depend on each other, of about the size of the result:
# a dimension's sum, its factor, and adding it; Burgers has five fluxes either way in it instead.
ROUNDINGS_OF_A_DIMENSION = {"heat": 8, "burgers": 30}


@dataclass(frozen=True, kw_only=True)
class DiffusionInputs(Inputs):
    """What may be said of the equation and its grid."""

    iterations: Annotated[Iterations, Default(5)] = None
    size: Annotated[Size, Default("40, or 256 with 2 dimensions")] = None
    dimensions: Annotated[int | None, Option("2|3", "of the grid", DEFAULT_DIMENSIONS)] = None
    equation: Annotated[str | None, Option("heat|burgers", "of what", "heat")] = None
    seed: Seed = None


class Diffusion(Slabs):
    """The heat equation and the inviscid Burgers' equation on a grid, float32."""

    name = "diffusion"
    summary = "heat or Burgers' equation on a grid; --equation heat|burgers, --size N, --dimensions"
    takes = DiffusionInputs
    values_are = "grids"
    element = "point"

    def __init__(self, start: Start, source: str, inputs: DiffusionInputs) -> None:
        planes, rows, columns = start.values.shape
        self.shape = f"{planes} x {columns}" if rows == 1 else f"{planes} x {rows} x {columns}"
        name = f"{start.equation}-{self.shape.replace(' ', '')}"
        super().__init__(name, source, inputs, start.values, start.halo)
        self.start = start

    @classmethod
    def check_data(cls, inputs: DiffusionInputs) -> None:
        from interlace.data import diffusion

        size, dimensions, equation = cls._asked(inputs)
        if dimensions not in DEFAULT_SIZE:
            raise UserError(f"--dimensions {dimensions}: give 2 or 3")
        most = math.floor(diffusion.MOST_POINTS ** (1 / dimensions))
        if not 4 <= size <= most:
            raise UserError(
                f"--size {size}: with {dimensions} dimensions give a number from 4 to {most}"
            )
        if equation not in diffusion.EQUATIONS:
            raise UserError(f"--equation {equation}: give heat or burgers")
        super().check_data(inputs)

    @staticmethod
    def _asked(inputs: DiffusionInputs) -> tuple[int, int, str]:
        """Size, dimensions and equation."""
        dimensions = DEFAULT_DIMENSIONS if inputs.dimensions is None else inputs.dimensions
        size = DEFAULT_SIZE.get(dimensions, 0) if inputs.size is None else inputs.size
        return size, dimensions, inputs.equation or "heat"

    @classmethod
    def load(cls, inputs: DiffusionInputs, cuda: Any | None) -> Self:  # noqa: ARG003
        from interlace.data import diffusion

        seed = 1 if inputs.seed is None else inputs.seed
        start = diffusion.generate(*cls._asked(inputs), seed)
        return cls(start, f"generated, a sum of random waves of seed {seed}", inputs)

    @property
    def size(self) -> str:
        equation = "heat" if self.start.equation == "heat" else "Burgers'"
        return f"{self.shape} points, {equation} equation"

    def parameters(self) -> dict[str, Any]:
        return {
            "points": self.start.values.size,
            "equation": self.start.equation,
            "rate": self.start.rate,
            "largest": self.start.speed,
        }

    def arguments(self) -> tuple[Any, ...]:
        return self.start.values, self.start.equation, self.start.rate, self.start.speed

    def reference(self, iterations: int) -> Reference:
        import numpy as np

        from interlace.data import diffusion

        values = diffusion.solve(self.start, iterations).ravel()
        return Reference(values, np.full(values.size, self.start.speed))

    # Errors are relative to the largest value at the start, which nothing exceeds by much. A stage
    # adds its roundings, which do not depend on each other and cancel to about the root of their
    # number times one; it passes the errors before it on about as large as they are, for the method
    # is stable, and what Burgers' equation carries together at a front stays there. Four times that
    # is beyond the largest of very many points. What a lost or a late transfer does is far above:
    # an old plane is wrong by its change in a stage.
    def allowed_error(self) -> float:
        dimensions = sum(n > 1 for n in self.start.values.shape)
        a_stage = 4 + dimensions * ROUNDINGS_OF_A_DIMENSION[self.start.equation]
        return 4 * FLOAT32_ROUNDING * math.sqrt(STAGES * self.iterations * a_stage)
