"""Finds the library that runs a workload of another package, or a workload of the user."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from interlace.base.errors import UserError


def library_name(workload: str, *, on_gpus: bool) -> str:
    """Return the name of the library that runs a workload.

    The library is next to the module that defines the workload.
    """
    return f"_{workload.replace('-', '_')}{'_on_gpus' if on_gpus else ''}.so"


def library_of(workload: str, source: str, module: Any) -> Any:
    """Return the library of a workload that the Python module `source` defines.

    The compiled module `module` loads the library: _core, or _cuda for GPUs. Raises UserError if
    the library does not exist.
    """
    on_gpus = module.__name__.endswith("_cuda")
    name = library_name(workload, on_gpus=on_gpus)
    package = sys.modules.get(source.rpartition(".")[0])
    file = Path(sys.modules[source].__file__ or ".")
    folders = [file.parent, *map(Path, getattr(package, "__path__", ()))]
    for folder in folders:
        if (folder / name).is_file():
            return module.WorkloadLibrary(str(folder / name))
    how = "cmake, where nvcc is" if on_gpus else "`interlace build-workload`, or with cmake"
    raise UserError(
        f"workload {workload} has no {name} next to {file}; build the library with {how}"
    )
