"""Propagation of seismic waves in an elastic, layered medium, float32.

src/workload/eqwp.hpp describes the scheme: a staggered grid, of fourth order in space. Velocities
are an array [planes][x, y, z][rows][columns].
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Self

from interlace.base.errors import UserError
from interlace.workloads.base import Reference
from interlace.workloads.options import Default, Inputs, Iterations, Kernel, Seed, Size
from interlace.workloads.slabs import Slabs

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Field = NDArray[np.float64]

DEFAULT_SIZE = 32

FLOAT32_ROUNDING = 2.0**-24
EPOCHS = 2  # a step has an epoch for stresses and an epoch for velocities
# The number of roundings of a value in an epoch: three differences with seven roundings each, a
# sum, a factor and an addition.
ROUNDINGS = 24


@dataclass(frozen=True, kw_only=True)
class EqwpInputs(Inputs):
    """The options of the waves."""

    iterations: Annotated[Iterations, Default(5)] = None
    size: Annotated[Size, Default(DEFAULT_SIZE)] = None
    seed: Seed = None
    kernel: Annotated[Kernel, Default("runs (or tiles)")] = None


class Eqwp(Slabs):
    """Propagation of seismic waves in an elastic, layered medium, float32."""

    name = "eqwp"
    place = 7
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

        most = math.floor((MOST_VALUES / COMPONENTS) ** (1 / 3))
        if inputs.size is not None and not 4 <= inputs.size <= most:
            raise UserError(f"--size {inputs.size}: give a number from 4 to {most}")
        super().check_data(inputs)

    @classmethod
    def load(cls, inputs: EqwpInputs, cuda: Any | None) -> Self:  # noqa: ARG003

        seed = 1 if inputs.seed is None else inputs.seed
        start = generate(DEFAULT_SIZE if inputs.size is None else inputs.size, seed)
        return cls(start, f"generated, four layers, random pulses of seed {seed}", inputs)

    @property
    def size(self) -> str:
        side = len(self.start.velocity)
        return f"{side} x {side} x {side} points, four layers"

    def parameters(self) -> dict[str, Any]:
        return {"points": len(self.start.velocity) ** 3}

    def arguments(self) -> tuple[Any, ...]:
        # A plane holds its three components one after another, as if it had three times the rows.
        planes, components, rows, columns = self.start.velocity.shape
        flat = self.start.velocity.reshape(planes, components * rows, columns)
        return flat, self.start.medium, self.kernel

    def reference(self, iterations: int) -> Reference:
        import numpy as np

        values = propagate(self.start, iterations).ravel()
        largest = float(np.abs(self.start.velocity).max())
        return Reference(values, np.full(values.size, largest))

    # Errors are relative to the largest velocity at the start, because waves spread from there. The
    # roundings of an epoch are independent and partly cancel: the sum of n roundings is about as
    # large as sqrt(n) roundings. An epoch does not change the energy of earlier errors. Four times
    # this bound is above the largest error of very many values. A lost or late transfer causes a
    # far larger error: an old plane is wrong by its change in a step.
    def allowed_error(self) -> float:
        return 4 * FLOAT32_ROUNDING * math.sqrt(EPOCHS * self.iterations * ROUNDINGS)


# --- the data and the reference ------------------------------------------------------------------

COMPONENTS = 3
HALO = 2  # the number of planes in a halo
MOST_VALUES = 2**31 - 1
_LAYERS = ((1500.0, 1800.0), (2500.0, 2100.0), (4000.0, 2500.0), (6000.0, 2700.0))
# Courant number of the fastest wave; the limit of stability is 0.495 (6 / 7 over the root of 3)
_COURANT = 0.4
_PULSES = 48
_WIDTH = 2.5  # the width of a pulse, in points


@dataclass(frozen=True, eq=False)
class Start:
    """The initial velocities of a run, and the medium of each plane. The initial stresses are 0."""

    velocity: NDArray[np.float32]  # [planes][x, y, z][rows][columns]
    medium: NDArray[np.float32]  # [planes][lambda dt / dx, mu dt / dx, dt / (rho dx)]

    @property
    def plane(self) -> int:
        """Return the number of values in a plane."""
        return int(self.velocity[0].size)

    @property
    def halo(self) -> int:
        """Return the number of values that a part needs from each of its neighbours."""
        return HALO * self.plane


def generate(side: int, seed: int = 1) -> Start:
    """Return a cube with `side` points per side, four layers of equal depth and 48 pulses.

    From top to bottom, P waves travel at 1500, 2500, 4000 and 6000 m/s, and the densities are 1800,
    2100, 2500 and 2700 kg/m^3: sediments above crystalline rock. S waves are slower than P waves by
    a factor of sqrt(3). A pulse is a Gaussian around a random point, in a random direction. The
    largest velocity is 1 m/s. Random numbers are the upper 24 bits of PCG64's output for the seed,
    six numbers for each pulse.
    """
    import numpy as np

    from interlace.data import reading

    reading.require_memory(300 * side**3, f"a grid of {side} points per side", "grid")
    layer = np.arange(side) * len(_LAYERS) // side
    p_speed, density = np.array(_LAYERS)[layer].T
    # both mu and lambda have this value, because P waves are sqrt(3) times as fast as S waves
    lame_2 = density * p_speed**2 / 3
    step = _COURANT / p_speed.max()  # dt / dx
    medium = np.column_stack([lame_2 * step, lame_2 * step, step / density]).astype(np.float32)
    random = (np.random.PCG64(seed).random_raw(_PULSES * 6) >> np.uint64(40)) / 2.0**24
    velocity = np.zeros((side, COMPONENTS, side, side))
    points = np.arange(side)
    for pulse in random.reshape(_PULSES, 6):
        shapes = [np.exp(-(((points - c * side) / _WIDTH) ** 2) / 2) for c in pulse[:3]]
        bell = shapes[0][:, None, None] * shapes[1][:, None] * shapes[2]
        for component in range(COMPONENTS):
            velocity[:, component] += (2 * pulse[3 + component] - 1) * bell
    velocity /= np.abs(velocity).max()
    return Start(velocity.astype(np.float32), medium)


def propagate(start: Start, steps: int) -> Field:
    """Return the velocities after a number of steps, in float64."""
    import numpy as np

    v = start.velocity.astype(np.float64)
    lame_1, lame_2, buoyancy = (m[:, None, None] for m in start.medium.astype(np.float64).T)
    z, y, x = 0, 1, 2
    xx, yy, zz, xy, xz, yz = (np.zeros_like(v[:, 0]) for _ in range(6))
    for _ in range(steps):
        vx, vy, vz = v[:, 0], v[:, 1], v[:, 2]
        along = _before(vx, x), _before(vy, y), _before(vz, z)
        spread = lame_1 * sum(along)
        xx, yy, zz = (
            stress + spread + 2 * lame_2 * strain
            for stress, strain in zip((xx, yy, zz), along, strict=True)
        )
        xy = xy + lame_2 * (_behind(vx, y) + _behind(vy, x))
        xz = xz + lame_2 * (_behind(vx, z) + _behind(vz, x))
        yz = yz + lame_2 * (_behind(vy, z) + _behind(vz, y))
        forces = (
            _behind(xx, x) + _before(xy, y) + _before(xz, z),
            _before(xy, x) + _behind(yy, y) + _before(yz, z),
            _before(xz, x) + _before(yz, y) + _behind(zz, z),
        )
        v = np.stack([v[:, c] + buoyancy * f for c, f in enumerate(forces)], axis=1)
    return v


def _before(f: Field, axis: int) -> Field:
    """Return a fourth-order difference at the middle between each point and the point before it.

    Values outside the grid are 0.
    """
    return _differences(f, axis, 2)


def _behind(f: Field, axis: int) -> Field:
    """Return a fourth-order difference at the middle between each point and the next point."""
    return _differences(f, axis, 1)


def _differences(f: Field, axis: int, before: int) -> Field:
    import numpy as np

    widths = [(before, 3 - before) if a == axis else (0, 0) for a in range(f.ndim)]
    wide = np.moveaxis(np.pad(f, widths), axis, 0)
    n = f.shape[axis]
    near = wide[2 : n + 2] - wide[1 : n + 1]
    far = wide[3 : n + 3] - wide[:n]
    return np.moveaxis(9 / 8 * near - far / 24, 0, axis)
