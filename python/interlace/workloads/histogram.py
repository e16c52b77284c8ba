"""A histogram of keys that follow a Zipf law."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Self

from interlace.workloads.base import Reference
from interlace.workloads.options import Option, Size
from interlace.workloads.updates import DealtInputs, DealtWorkload, check_items, skewed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DEFAULT_BINS = 1 << 20
DEFAULT_KEYS = 1 << 20
MOST_COUNTED = 1 << 24  # a float holds all counts up to this number exactly


@dataclass(frozen=True, kw_only=True)
class HistogramInputs(DealtInputs):
    """The options of the bins and of the keys."""

    size: Annotated[Size, Option("N", "bins", DEFAULT_BINS)] = None
    keys: Annotated[int | None, Option("N", "keys that each iteration counts", DEFAULT_KEYS)] = None


class Histogram(DealtWorkload):
    """A histogram: each iteration counts all keys again."""

    name = "histogram"
    place = 51
    summary = "a histogram of skewed keys; --size BINS, --keys N, --skew S"
    takes = HistogramInputs
    values_are = "counts"
    element = "bin"

    def __init__(self, keys: NDArray[np.uint32], bins: int, inputs: HistogramInputs) -> None:
        super().__init__(f"bins-{bins}", bins, inputs)
        self.keys = keys

    @classmethod
    def check_data(cls, inputs: HistogramInputs) -> None:
        super().check_data(inputs)
        keys = DEFAULT_KEYS if inputs.keys is None else inputs.keys
        check_items(
            inputs, "--keys", keys, MOST_COUNTED,
            verb="count", noun="keys", beyond="more than results can hold",
        )  # fmt: skip

    @classmethod
    def load(cls, inputs: HistogramInputs, cuda: Any | None) -> Self:  # noqa: ARG003
        bins = DEFAULT_BINS if inputs.size is None else inputs.size
        keys = DEFAULT_KEYS if inputs.keys is None else inputs.keys
        return cls(skewed(keys, bins, inputs), bins, inputs)

    @property
    def size(self) -> str:
        return f"{self.elements:,} bins, {self.keys.size:,} keys, Zipf exponent {self.skew:g}"

    def parameters(self) -> dict[str, Any]:
        return {"bins": self.elements, "keys": self.keys.size, "skew": self.skew}

    def boundaries(self, gpus: int) -> Sequence[int]:
        return [self.elements * gpu // gpus for gpu in range(gpus + 1)]

    def arguments(self) -> tuple[Any, ...]:
        return self.elements, self.keys

    def reference(self, iterations: int) -> Reference:
        import numpy as np

        counts = iterations * np.bincount(self.keys, minlength=self.elements)
        return Reference(counts.astype(np.float64), np.ones(self.elements))
