"""The programs that see several GPUs as one, with their data and the references of their results.

The references use float64 or whole numbers.

DualOpt (PACT 2022) gives no sizes. Each program here has two sizes: the parameters of MGPUSim, and
four times these parameters. We chose the sizes before we compared any figure with the paper, and
the sizes do not change. fir, mt, mm, atax and spmv have the sizes of published runs of MGPUSim. For
all other programs, MGPUSim has only defaults for a quick look, such as 16 nodes or 64 rows. For
each of these programs, we chose a size with some hundred thousand accesses, as in the five named
programs. All other parameters have MGPUSim's values: edges of a vertex, density, iterations,
features, clusters, the mask. "Four times" applies to each extent. An extent is a number of rows and
columns, samples, keys, bytes, points or vertices. The data come from a seed.

A module of this package that has a NAME is a program. Its EXTENT is its smaller size. Its `make`
generates the data for an extent.
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
    """Return the programs, ordered by their places and then by their names."""
    modules = [
        importlib.import_module(f"{__name__}.{it.name}") for it in pkgutil.iter_modules(__path__)
    ]
    programs = [module for module in modules if hasattr(module, "NAME")]
    return sorted(programs, key=lambda program: (program.PLACE, program.NAME))


PROGRAMS: dict[str, Callable[[int, np.random.Generator], Problem]] = {}
SIZES: dict[str, int] = {}  # the smaller size of each program
for _program in _programs():
    PROGRAMS[_program.NAME] = _program.make
    SIZES[_program.NAME] = _program.EXTENT


def simulate(
    core: Any, machine: Any, it: Problem, gpus: int, mechanism: str, *, pages: str = "",
    blocks: str = "contiguous",
) -> dict[str, Any]:  # fmt: skip
    """Simulate a program once, and verify the result.

    Return the result of the compiled module, with `max_error` as the largest error of its values.
    Raise RunFailure if a value differs from the reference by more than rounding explains.
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
    """Run on real GPUs, and verify the last run.

    The result has `time_s` of each run, and `max_error`. Raises RunFailure like `simulate`.
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
        raise RunFailure(f"{run}: {wrong} of {it.expected.size} elements differ from the reference")
    found["max_error"] = it.error(values)
    return found


def problem(name: str, scale: int) -> Problem:
    """Return a program with its data. Raises UserError if `scale` is not 1 or 4."""
    if scale not in SCALES:
        raise UserError(f"--times {scale}: give 1 or 4")
    return PROGRAMS[name](SIZES[name] * scale, np.random.default_rng(SEED))
