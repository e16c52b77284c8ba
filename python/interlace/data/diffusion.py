"""Heat and Burgers' equation on a grid: where they start from, and a reference in float64.

A grid is an array [planes][rows][columns]; of two dimensions, planes have one row. Beyond its edges
it goes on as its outermost points are. The schemes are those of src/workload/diffusion.hpp.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from interlace.data import reading

EQUATIONS = ("heat", "burgers")
HALO = {"heat": 2, "burgers": 3}  # planes
MOST_POINTS = 2**31 - 1
_MODES = 8  # waves that the start is a sum of
_TINY = 1e-6  # of WENO's weights

Grid = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Start:
    """What a run starts from and its steps."""

    values: NDArray[np.float32]  # [planes][rows][columns]
    equation: str
    rate: float  # heat: D dt / dx^2; Burgers: dt / dx
    speed: float  # the largest |u|

    @property
    def plane(self) -> int:
        """Points of a plane."""
        return int(self.values[0].size)

    @property
    def halo(self) -> int:
        """Points that a part needs beside it."""
        return HALO[self.equation] * self.plane


def generate(side: int, dimensions: int, equation: str, seed: int = 1) -> Start:
    """A smooth start: a sum of 8 random waves of 1 to 4 lengths a side, of largest value about 1.

    Random numbers are the upper 24 bits of PCG64's output for the seed: for each wave its numbers
    of lengths along the dimensions, its phase, its height. The step is 0.3 / dimensions for heat, a
    third of what is stable, and 0.4 / (dimensions max |u|) for Burgers' equation.
    """
    what = f"a grid of {side} points a side in {dimensions} dimensions"
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
    """The grid after so many steps, in float64."""
    u = start.values.astype(np.float64)
    for _ in range(steps):
        a = u + change(start, u)
        b = 0.75 * u + 0.25 * (a + change(start, a))
        u = u / 3 + 2 / 3 * (b + change(start, b))
    return u


def change(start: Start, u: Grid) -> Grid:
    """What a step of Euler's method adds to u."""
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
    """Through all faces, first the one before the first point; `wide` has 3 more a side."""
    right = (wide**2 / 2 + speed * wide) / 2
    left = (wide**2 / 2 - speed * wide) / 2
    faces = len(wide) - 5
    forward = [right[k : k + faces] for k in range(5)]
    backward = [left[5 - k : 5 - k + faces] for k in range(5)]
    return _weno(*forward) + _weno(*backward)


def _weno(a: Grid, b: Grid, c: Grid, d: Grid, e: Grid) -> Grid:
    """The value between c and d (Jiang and Shu, 1996)."""
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
