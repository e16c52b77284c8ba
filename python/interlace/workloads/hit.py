"""Homogeneous isotropic turbulence in a periodic box, pseudo-spectral, float32.

src/workload/hit.hpp describes the equations and the scheme. A side of the box has n points and the
length 2 pi. The coefficients of the velocity, divided by n**3, are complex arrays
[x, y, z][kz][ky][kx]. Wavenumbers have the order of numpy.fft. kx runs from 0 to n / 2.
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

    Modes = NDArray[np.complex128]

DEFAULT_SIZE = 32

FLOAT32_ROUNDING = 2.0**-24
COMPLEX_BYTES = 8
FIELDS = 6  # the number of fields in the larger of the two transposes
STAGES = 2


@dataclass(frozen=True, kw_only=True)
class HitInputs(Inputs):
    """The options of the turbulence."""

    iterations: Annotated[Iterations, Default(5)] = None
    size: Annotated[Size, Default(DEFAULT_SIZE)] = None
    seed: Seed = None
    kernel: Annotated[Kernel, Default("runs (or tiles)")] = None


class Hit(Slabs):
    """Homogeneous isotropic turbulence in a periodic box, pseudo-spectral, float32."""

    name = "hit"
    place = 8
    summary = "turbulence in a periodic box, by Fourier transforms that GPUs transpose; --size N"
    takes = HitInputs
    values_are = "coefficients"
    element = "number"
    kernels = ("runs", "tiles")

    def __init__(self, start: Start, source: str, inputs: HitInputs) -> None:
        super().__init__(f"turbulence-{start.side}", source, inputs, start.velocity, halo=0)
        self.start = start
        self.energy: float | None = None  # the energy of the reference, once it is computed

    @classmethod
    def check_data(cls, inputs: HitInputs) -> None:

        size = DEFAULT_SIZE if inputs.size is None else inputs.size
        if not 4 <= size <= MOST_SIDE or size % 2 != 0:
            raise UserError(f"--size {size}: give an even number from 4 to {MOST_SIDE}")
        super().check_data(inputs)

    @classmethod
    def load(cls, inputs: HitInputs, cuda: Any | None) -> Self:  # noqa: ARG003

        seed = 1 if inputs.seed is None else inputs.seed
        start = generate(DEFAULT_SIZE if inputs.size is None else inputs.size, seed)
        return cls(start, f"generated, random velocity of seed {seed}", inputs)

    @property
    def size(self) -> str:
        side = self.start.side
        return f"{side} x {side} x {side} points"

    def parameters(self) -> dict[str, Any]:

        return {
            "points": self.start.side**3,
            "viscosity": self.start.viscosity,
            "step": self.start.step,
            "start_energy": energy(self.start.velocity),
            "energy": self.energy,
        }

    def largest_part(self, gpus: int) -> int:
        # In a transpose, a GPU sends a different block to each of the other GPUs.
        planes = -(-self.start.side // gpus)
        return COMPLEX_BYTES * FIELDS * planes * planes * (self.start.side // 2 + 1)

    def arguments(self) -> tuple[Any, ...]:
        # For each ky, a plane has the components and all kz one after another. A complex number has
        # two floats.
        flat = self.start.velocity.reshape(self.start.side, 3 * self.start.side, -1)
        return flat, self.start.viscosity, self.start.step, self.kernel

    def reference(self, iterations: int) -> Reference:
        import numpy as np

        found = evolve(self.start, iterations)
        self.energy = energy(found)
        values = found.ravel()
        return Reference(values, np.full(values.size, np.abs(values).max()))

    # Errors are relative to the largest coefficient. A transform of n^3 numbers rounds each number
    # log2(n^3) times. These roundings are independent. They are spread over all coefficients, so
    # they are far below the largest coefficient. A stage makes two transforms one after the other,
    # with a product between them and a projection after them: about ten roundings each. A stage
    # adds these errors times the step's share of the change, and a few roundings of the old value.
    # Roundings partly cancel: the sum of n roundings is about as large as sqrt(n) roundings. Four
    # times this bound is above the largest error of very many numbers. A lost or late transfer
    # causes a far larger error: a block of an old transpose is wrong by the change of all its waves
    # in a stage.
    def allowed_error(self) -> float:
        of_transforms = 2 * 3 * math.log2(self.start.side)
        return 4 * FLOAT32_ROUNDING * math.sqrt(STAGES * self.iterations * (of_transforms + 10))


# --- the data and the reference ------------------------------------------------------------------

MOST_SIDE = 640
_PEAK = 3.0  # the wavenumber with the most energy
_COURANT = 0.5


@dataclass(frozen=True, eq=False)
class Start:
    """The initial state of a run."""

    side: int
    velocity: NDArray[np.float32]  # [ky][x, y, z][kz][kx][re, im]
    viscosity: float
    step: float  # the duration of a step


def generate(side: int, seed: int = 1) -> Start:
    """Return a random, divergence-free velocity whose root mean square is 1 in each direction.

    The energy of the velocity at wavenumber k is proportional to k^4 exp(-2 (k / 3)^2). The
    function takes white noise from the upper 24 bits of PCG64's output for the seed, scales the
    noise to this spectrum, and keeps the divergence-free part. The viscosity is 1 / side. At the
    largest velocity, the way from a point to its neighbour takes two time steps.
    """
    import numpy as np

    from interlace.data import reading

    reading.require_memory(600 * side**3, f"a box of {side} points per side", "box")
    raw = np.random.PCG64(seed).random_raw(3 * side**3) >> np.uint64(40)
    noise = (raw / 2.0**24 - 0.5).reshape(3, side, side, side)
    modes = np.fft.rfftn(noise, axes=(1, 2, 3))
    k = _wavenumbers(side)
    square = (k**2).sum(axis=0)
    # The shell of wavenumber k has about k^2 coefficients. The energy of a coefficient is therefore
    # the energy at k divided by k^2. `shape` is proportional to the square root of this quotient.
    shape = np.sqrt(square) * np.exp(-square / _PEAK**2)
    modes = _project(modes * shape, k) * _kept(k, side)
    points = np.fft.irfftn(modes, s=(side,) * 3, axes=(1, 2, 3))
    scale = 1 / np.sqrt((points**2).mean())
    largest = float(np.abs(points).sum(axis=0).max() * scale)
    step = _COURANT * 2 * np.pi / side / largest
    ordered = np.ascontiguousarray((modes * scale / side**3).transpose(2, 0, 1, 3))
    velocity = ordered.astype(np.complex64).view(np.float32)
    return Start(
        side,
        velocity.reshape(*ordered.shape, 2),
        float(np.float32(1 / side)),
        float(np.float32(step)),
    )


def evolve(start: Start, steps: int) -> NDArray[np.float64]:
    """Return the velocity after some steps, in float64, in the layout of `Start.velocity`."""
    import numpy as np

    wide = start.velocity.astype(np.float64)
    u = (wide[..., 0] + 1j * wide[..., 1]).transpose(1, 2, 0, 3)
    k = _wavenumbers(start.side)
    decay = np.exp(-start.viscosity * (k**2).sum(axis=0) * start.step / 2)
    for _ in range(steps):
        middle = decay * (u + start.step / 2 * _nonlinear(u, k, start.side))
        u = decay * (decay * u + start.step * _nonlinear(middle, k, start.side))
    ordered = np.ascontiguousarray(u.transpose(2, 0, 1, 3))
    return ordered.view(np.float64).reshape(*ordered.shape, 2)


def energy(modes: NDArray[np.floating]) -> float:
    """Return half the mean square of a velocity in the layout of `Start.velocity`."""
    import numpy as np

    squares = (modes.astype(np.float64) ** 2).sum(axis=(0, 1, 2, 4))
    half = len(squares) - 1
    return float(squares[0] + squares[half] + 2 * squares[1:half].sum()) / 2


def _wavenumbers(side: int) -> NDArray[np.float64]:
    """Return the wavenumbers kx, ky and kz of each coefficient.

    The wavenumber side / 2 is positive.
    """
    import numpy as np

    index = np.arange(side)
    full = np.where(2 * index <= side, index, index - side).astype(np.float64)
    kz, ky, kx = np.meshgrid(full, full, full[: side // 2 + 1], indexing="ij")
    return np.stack([kx, ky, kz])


def _kept(k: NDArray[np.float64], side: int) -> NDArray[np.bool_]:
    """Return which coefficients are kept.

    A coefficient is kept if each of its wavenumbers is below two thirds of the largest wavenumber,
    and if it is not the mean.
    """
    import numpy as np

    kept: NDArray[np.bool_] = (3 * np.abs(k) < side).all(axis=0) & (k != 0).any(axis=0)
    return kept


def _project(a: Modes, k: NDArray[np.float64]) -> Modes:
    """Return the divergence-free part of a field."""
    square = (k**2).sum(axis=0)
    square[0, 0, 0] = 1
    result: Modes = a - k * ((k * a).sum(axis=0) / square)
    return result


def _nonlinear(u: Modes, k: NDArray[np.float64], side: int) -> Modes:
    import numpy as np

    fields = np.concatenate([u, 1j * np.cross(k, u, axis=0)])
    points = np.fft.irfftn(fields, s=(side,) * 3, axes=(1, 2, 3), norm="forward")
    product = np.cross(points[:3], points[3:], axis=0)
    modes = np.fft.rfftn(product, axes=(1, 2, 3), norm="forward")
    return _project(modes, k) * _kept(k, side)
