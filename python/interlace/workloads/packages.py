"""Finds workloads of other packages.

A package names its workloads in the entry point group `interlace.workloads`. For each workload, the
package's pyproject.toml has a line that names the class:

    [project.entry-points."interlace.workloads"]
    heat-rod = "heat_rod.workload:HeatRod"

A package that cannot be used does not stop a command, unless the command names a workload of the
package. In that case, the command reports the reason.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points

from interlace.base.errors import UserError
from interlace.workloads.base import Workload
from interlace.workloads.options import declared, option_of

GROUP = "interlace.workloads"


def installed_workloads(
    shipped: Mapping[str, type[Workload]],
) -> tuple[dict[str, type[Workload]], dict[str, str]]:
    """Return the usable workloads of other packages, and why their other workloads are unusable.

    The keys of both results are the names of workloads, sorted.
    """
    found: dict[str, type[Workload]] = {}
    unusable: dict[str, str] = {}
    for entry in sorted(entry_points(group=GROUP)):
        package = entry.dist.name if entry.dist is not None else entry.value
        try:
            workload = _load(entry, {**shipped, **found})
        except Exception as error:
            why = str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}"
            unusable[entry.name] = (
                f"the package {package} has this workload, but the workload cannot be used: {why}"
            )
        else:
            found[entry.name] = workload
    return found, {name: why for name, why in unusable.items() if name not in {**shipped, **found}}


def _load(entry: EntryPoint, known: Mapping[str, type[Workload]]) -> type[Workload]:
    workload = entry.load()
    if not (isinstance(workload, type) and issubclass(workload, Workload)):
        raise UserError(f"{entry.value} is not a subclass of interlace.workloads.Workload")
    if inspect.isabstract(workload):
        lacking = ", ".join(sorted(workload.__abstractmethods__))
        raise UserError(f"{entry.value} lacks {lacking}")
    if workload.name != entry.name:
        raise UserError(f"{entry.value} has the name {workload.name!r}, not {entry.name!r}")
    if entry.name in known:
        raise UserError(f"there is another workload of this name; rename {entry.value}")
    kinds = {
        name: one.kind for other in known.values() for name, one in declared(other.takes).items()
    }
    for name, one in declared(workload.takes).items():
        if kinds.get(name, one.kind) is not one.kind:
            raise UserError(
                f"{option_of(name)} is a {kinds[name].__name__} elsewhere, and a "
                f"{one.kind.__name__} in {entry.value}; rename the option"
            )
    return workload
