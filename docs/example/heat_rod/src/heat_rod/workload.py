"""Heat in a rod with insulated ends, float32."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Self

from interlace.base.errors import UserError
from interlace.workloads.base import Reference
from interlace.workloads.options import Default, Inputs, Option, Seed, Size
from interlace.workloads.slabs import Slabs

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DEFAULT_SIZE = 4096
MOST_POINTS = 2**31 - 1
DEFAULT_RATE = 0.25

FLOAT32_ROUNDING = 2.0**-24
ROUNDINGS = 4  # the number of float32 roundings for each point in each step


@dataclass(frozen=True, kw_only=True)
class HeatRodInputs(Inputs):
    """The options of the rod."""

    size: Annotated[Size, Default(DEFAULT_SIZE)] = None
    seed: Seed = None
    rate: Annotated[
        float | None, Option("R", "the value of D dt / dx^2, at most 0.5", DEFAULT_RATE)
    ] = None


class HeatRod(Slabs):
    """Heat in a rod with insulated ends, float32."""

    name = "heat-rod"
    summary = "heat in a rod; --size N, --rate R"
    takes = HeatRodInputs
    values_are = "rods"
    element = "point"

    def __init__(self, start: NDArray[np.float32], source: str, inputs: HeatRodInputs) -> None:
        super().__init__(f"rod-{start.size}", source, inputs, start, halo=1)
        self.start = start
        self.rate = DEFAULT_RATE if inputs.rate is None else inputs.rate

    @classmethod
    def check_data(cls, inputs: HeatRodInputs) -> None:
        if inputs.size is not None and not 1 <= inputs.size <= MOST_POINTS:
            raise UserError(f"--size {inputs.size}: give a number from 1 to {MOST_POINTS}")
        if inputs.rate is not None and not 0 < inputs.rate <= 0.5:
            raise UserError(f"--rate {inputs.rate:g}: give a number above 0 and at most 0.5")
        super().check_data(inputs)

    @classmethod
    def load(cls, inputs: HeatRodInputs, cuda: Any | None) -> Self:  # noqa: ARG003
        import numpy as np

        seed = 1 if inputs.seed is None else inputs.seed
        size = DEFAULT_SIZE if inputs.size is None else inputs.size
        start = np.random.default_rng(seed).random(size, dtype=np.float32)
        return cls(start, f"generated, seed {seed}", inputs)

    @property
    def size(self) -> str:
        return f"{self.start.size:,} points"

    def parameters(self) -> dict[str, Any]:
        return {"points": self.start.size, "rate": self.rate}

    def arguments(self) -> tuple[Any, ...]:
        return self.start, self.rate

    def reference(self, iterations: int) -> Reference:
        import numpy as np

        heat = self.start.astype(np.float64)
        for _ in range(iterations):
            wide = np.pad(heat, 1, mode="edge")
            heat = heat + self.rate * (wide[:-2] - 2 * heat + wide[2:])
        return Reference(heat, np.ones(heat.size))

    # Values are from 0 to 1. A step computes a mean of three values, so errors of earlier steps do
    # not grow. Most roundings cancel each other, so n roundings add up to about sqrt(n) times one
    # rounding. Even the largest error of very many points is below four times this sum. If a point
    # is lost or late, its error is the point's change in a whole step. This change is far larger
    # than the sum of the roundings.
    def allowed_error(self) -> float:
        return 4 * FLOAT32_ROUNDING * math.sqrt(ROUNDINGS * self.iterations)
