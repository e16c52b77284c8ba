"""The applications of studies: their inputs, their runs on a node, and their references.

Every module of this package with a named subclass of Workload is a workload.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator, Mapping
from typing import Any

from interlace.base.errors import UserError
from interlace.workloads.base import Reference, Workload
from interlace.workloads.options import Inputs, Taken, option_of, options

__all__ = ["WORKLOADS", "Inputs", "Reference", "Workload", "inputs_of", "options_of_all"]


def _workloads() -> Iterator[type[Workload]]:
    for found in pkgutil.iter_modules(__path__):
        if found.ispkg or found.name.startswith("_"):
            continue
        module = importlib.import_module(f"{__name__}.{found.name}")
        for it in vars(module).values():
            if (
                isinstance(it, type)
                and issubclass(it, Workload)
                and it.__module__ == module.__name__
                and not inspect.isabstract(it)
            ):
                yield it


WORKLOADS: dict[str, type[Workload]] = {
    workload.name: workload
    for workload in sorted(_workloads(), key=lambda workload: (workload.place, workload.name))
}


def options_of_all() -> dict[str, Taken]:
    """Every option that a workload takes, by its field's name."""
    return options({name: workload.takes for name, workload in WORKLOADS.items()})


def inputs_of(workload: str, given: Mapping[str, Any]) -> Inputs:
    """The inputs of a workload, from options by their fields' names.

    Raises UserError for options that this workload does not take, and for invalid combinations.
    """
    chosen = WORKLOADS[workload]
    taken = options_of_all()
    for name in given:
        takers = taken[name].by
        if workload not in takers:
            raise UserError(
                f"{option_of(name)} is for {' and '.join(takers)}; leave it out with {workload}"
            )
    inputs = chosen.takes(**given)
    chosen.check(inputs)
    return inputs
