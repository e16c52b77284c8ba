"""The workloads of studies: their inputs, their runs on a node, and their references.

If a module of this package defines a named subclass of Workload, this subclass is a workload. Other
packages name their workloads in the entry point group `interlace.workloads`.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from functools import cached_property
from typing import Any

from interlace.base.errors import UserError, unknown
from interlace.workloads.base import Reference, Workload
from interlace.workloads.options import Inputs, Taken, option_of, options
from interlace.workloads.packages import installed_workloads

__all__ = [
    "SHIPPED", "WORKLOADS", "Inputs", "Reference", "Workload", "check_workload", "inputs_of",
    "options_of_all",
]  # fmt: skip


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


def _in_order(found: Iterable[type[Workload]]) -> dict[str, type[Workload]]:
    placed = sorted(found, key=lambda workload: (workload.place, workload.name))
    return {workload.name: workload for workload in placed}


SHIPPED: dict[str, type[Workload]] = _in_order(_workloads())


class _AllWorkloads(MutableMapping[str, type[Workload]]):
    """All workloads by name, including the workloads of other packages.

    Other packages are loaded only when needed, because their modules import this package.
    """

    @cached_property
    def _found(self) -> tuple[dict[str, type[Workload]], dict[str, str]]:
        others, unusable = installed_workloads(SHIPPED)
        return _in_order([*SHIPPED.values(), *others.values()]), unusable

    @property
    def unusable(self) -> dict[str, str]:
        """Return, by name, why workloads of other packages cannot be used."""
        return self._found[1]

    def __getitem__(self, name: str) -> type[Workload]:
        return self._found[0][name]

    def __setitem__(self, name: str, workload: type[Workload]) -> None:
        self._found[0][name] = workload

    def __delitem__(self, name: str) -> None:
        del self._found[0][name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found[0])

    def __len__(self) -> int:
        return len(self._found[0])


WORKLOADS = _AllWorkloads()


def check_workload(name: str) -> None:
    """Raise UserError if there is no workload of this name, or if the workload cannot be used."""
    if name in WORKLOADS:
        return
    if name in WORKLOADS.unusable:
        raise UserError(f"workload {name}: {WORKLOADS.unusable[name]}")
    raise unknown("workload", name, tuple(WORKLOADS))


def options_of_all() -> dict[str, Taken]:
    """Return every option that any workload takes, by field name."""
    return options({name: workload.takes for name, workload in WORKLOADS.items()})


def inputs_of(workload: str, given: Mapping[str, Any]) -> Inputs:
    """Return the inputs of a workload from the values of its options by field name.

    Raises UserError for options that this workload does not take, and for invalid combinations.
    """
    chosen = WORKLOADS[workload]
    taken = options_of_all()
    for name in given:
        takers = list(taken[name].by)
        if workload not in takers:
            users = " and ".join(filter(None, (", ".join(takers[:-1]), takers[-1])))
            raise UserError(f"{option_of(name)} is for {users}; leave it out with {workload}")
    inputs = chosen.takes(**given)
    chosen.check(inputs)
    return inputs
