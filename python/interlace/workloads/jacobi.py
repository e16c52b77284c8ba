"""The Jacobi iteration on a banded, diagonally dominant linear system, float32."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Self

from interlace.base.errors import UserError
from interlace.model.mechanisms import ELEMENT_BYTES, RANGE_COLLECTIVES
from interlace.model.run import Case
from interlace.workloads.base import Reference, Workload
from interlace.workloads.options import Data, Inputs, Option, Seed

if TYPE_CHECKING:
    from interlace.data.banded import BandedSystem

DEFAULT_ROWS = 1 << 15
DEFAULT_HALF_BANDWIDTH = 8

FLOAT32_ROUNDING = 2.0**-24


@dataclass(frozen=True, kw_only=True)
class JacobiInputs(Inputs):
    """What may be said of the linear system."""

    data: Annotated[Data, Option("FILE", "a banded matrix, .mtx, also .gz")] = None
    seed: Seed = None
    rows: Annotated[int | None, Option("N", "unknowns to generate", DEFAULT_ROWS)] = None
    half_bandwidth: Annotated[
        int | None,
        Option("K", "generate K diagonals on each side of the main one", DEFAULT_HALF_BANDWIDTH),
    ] = None
    halo: Annotated[bool | None, Option("", "send unknowns only to the GPUs that need them")] = None


class Jacobi(Workload):
    """The Jacobi iteration on a banded, diagonally dominant linear system, float32."""

    name = "jacobi"
    summary = "Jacobi iteration on a banded system; --data FILE (.mtx, .gz) or --rows N"
    takes = JacobiInputs
    values_are = "unknowns"
    element = "row"

    def __init__(self, system: BandedSystem, source: str, inputs: JacobiInputs) -> None:
        super().__init__(system.name, source, inputs)
        self.system = system
        self.halo = bool(inputs.halo)

    @classmethod
    def check_data(cls, inputs: JacobiInputs) -> None:
        from interlace.data import banded

        if inputs.data is not None:
            reason = "is for generated systems; leave it out with --data"
            inputs.refuse(("rows", "half_bandwidth"), reason)
        if inputs.seed is not None and inputs.seed < 0:
            raise UserError(f"--seed {inputs.seed}: give a number of at least 0")
        rows = DEFAULT_ROWS if inputs.rows is None else inputs.rows
        if not 2 <= rows <= banded.MAX_ROWS:
            raise UserError(f"--rows {rows}: give a number from 2 to {banded.MAX_ROWS}")
        half = DEFAULT_HALF_BANDWIDTH if inputs.half_bandwidth is None else inputs.half_bandwidth
        most = min(rows - 1, banded.MAX_HALF_BANDWIDTH)
        if not 1 <= half <= most:
            raise UserError(
                f"--half-bandwidth {half}: with {rows} rows give a number from 1 to {most}"
            )

    @classmethod
    def load(cls, inputs: JacobiInputs, cuda: Any | None) -> Self:  # noqa: ARG003
        from interlace.data import banded

        seed = 1 if inputs.seed is None else inputs.seed
        if inputs.data is not None:
            system = banded.load_banded(inputs.data, seed)
            return cls(system, f"{inputs.data}, right-hand side of seed {seed}", inputs)
        rows = DEFAULT_ROWS if inputs.rows is None else inputs.rows
        half = DEFAULT_HALF_BANDWIDTH if inputs.half_bandwidth is None else inputs.half_bandwidth
        source = f"generated, {rows} rows, half bandwidth {half}, seed {seed}"
        return cls(banded.generate(rows, half, seed), source, inputs)

    @property
    def size(self) -> str:
        halo = ", halo" if self.halo else ""
        return f"{self.system.rows:,} rows, half bandwidth {self.system.half_bandwidth}{halo}"

    def parameters(self) -> dict[str, Any]:
        return {
            "rows": self.system.rows,
            "half_bandwidth": self.system.half_bandwidth,
            "dominance": self.system.dominance,
            "subscribers": self.subscribers,
        }

    @property
    def subscribers(self) -> str:
        return "halo" if self.halo else super().subscribers

    def boundaries(self, gpus: int) -> Sequence[int]:
        return [self.system.rows * gpu // gpus for gpu in range(gpus + 1)]

    def largest_part(self, gpus: int) -> int:
        part = super().largest_part(gpus)
        # A halo has two parts, which go to different GPUs.
        return min(part, ELEMENT_BYTES * self.system.half_bandwidth) if self.halo else part

    @property
    def collectives(self) -> tuple[str, ...]:
        return RANGE_COLLECTIVES if self.halo else super().collectives

    def arguments(self) -> tuple[Any, ...]:
        return self.system.diagonals, self.system.right, self.halo

    def held(self, case: Case, device: int) -> slice:
        if not self.halo:
            return slice(0, self.system.rows)
        cut = self.boundaries(case.gpus)
        if cut[device] == cut[device + 1]:
            return slice(0, 0)
        half = self.system.half_bandwidth
        return slice(max(0, cut[device] - half), min(self.system.rows, cut[device + 1] + half))

    def reference(self, iterations: int) -> Reference:
        from interlace.data.banded import jacobi_reference

        return Reference(*jacobi_reference(self.system, iterations))

    # An element's error is relative to the sum of the magnitudes that it is made of, so that values
    # which cancel are compared too. A row adds up 2 K products to b and rounds its reciprocal and
    # the product with it: 2 K + 3 roundings, independent of each other, so that they cancel to
    # about the root of their number times one. An iteration passes on at most `dominance` of the
    # errors before it, and all of them add up to at most 1 / (1 - dominance) of one iteration's.
    # Four times that is beyond the largest of very many rows. What a lost or a late transfer does
    # is far above: an old value is wrong by its change in the iteration, of which a row takes over
    # A(i, j) / A(i, i).
    def allowed_error(self) -> float:
        rest = 1 - self.system.dominance
        passes = min(self.iterations, 1 / rest) if rest > 0 else self.iterations
        roundings = 2 * self.system.half_bandwidth + 3
        return 4 * FLOAT32_ROUNDING * math.sqrt(roundings) * passes
