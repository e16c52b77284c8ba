"""What the tests of the command line, the study and the report share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

MACHINE = "4x-volta-nvlink2"


class Ran(NamedTuple):
    """What a command did."""

    code: int
    out: str
    err: str


Run = Callable[..., Ran]


def study_of(graph: Path, *words: object) -> list[object]:
    """The words of a small simulated study."""
    return ["study", "pagerank", "--data", graph, "--machine", MACHINE, *words]
