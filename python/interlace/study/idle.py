"""Finds GPUs that wait for other GPUs in a simulated run."""

from __future__ import annotations

from collections.abc import Sequence

from interlace.model.mechanisms import BOUND
from interlace.model.results import StudyRow

IDLE_SHARE = 0.2  # the warning is for a GPU that waits for more than this fraction of the time


def warnings(rows: Sequence[StudyRow]) -> list[str]:
    """Return a warning for each number of GPUs if one of the GPUs waits long for other GPUs."""
    worst: dict[int, tuple[float, int, StudyRow]] = {}
    for row in rows:
        inside = row.inside
        if inside is None or row.gpus == 1 or row.mechanism == BOUND:
            continue
        for index, gpu in enumerate(inside.gpus):
            share = gpu.idle_while_others_compute
            if share > IDLE_SHARE and share > worst.get(row.gpus, (0.0, 0, row))[0]:
                worst[row.gpus] = (share, index, row)
    return [
        f"Warning: on {gpus} GPUs, gpu{index} is idle for {100 * share:.0f} % of the time while "
        f"others compute ({row.short_label}). Above {100 * IDLE_SHARE:.0f} %, the work is divided "
        "unevenly, or launches and exchanges take longer than the work."
        for gpus, (share, index, row) in sorted(worst.items())
    ]
