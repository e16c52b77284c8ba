"""What `interlace bench simulator` runs: the workloads of `reproduce finepack`, all small.

Kernels are those of `reproduce finepack`, but for ALS, which solves its equations as `study` does:
few of its instructions reach memory. Its gradient steps by lane would be the fastest row of all.
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
    """Each workload by its name, to be loaded where it runs."""
    return {name: partial(load, sizes) for name, load in {**LOADED, "als": _equations}.items()}
