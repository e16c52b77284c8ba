"""Code that workloads on grids share. Each grid is cut into slabs of planes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from interlace.base.errors import UserError
from interlace.model.mechanisms import ELEMENT_BYTES, RANGE_COLLECTIVES
from interlace.model.run import Case
from interlace.workloads.base import Workload
from interlace.workloads.options import Inputs

if TYPE_CHECKING:
    from numpy.typing import NDArray


def cut_planes(planes: int, values: int, gpus: int) -> Sequence[int]:
    """Return the boundaries of parts with nearly equal numbers of planes.

    `values` is the number of values in a plane.
    """
    return [planes * gpu // gpus * values for gpu in range(gpus + 1)]


class Slabs(Workload):
    """A workload with a fixed number of steps on a generated grid.

    A device holds its own planes and a halo of its neighbours' planes.
    """

    def __init__(
        self, data_name: str, source: str, inputs: Inputs, grid: NDArray[Any], halo: int
    ) -> None:
        super().__init__(data_name, source, inputs)
        self.planes, self.plane = len(grid), int(grid[0].size)
        self.halo = halo  # the number of values that a part needs beyond each of its two sides

    @classmethod
    def check_data(cls, inputs: Any) -> None:
        if inputs.seed is not None and inputs.seed < 0:
            raise UserError(f"--seed {inputs.seed}: give a number of at least 0")
        reason = f"is not for {cls.name}, which makes a fixed number of steps; give --iterations"
        inputs.refuse(("tolerance",), reason)

    def boundaries(self, gpus: int) -> Sequence[int]:
        return cut_planes(self.planes, self.plane, gpus)

    def largest_part(self, gpus: int) -> int:
        # A part sends its two halos to different GPUs.
        return min(super().largest_part(gpus), ELEMENT_BYTES * self.halo)

    @property
    def collectives(self) -> tuple[str, ...]:
        return RANGE_COLLECTIVES

    def held(self, case: Case, device: int) -> slice:
        cut = self.boundaries(case.gpus)
        if cut[device] == cut[device + 1]:
            return slice(0, 0)
        return slice(max(0, cut[device] - self.halo), min(cut[-1], cut[device + 1] + self.halo))
