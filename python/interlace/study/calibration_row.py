"""A row of a calibration: its name, its measurement and its simulation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from interlace.machine.schema import Machine
from interlace.study.calibration_gpus import Gpus

FITTED = "one pair, one stream"
ONE_PROPERTY = "one property of a GPU"
FITTED_TO_ALL = "several pairs, fitted"
STATED = "stated by the machine file"
PREDICTED = "predicted"

# A function that simulates a row. The arguments are the compiled module, the machine as a C++
# struct, and the machine as a Python object.
Simulation = Callable[[Any, Any, Machine], float]
Measurement = Callable[[Gpus], float]


class Definition(NamedTuple):
    """A row of a calibration: how it is measured and how it is simulated."""

    key: str  # the name of the row in a file of measured rows
    family: str
    unit: str
    group: str
    gpus: int  # the number of GPUs that the row needs
    simulate: Simulation
    measure: Measurement
