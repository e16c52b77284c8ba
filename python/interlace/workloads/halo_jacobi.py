"""Jacobi for Laplace's equation on a grid, float32. The GPUs exchange halos in a ring."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, Self

from interlace.base.errors import UserError
from interlace.model.mechanisms import ELEMENT_BYTES, RANGE_COLLECTIVES
from interlace.model.run import Case, Counted
from interlace.workloads.base import Reference, Workload
from interlace.workloads.options import Inputs, Option
from interlace.workloads.slabs import cut_planes

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DEFAULT_ROWS = 32
DEFAULT_COLUMNS = 1 << 13
MOST_ROWS = 1 << 20
MOST_COLUMNS = 1 << 30

FLOAT32_ROUNDING = 2.0**-24
# The number of roundings of a point in an iteration. Only the sums of a point are rounded, because
# the factor 1/4 is exact.
ROUNDINGS = 3

# The bytes of memory per point. While the reference is computed, memory holds three grids in
# float64. Afterwards memory holds one grid, the results of all GPUs, the indices of a GPU's points,
# and the differences.
REFERENCE_BYTES = 36
# The reference computes this many columns of all rows at a time.
CACHED_COLUMNS = 1 << 14
# Narrow grids have a multiple of this many columns. Their rows are then aligned to sectors, so the
# counts are proportional to the number of columns.
COUNTED_COLUMNS = 2048


@dataclass(frozen=True, kw_only=True)
class HaloJacobiInputs(Inputs):
    """The options of the grid."""

    rows: Annotated[
        int | None, Option("N", "rows of the grid, which the GPUs share", DEFAULT_ROWS)
    ] = None
    columns: Annotated[
        int | None,
        Option("N", "points of a row, 4 bytes each; a row is a message", DEFAULT_COLUMNS),
    ] = None


class HaloJacobi(Workload):
    """Jacobi for Laplace's equation on a grid, float32. The GPUs exchange halos in a ring."""

    name = "halo-jacobi"
    place = 9
    summary = "Jacobi on a grid, halos round a ring of GPUs; --rows N, --columns N"
    takes = HaloJacobiInputs
    values_are = "grids"
    element = "point"
    shows_phases = True

    def __init__(self, rows: int, columns: int, inputs: HaloJacobiInputs) -> None:
        source = "generated, values that differ from their neighbours'"
        super().__init__(f"laplace-{rows}x{columns}", source, inputs)
        self.rows, self.columns = rows, columns

    @classmethod
    def check_data(cls, inputs: HaloJacobiInputs) -> None:
        rows, columns = cls._asked(inputs)
        if not 1 <= rows <= MOST_ROWS:
            raise UserError(f"--rows {rows}: give a number from 1 to {MOST_ROWS}")
        if not 3 <= columns <= MOST_COLUMNS:
            raise UserError(f"--columns {columns}: give a number from 3 to {MOST_COLUMNS}")

    @staticmethod
    def _asked(inputs: HaloJacobiInputs) -> tuple[int, int]:
        rows = DEFAULT_ROWS if inputs.rows is None else inputs.rows
        return rows, DEFAULT_COLUMNS if inputs.columns is None else inputs.columns

    @classmethod
    def load(cls, inputs: HaloJacobiInputs, cuda: Any | None) -> Self:  # noqa: ARG003
        from interlace.data import reading

        rows, columns = cls._asked(inputs)
        needed = REFERENCE_BYTES * rows * columns
        reading.require_memory(needed, f"a grid of {rows} x {columns} points", "grid")
        return cls(rows, columns, inputs)

    @property
    def size(self) -> str:
        return f"{self.rows} x {self.columns} points, halo"

    def parameters(self) -> dict[str, Any]:
        return {
            "points": self.rows * self.columns,
            "rows": self.rows,
            "columns": self.columns,
            "message_bytes": ELEMENT_BYTES * self.columns,
        }

    def boundaries(self, gpus: int) -> Sequence[int]:
        return cut_planes(self.rows, self.columns, gpus)

    def largest_part(self, gpus: int) -> int:
        # A part sends its first row and its last row to different GPUs.
        return min(super().largest_part(gpus), ELEMENT_BYTES * self.columns)

    @property
    def collectives(self) -> tuple[str, ...]:
        return RANGE_COLLECTIVES

    def arguments(self) -> tuple[Any, ...]:
        return self.rows, self.columns

    def held(self, case: Case, device: int) -> slice | NDArray[np.intp]:
        import numpy as np

        cut = self.boundaries(case.gpus)
        first, end = cut[device] // self.columns, cut[device + 1] // self.columns
        if first == end:
            return slice(0, 0)
        rows = sorted({row % self.rows for row in range(first - 1, end + 1)})
        if rows[-1] - rows[0] + 1 == len(rows):
            return slice(rows[0] * self.columns, (rows[-1] + 1) * self.columns)
        of_a_row = np.arange(self.columns)
        return np.concatenate([row * self.columns + of_a_row for row in rows])

    def count(self, core: Any, case: Case, iterations: int, cache_bytes: int = 0) -> Counted:
        # Counting a large grid on the host is slow. If the grid is larger than the L2, narrow grids
        # are counted instead, and their counts are scaled up.
        least = min(end - begin for begin, end in pairwise(self.boundaries(case.gpus)))
        turns = self.columns // COUNTED_COLUMNS
        if turns <= 2 or 2 * ELEMENT_BYTES * least <= cache_bytes:
            return super().count(core, case, iterations, cache_bytes)

        def narrow(turns: int) -> Counted:
            grid = copy.copy(self)
            grid.columns = turns * COUNTED_COLUMNS + self.columns % COUNTED_COLUMNS
            return Workload.count(grid, core, case, iterations)

        return narrow(2).after(narrow(1), turns - 2)

    def reference(self, iterations: int) -> Reference:
        import numpy as np

        values = solve(start(self.rows, self.columns), iterations).ravel()
        return Reference(values, np.broadcast_to(np.float64(1), values.shape))

    # Values are between 0 and 1, so errors are relative to 1. The mean of four values does not
    # enlarge their errors. The roundings of an iteration's sums are independent and partly cancel:
    # the sum of n roundings is about as large as sqrt(n) roundings. Four times this bound is above
    # the largest error of very many points. A lost or late row causes a far larger error: the row
    # is wrong by its change in an iteration.
    def allowed_error(self) -> float:
        return 4 * FLOAT32_ROUNDING * math.sqrt(ROUNDINGS * self.iterations)


def start(rows: int, columns: int) -> NDArray[np.float64]:
    """Return the initial values as [row][column], by the rule of src/workload/halo_jacobi.hpp."""
    import numpy as np

    across = np.arange(columns, dtype=np.int64) * 104729
    values = np.empty((rows, columns))
    for row, own in enumerate(values):
        np.divide((across + row * 7919) % 1021, 1024, out=own)
    return values


def solve(values: NDArray[np.float64], iterations: int) -> NDArray[np.float64]:
    """Return the values after some iterations. Rows are periodic, and outer columns are fixed."""
    import numpy as np

    now, after = values.copy(), values.copy()  # both grids keep their outer columns
    for _ in range(iterations):
        for begin in range(1, values.shape[1] - 1, CACHED_COLUMNS):
            here = slice(begin, min(begin + CACHED_COLUMNS, values.shape[1] - 1))
            for row, own in enumerate(now):
                made = after[row, here]
                np.add(
                    own[here.start - 1 : here.stop - 1], own[here.start + 1 : here.stop + 1], made
                )
                made += now[row - 1, here]
                made += now[(row + 1) % len(now), here]
                made /= 4
        now, after = after, now
    return now
