"""Finds libraries of other vendors for comparison, or says why a library cannot be used."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

from interlace.base.errors import UserError
from interlace.model.mechanism_table import NCCL, NVSHMEM
from interlace.model.run import core_errors


def package_files(package: str, name: str) -> list[str]:
    """Return the files named `name` in the `lib` folder of a Python package.

    The list is empty if the package is not installed.
    """
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return []
    folders = (spec.submodule_search_locations if spec is not None else None) or ()
    files = [Path(folder) / "lib" / name for folder in folders]
    return [str(file) for file in files if file.is_file()]


def nccl_version(cuda: Any) -> str:
    """Load NCCL into this process and return its version. Raise UserError if there is no NCCL."""
    with core_errors():
        return str(cuda.nccl_version(package_files("nvidia.nccl", "libnccl.so.2")))


def nvshmem_files() -> list[str]:
    """Return NVSHMEM's host library: the file in INTERLACE_NVSHMEM, or the file of the Python
    package.
    """
    named = os.environ.get("INTERLACE_NVSHMEM")
    return [named] if named else package_files("nvidia.nvshmem", "libnvshmem_host.so.3")


def why_not(mechanism: str, cuda: Any, gpus: int, by_processes: bool) -> str | None:
    """Return why a mechanism cannot run on this computer's GPUs, or None if it can.

    `by_processes` says whether the command can start a process for each GPU.
    """
    if mechanism == NCCL:
        try:
            nccl_version(cuda)
        except UserError as error:
            return str(error)
    if mechanism == NVSHMEM:
        files = nvshmem_files()
        if not files:
            return (
                "NVSHMEM is not installed for "
                f"{sys.executable} (the Python package nvidia-nvshmem-cu13)"
            )
        if not by_processes:
            return (
                "NVSHMEM needs a process for each GPU, but this command drives all GPUs from one "
                "process; use interlace study for NVSHMEM, or measure its puts with "
                "bench/nvshmem_exchange.cpp"
            )
        if gpus < 2:
            return "NVSHMEM connects several GPUs, and this computer has only one"
        from interlace.nodes import ranks

        return ranks.why_not(files)
    return None
