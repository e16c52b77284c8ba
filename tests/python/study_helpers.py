"""Code that the tests of the command line, of studies and of reports share."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from interlace.workloads import WORKLOADS

MACHINE = "4x-volta-nvlink2"
# The workloads with regions. All other workloads update partitioned arrays.
REGION_WORKLOADS = sorted(name for name, it in WORKLOADS.items() if not it.only_updates)


class Ran(NamedTuple):
    """The exit code and output of a command."""

    code: int
    out: str
    err: str


Run = Callable[..., Ran]


def study_of(graph: Path, *words: object) -> list[object]:
    """Return the command line of a small simulated study."""
    return ["study", "pagerank", "--data", graph, "--machine", MACHINE, *words]


def figures_of(text: str) -> list[str]:
    """Return the keys of a machine file that hold a number or select a behaviour."""
    document = tomllib.loads(text)
    del document["format"]
    found = []

    def walk(path: str, value: Any) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                walk(f"{path}.{key}" if path else key, inner)
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            for index, inner in enumerate(value):
                walk(f"{path}.{index}", inner)
        elif isinstance(value, int | float) or path.endswith("write_policy"):
            found.append(path)

    walk("", document)
    return found
