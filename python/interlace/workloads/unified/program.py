"""Code for all programs that see several GPUs as one."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
ROUNDING = 2.0**-24  # half a unit in the last place of float32


class Problem(NamedTuple):
    """A program with its data, its compiled function and its expected result."""

    name: str
    sizes: str  # the sizes, as text for messages and results
    function: str  # the name of the function in the compiled module
    arguments: tuple[Any, ...]  # of the program alone; they follow the arguments of all programs
    expected: npt.NDArray[np.float64]
    bound: npt.NDArray[np.float64]  # the largest rounding error of each element

    def error(self, values: Floats) -> float:
        """Return the largest difference from the reference, divided by the reference's largest
        magnitude.
        """
        return float(np.max(np.abs(values - self.expected)) / np.max(np.abs(self.expected)))

    def wrong(self, values: Floats) -> int:
        """Return how many elements differ from the reference by more than rounding explains."""
        if values.shape != self.expected.shape:
            return max(values.size, self.expected.size)
        return int(np.count_nonzero(~(np.abs(values - self.expected) <= self.bound)))


def random_values(generator: np.random.Generator, *shape: int) -> Floats:
    """Return random numbers that are uniform from -1 to 1."""
    return generator.uniform(-1, 1, shape).astype(np.float32)


def wide(array: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return the values in float64."""
    return array.astype(np.float64)
