"""Programs that see several GPUs as one: their data, and references of their results, in float64
or in whole numbers.

DualOpt (PACT 2022) gives no sizes. There are two sets, which were written down before any of the
paper's figures was compared, and stay: MGPUSim's parameters, and four times those. Sizes of fir,
mt, mm, atax and spmv are from published runs of MGPUSim. For the others MGPUSim has defaults for a
quick look, of 16 nodes or 64 rows; everything but the sizes comes from there (edges of a vertex,
density, iterations, features, clusters, the mask), and sizes are our own: such that a program makes
some hundred thousand accesses, as those five do. Four times is each extent: rows and columns of a
matrix, of a grid and of an image, samples, keys, bytes, points, vertices. Data are seeded.

Every module of this package that has a NAME is a program, by itself: EXTENT is its size in the
smaller set, and `make` generates its data for an extent.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from interlace.base.errors import UserError
from interlace.model.run import RunFailure, core_errors
from interlace.workloads.unified.program import Problem

__all__ = ["PROGRAMS", "SCALES", "SEED", "SIZES", "Problem", "measure", "problem", "simulate"]

SCALES = (1, 4)
SEED = 1


def _programs() -> list[ModuleType]:
    """By their places, then by their names."""
    modules = [
        importlib.import_module(f"{__name__}.{it.name}") for it in pkgutil.iter_modules(__path__)
    ]
    programs = [module for module in modules if hasattr(module, "NAME")]
    return sorted(programs, key=lambda program: (program.PLACE, program.NAME))


PROGRAMS: dict[str, Callable[[int, np.random.Generator], Problem]] = {}
SIZES: dict[str, int] = {}  # of the smaller set
for _program in _programs():
    PROGRAMS[_program.NAME] = _program.make
    SIZES[_program.NAME] = _program.EXTENT


def simulate(
    core: Any, machine: Any, it: Problem, gpus: int, mechanism: str, *, pages: str = "",
    blocks: str = "contiguous",
) -> dict[str, Any]:  # fmt: skip
    """One verified run: what the compiled module tells of it, with `max_error` for its values.

    Raises RunFailure where a value differs from the reference by more than rounding explains.
    """
    run = f"{it.name} on {gpus} GPUs"
    with core_errors(run):
        found: dict[str, Any] = getattr(core, it.function)(
            "sim", machine, gpus, pages, blocks, mechanism, *it.arguments
        )
    return _verified(found, it, run)


def measure(
    cuda: Any, it: Problem, gpus: int, *, pages: str = "", blocks: str = "contiguous",
    warmup: int, repeats: int,
) -> dict[str, Any]:  # fmt: skip
    """Run on real GPUs and verify the last run. Returns `time_s` of each run, and `max_error`.

    Raises RunFailure as `simulate` does.
    """
    run = f"{it.name} on {gpus} GPUs"
    with core_errors(run):
        found: dict[str, Any] = getattr(cuda, it.function)(
            gpus, pages, blocks, warmup, repeats, *it.arguments
        )
    return _verified(found, it, run)


def _verified(found: dict[str, Any], it: Problem, run: str) -> dict[str, Any]:
    values = found.pop("values")
    wrong = it.wrong(values)
    if wrong:
        raise RunFailure(
            f"{run}: {wrong} of {it.expected.size} elements are not those of the reference"
        )
    found["max_error"] = it.error(values)
    return found


def problem(name: str, scale: int) -> Problem:
    """A program with its data; raises UserError for a size that there is not."""
    if scale not in SCALES:
        raise UserError(f"--times {scale}: there are 1 and 4")
    return PROGRAMS[name](SIZES[name] * scale, np.random.default_rng(SEED))
