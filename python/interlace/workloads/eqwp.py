"""Propagation of seismic waves in an elastic, layered medium, float32."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Self

from interlace.base.errors import UserError
from interlace.workloads.base import Reference
from interlace.workloads.options import Default, Inputs, Iterations, Kernel, Seed, Size
from interlace.workloads.slabs import Slabs

if TYPE_CHECKING:
    from interlace.data.elastic import Start

DEFAULT_SIZE = 32

FLOAT32_ROUNDING = 2.0**-24
EPOCHS = 2  # of a step: stresses, velocities
ROUNDINGS = 24  # of a value in an epoch: three differences of seven, a sum, a factor, adding it


@dataclass(frozen=True, kw_only=True)
class EqwpInputs(Inputs):
    """What may be said of the waves."""

    iterations: Annotated[Iterations, Default(5)] = None
    size: Annotated[Size, Default(DEFAULT_SIZE)] = None
    seed: Seed = None
    kernel: Annotated[Kernel, Default("runs (or tiles)")] = None


class Eqwp(Slabs):
    """Propagation of seismic waves in an elastic, layered medium, float32."""

    name = "eqwp"
    summary = "seismic waves in a layered medium, finite differences of fourth order; --size N"
    takes = EqwpInputs
    values_are = "velocities"
    element = "value"
    kernels = ("runs", "tiles")

    def __init__(self, start: Start, source: str, inputs: EqwpInputs) -> None:
        name = f"elastic-{len(start.velocity)}"
        super().__init__(name, source, inputs, start.velocity, start.halo)
        self.start = start

    @classmethod
    def check_data(cls, inputs: EqwpInputs) -> None:
        from interlace.data import elastic

        most = math.floor((elastic.MOST_VALUES / elastic.COMPONENTS) ** (1 / 3))
        if inputs.size is not None and not 4 <= inputs.size <= most:
            raise UserError(f"--size {inputs.size}: give a number from 4 to {most}")
        super().check_data(inputs)

    @classmethod
    def load(cls, inputs: EqwpInputs, cuda: Any | None) -> Self:  # noqa: ARG003
        from interlace.data import elastic

        seed = 1 if inputs.seed is None else inputs.seed
        start = elastic.generate(DEFAULT_SIZE if inputs.size is None else inputs.size, seed)
        return cls(start, f"generated, four layers, random pulses of seed {seed}", inputs)

    @property
    def size(self) -> str:
        side = len(self.start.velocity)
        return f"{side} x {side} x {side} points, four layers"

    def parameters(self) -> dict[str, Any]:
        return {"points": len(self.start.velocity) ** 3}

    def arguments(self) -> tuple[Any, ...]:
        # A plane's components one behind the other are a plane of three times the rows.
        planes, components, rows, columns = self.start.velocity.shape
        flat = self.start.velocity.reshape(planes, components * rows, columns)
        return flat, self.start.medium, self.kernel

    def reference(self, iterations: int) -> Reference:
        import numpy as np

        from interlace.data import elastic

        values = elastic.propagate(self.start, iterations).ravel()
        largest = float(np.abs(self.start.velocity).max())
        return Reference(values, np.full(values.size, largest))

    # Errors are relative to the largest velocity at the start, as waves spread from there. An epoch
    # adds its roundings, which do not depend on each other and cancel to about the root of their
    # number times one, and keeps the energy of the errors before it. Four times that is beyond the
    # largest of very many values. What a lost or a late transfer does is far above: an old plane is
    # wrong by its change in a step.
    def allowed_error(self) -> float:
        return 4 * FLOAT32_ROUNDING * math.sqrt(EPOCHS * self.iterations * ROUNDINGS)
