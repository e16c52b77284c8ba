"""The heat equation and the inviscid Burgers' equation on a grid, float32.

A grid is an array [planes][rows][columns]. In two dimensions a plane has one row. Beyond the edges,
the grid continues with copies of its outermost points. src/workload/diffusion.hpp describes the
schemes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Self

from interlace.base.errors import UserError
from interlace.workloads.base import Reference
from interlace.workloads.options import Default, Inputs, Iterations, Option, Seed, Size
from interlace.workloads.slabs import Slabs

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Grid = NDArray[np.float64]

DEFAULT_SIZE = {2: 256, 3: 40}
DEFAULT_DIMENSIONS = 3

FLOAT32_ROUNDING = 2.0**-24
STAGES = 3
# The number of independent roundings of a point in a stage, per dimension. Each of these roundings
# is about as large as the rounding of the result. The heat equation has three kinds: a sum, a
# factor and an addition. Burgers' equation has five fluxes in each direction instead of the sum.
ROUNDINGS_OF_A_DIMENSION = {"heat": 8, "burgers": 30}


@dataclass(frozen=True, kw_only=True)
class DiffusionInputs(Inputs):
    """The options of the equation and its grid."""

    iterations: Annotated[Iterations, Default(5)] = None
    size: Annotated[Size, Default("40, or 256 with 2 dimensions")] = None
    dimensions: Annotated[
        int | None, Option("2|3", "dimensions of the grid", DEFAULT_DIMENSIONS)
    ] = None
    equation: Annotated[str | None, Option("heat|burgers", "the equation to solve", "heat")] = None
    seed: Seed = None


class Diffusion(Slabs):
    """The heat equation and the inviscid Burgers' equation on a grid, float32."""

    name = "diffusion"
    place = 6
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

        size, dimensions, equation = cls._asked(inputs)
        if dimensions not in DEFAULT_SIZE:
            raise UserError(f"--dimensions {dimensions}: give 2 or 3")
        most = math.floor(MOST_POINTS ** (1 / dimensions))
        if not 4 <= size <= most:
            raise UserError(
                f"--size {size}: with {dimensions} dimensions give a number from 4 to {most}"
            )
        if equation not in EQUATIONS:
            raise UserError(f"--equation {equation}: give heat or burgers")
        super().check_data(inputs)

    @staticmethod
    def _asked(inputs: DiffusionInputs) -> tuple[int, int, str]:
        """Return the size, the dimensions and the equation that the options ask for."""
        dimensions = DEFAULT_DIMENSIONS if inputs.dimensions is None else inputs.dimensions
        size = DEFAULT_SIZE.get(dimensions, 0) if inputs.size is None else inputs.size
        return size, dimensions, inputs.equation or "heat"

    @classmethod
    def load(cls, inputs: DiffusionInputs, cuda: Any | None) -> Self:  # noqa: ARG003

        seed = 1 if inputs.seed is None else inputs.seed
        start = generate(*cls._asked(inputs), seed)
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

        values = solve(self.start, iterations).ravel()
        return Reference(values, np.full(values.size, self.start.speed))

    # Errors are relative to the largest value at the start, because later values hardly exceed it.
    # The roundings of a stage are independent and partly cancel: the sum of n roundings is about as
    # large as sqrt(n) roundings. The method is stable, so a stage does not enlarge earlier errors.
    # With Burgers' equation, errors that reach a front stay there. Four times this bound is above
    # the largest error of very many points. A lost or late transfer causes a far larger error: an
    # old plane is wrong by its change in a stage.
    def allowed_error(self) -> float:
        dimensions = sum(n > 1 for n in self.start.values.shape)
        a_stage = 4 + dimensions * ROUNDINGS_OF_A_DIMENSION[self.start.equation]
        return 4 * FLOAT32_ROUNDING * math.sqrt(STAGES * self.iterations * a_stage)


# --- the data and the reference ------------------------------------------------------------------

EQUATIONS = ("heat", "burgers")
HALO = {"heat": 2, "burgers": 3}  # the number of planes of a halo on each side
MOST_POINTS = 2**31 - 1
_MODES = 8  # the number of waves in the sum at the start
_TINY = 1e-6  # keeps the weights of WENO finite


@dataclass(frozen=True, eq=False)
class Start:
    """The initial values of a run, and its steps."""

    values: NDArray[np.float32]  # [planes][rows][columns]
    equation: str
    rate: float  # heat: D dt / dx^2; Burgers: dt / dx
    speed: float  # the largest |u|

    @property
    def plane(self) -> int:
        """Return the number of points in a plane."""
        return int(self.values[0].size)

    @property
    def halo(self) -> int:
        """Return the number of points that a part needs from each of its neighbours."""
        return HALO[self.equation] * self.plane


