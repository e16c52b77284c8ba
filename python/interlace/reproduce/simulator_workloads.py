"""The workloads of `interlace bench simulator`, which are also in `interlace reproduce finepack`.

The inputs are small. Each workload except ALS has its kernel of `reproduce finepack`. Here ALS
solves its equations, as it does in `study` by default; this kernel rarely accesses memory. The
gradient steps of `reproduce finepack`, with a lane for each row, would be by far the fastest
workload.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from interlace.reproduce.finepack import LOADED
from interlace.reproduce.finepack_inputs import (
    ITERATIONS,
    QUICK_FOUR_GPUS,
    RANK,
    SEED,
    SUBSCRIBE,
    Sizes,
)
from interlace.workloads import Workload
from interlace.workloads.als import Als, AlsInputs


def _equations(sizes: Sizes) -> Workload:
    inputs = AlsInputs(
        seed=SEED, iterations=ITERATIONS, subscribe=SUBSCRIBE, rgg=sizes.als_vertices, rank=RANK
    )
    return Als.load(inputs, None)


def workloads(sizes: Sizes = QUICK_FOUR_GPUS) -> dict[str, Callable[[], Workload]]:
    """Return a dict that maps the name of each workload to a function that loads the workload.

    The process that runs a workload calls the function.
    """
    return {name: partial(load, sizes) for name, load in {**LOADED, "als": _equations}.items()}
