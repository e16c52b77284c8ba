"""Statistics."""

from __future__ import annotations

import math
from collections.abc import Iterable


def geometric_mean(values: Iterable[float]) -> float | None:
    """The geometric mean of positive numbers. None if there are no numbers."""
    logarithms = [math.log(value) for value in values]
    return math.exp(sum(logarithms) / len(logarithms)) if logarithms else None
