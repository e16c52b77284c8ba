"""What the workloads on grids share, whose planes are cut over the GPUs."""

from __future__ import annotations

from collections.abc import Sequence


def cut_planes(planes: int, values: int, gpus: int) -> Sequence[int]:
    """Boundaries of equal numbers of planes, of so many values each."""
    return [planes * gpu // gpus * values for gpu in range(gpus + 1)]


def with_halo(cut: Sequence[int], device: int, halo: int) -> slice:
    """A device's part and so many values beside it; nothing for a device without a part."""
    if cut[device] == cut[device + 1]:
        return slice(0, 0)
    return slice(max(0, cut[device] - halo), min(cut[-1], cut[device + 1] + halo))
