"""Code for all workloads whose kernels update a partitioned array."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from interlace.base.errors import UserError
from interlace.model.run import Case
from interlace.workloads.base import Workload
from interlace.workloads.options import Inputs, Option, Seed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DEFAULT_SEED = 1
DEFAULT_ITERATIONS = 10
DEFAULT_SKEW = 1.0
MOST_ELEMENTS = 1 << 26


class UpdateWorkload(Workload):
    """A workload that updates a partitioned array. A GPU holds only the elements that it owns."""

    only_updates = True

    def held(self, case: Case, device: int) -> slice:
        cut = self.boundaries(case.gpus)
        return slice(cut[device], cut[device + 1])

    # Results are exact: they are integers, or numbers whose sums are exact in any order.
    def allowed_error(self) -> float:
        return 0.0


@dataclass(frozen=True, kw_only=True)
class DealtInputs(Inputs):
    """The options of workloads that generate items and divide them among the GPUs."""

    seed: Seed = None
    skew: Annotated[
        float | None,
        Option(
            "S",
            "exponent of the Zipf law that makes some elements more frequent in updates; 0: all "
            "elements are equally frequent",
            DEFAULT_SKEW,
        ),
    ] = None

    @property
    def seed_or_default(self) -> int:
        """Return the seed of the generated items."""
        return DEFAULT_SEED if self.seed is None else self.seed


def check_items(
    inputs: DealtInputs, option: str, items: int, exact: int, *, verb: str, noun: str, beyond: str
) -> None:
    """Refuse too many items. Results are exact for up to `exact` items in all iterations."""
    if items < 1:
        raise UserError(f"{option} {items}: give a number of at least 1")
    times = inputs.iterations or DEFAULT_ITERATIONS
    if items * times > exact:
        raise UserError(
            f"{option} {items}: {times} iterations {verb} more than {exact} {noun}, {beyond}; "
            f"give fewer {noun} or iterations"
        )


def skewed(count: int, elements: int, inputs: DealtInputs) -> NDArray[np.uint32]:
    """Draw random elements by a Zipf law. Chance also decides which elements are frequent."""
    import numpy as np

    skew = DEFAULT_SKEW if inputs.skew is None else inputs.skew
    random = np.random.default_rng(inputs.seed_or_default)
    if skew == 0:
        return random.integers(0, elements, count, dtype=np.uint32)
    weights = np.arange(1, elements + 1, dtype=np.float64) ** -skew
    limits = np.cumsum(weights)
    ranks = np.searchsorted(limits, random.random(count) * limits[-1])
    places = random.permutation(elements)
    chosen: NDArray[np.uint32] = places[np.minimum(ranks, elements - 1)].astype(np.uint32)
    return chosen


class DealtWorkload(UpdateWorkload):
    """A workload that divides items among the GPUs. Each item updates elements of a table."""

    def __init__(self, data_name: str, elements: int, inputs: DealtInputs) -> None:
        super().__init__(data_name, f"generated, seed {inputs.seed_or_default}", inputs)
        self.elements = elements
        self.skew = DEFAULT_SKEW if inputs.skew is None else inputs.skew

    @classmethod
    def check_data(cls, inputs: Any) -> None:
        inputs.refuse(("tolerance",), f"is not for {cls.name}; give --iterations")
        if inputs.seed is not None and inputs.seed < 0:
            raise UserError(f"--seed {inputs.seed}: give a number of at least 0")
        if inputs.size is not None and not 1 <= inputs.size <= MOST_ELEMENTS:
            raise UserError(f"--size {inputs.size}: give a number from 1 to {MOST_ELEMENTS}")
        if inputs.skew is not None and not 0 <= inputs.skew <= 4:
            raise UserError(f"--skew {inputs.skew:g}: give a number from 0 to 4")