def generate(side: int, dimensions: int, equation: str, seed: int = 1) -> Start:
    """Return smooth initial values: a sum of 8 random waves.

    Each wave has 1 to 4 periods along a side. The largest value is about 1.

    Random numbers are the upper 24 bits of PCG64's output for the seed. For each wave, they give
    the number of periods in each dimension, the phase and the height. The time step of the heat
    equation is 0.3 / dimensions, a third of the largest stable step. The time step of Burgers'
    equation is 0.4 / (dimensions max |u|).
    """
    import numpy as np

    from interlace.data import reading

    what = f"a grid of {side} points per side in {dimensions} dimensions"
    reading.require_memory(200 * side**dimensions, what, "grid")
    shape = (side, side, side) if dimensions == 3 else (side, 1, side)
    random = (np.random.PCG64(seed).random_raw(_MODES * 5) >> np.uint64(40)) / 2.0**24
    along = [(np.arange(n) + 0.5) / n for n in shape]
    values = np.zeros(shape)
    for z, y, x, phase, height in random.reshape(_MODES, 5):
        turns = [np.floor(1 + 4 * n) * p for n, p in zip((z, y, x), along, strict=True)]
        wave = turns[0][:, None, None] + turns[1][:, None] + turns[2] + phase
        values += (0.25 + height) * np.sin(2 * np.pi * wave)
    values /= np.abs(values).max()
    start = values.astype(np.float32)
    speed = float(np.abs(start).max())
    rate = 0.3 / dimensions if equation == "heat" else 0.4 / (dimensions * speed)
    return Start(start, equation, float(np.float32(rate)), speed)


def solve(start: Start, steps: int) -> Grid:
    """Return the grid after a number of steps, in float64."""
    import numpy as np

    u = start.values.astype(np.float64)
    for _ in range(steps):
        a = u + change(start, u)
        b = 0.75 * u + 0.25 * (a + change(start, a))
        u = u / 3 + 2 / 3 * (b + change(start, b))
    return u


def change(start: Start, u: Grid) -> Grid:
    """Return the change of `u` in one step of Euler's method."""
    import numpy as np

    total = np.zeros_like(u)
    for axis in range(u.ndim):
        if u.shape[axis] == 1:
            continue
        halo = HALO[start.equation]
        n = u.shape[axis]
        widths = [(halo, halo) if a == axis else (0, 0) for a in range(u.ndim)]
        wide = np.moveaxis(np.pad(u, widths, mode="edge"), axis, 0)
        by_axis = np.moveaxis(total, axis, 0)
        if start.equation == "heat":
            near = wide[1 : n + 1] + wide[3 : n + 3]
            far = wide[:n] + wide[4 : n + 4]
            by_axis += start.rate / 12 * (16 * near - far - 30 * wide[2 : n + 2])
        else:
            by_axis -= start.rate * np.diff(_fluxes(wide, start.speed), axis=0)
    return total


def _fluxes(wide: Grid, speed: float) -> Grid:
    """Return the flux through each face, beginning with the face before the first point.

    `wide` is the grid with 3 additional points on each side.
    """
    right = (wide**2 / 2 + speed * wide) / 2
    left = (wide**2 / 2 - speed * wide) / 2
    faces = len(wide) - 5
    forward = [right[k : k + faces] for k in range(5)]
    backward = [left[5 - k : 5 - k + faces] for k in range(5)]
    return _weno(*forward) + _weno(*backward)


def _weno(a: Grid, b: Grid, c: Grid, d: Grid, e: Grid) -> Grid:
    """Return the value at the face between points c and d, by WENO (Jiang and Shu, 1996)."""
    import numpy as np

    rough = (
        13 / 12 * (a - 2 * b + c) ** 2 + (a - 4 * b + 3 * c) ** 2 / 4,
        13 / 12 * (b - 2 * c + d) ** 2 + (b - d) ** 2 / 4,
        13 / 12 * (c - 2 * d + e) ** 2 + (3 * c - 4 * d + e) ** 2 / 4,
    )
    candidates = (
        (2 * a - 7 * b + 11 * c) / 6,
        (-b + 5 * c + 2 * d) / 6,
        (2 * c + 5 * d - e) / 6,
    )
    total = np.zeros_like(a)
    mean = np.zeros_like(a)
    for ideal, r, candidate in zip((0.1, 0.6, 0.3), rough, candidates, strict=True):
        weight = ideal / (_TINY + r) ** 2
        total += weight
        mean += weight * candidate
    return mean / total
