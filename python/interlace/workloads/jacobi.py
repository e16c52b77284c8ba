"""The Jacobi iteration on a banded, diagonally dominant linear system, float32.

A system is A x = b in float32. The matrix A is stored by diagonals. Every matrix is strictly
diagonally dominant and has a positive diagonal, so that the Jacobi iteration converges.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Self

from interlace.base.errors import UserError
from interlace.model.mechanisms import ELEMENT_BYTES, RANGE_COLLECTIVES
from interlace.model.run import Case
from interlace.workloads.base import Reference, Workload
from interlace.workloads.options import Data, Inputs, Option, Seed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from scipy.sparse import dia_matrix

DEFAULT_ROWS = 1 << 15
DEFAULT_HALF_BANDWIDTH = 8

FLOAT32_ROUNDING = 2.0**-24


@dataclass(frozen=True, kw_only=True)
class JacobiInputs(Inputs):
    """The options of the linear system."""

    data: Annotated[Data, Option("FILE", "a banded matrix, .mtx, also .gz")] = None
    seed: Seed = None
    rows: Annotated[int | None, Option("N", "unknowns to generate", DEFAULT_ROWS)] = None
    half_bandwidth: Annotated[
        int | None,
        Option(
            "K", "generate K diagonals on each side of the main diagonal", DEFAULT_HALF_BANDWIDTH
        ),
    ] = None
    halo: Annotated[bool | None, Option("", "send unknowns only to the GPUs that need them")] = None


class Jacobi(Workload):
    """The Jacobi iteration on a banded, diagonally dominant linear system, float32."""

    name = "jacobi"
    place = 2
    summary = "Jacobi iteration on a banded system; --data FILE (.mtx, .gz) or --rows N"
    takes = JacobiInputs
    values_are = "unknowns"
    element = "row"

    def __init__(self, system: BandedSystem, source: str, inputs: JacobiInputs) -> None:
        super().__init__(system.name, source, inputs)
        self.system = system
        self.halo = bool(inputs.halo)

    @classmethod
    def check_data(cls, inputs: JacobiInputs) -> None:

        if inputs.data is not None:
            reason = "is for generated systems; leave it out with --data"
            inputs.refuse(("rows", "half_bandwidth"), reason)
        if inputs.seed is not None and inputs.seed < 0:
            raise UserError(f"--seed {inputs.seed}: give a number of at least 0")
        rows = DEFAULT_ROWS if inputs.rows is None else inputs.rows
        if not 2 <= rows <= MAX_ROWS:
            raise UserError(f"--rows {rows}: give a number from 2 to {MAX_ROWS}")
        half = DEFAULT_HALF_BANDWIDTH if inputs.half_bandwidth is None else inputs.half_bandwidth
        most = min(rows - 1, MAX_HALF_BANDWIDTH)
        if not 1 <= half <= most:
            raise UserError(
                f"--half-bandwidth {half}: with {rows} rows give a number from 1 to {most}"
            )

    @classmethod
    def load(cls, inputs: JacobiInputs, cuda: Any | None) -> Self:  # noqa: ARG003

        seed = 1 if inputs.seed is None else inputs.seed
        if inputs.data is not None:
            system = load_banded(inputs.data, seed)
            return cls(system, f"{inputs.data}, right-hand side of seed {seed}", inputs)
        rows = DEFAULT_ROWS if inputs.rows is None else inputs.rows
        half = DEFAULT_HALF_BANDWIDTH if inputs.half_bandwidth is None else inputs.half_bandwidth
        source = f"generated, {rows} rows, half bandwidth {half}, seed {seed}"
        return cls(generate(rows, half, seed), source, inputs)

    @property
    def size(self) -> str:
        halo = ", halo" if self.halo else ""
        return f"{self.system.rows:,} rows, half bandwidth {self.system.half_bandwidth}{halo}"

    def parameters(self) -> dict[str, Any]:
        return {
            "rows": self.system.rows,
            "half_bandwidth": self.system.half_bandwidth,
            "dominance": self.system.dominance,
            "subscribers": self.subscribers,
        }

    @property
    def subscribers(self) -> str:
        return "halo" if self.halo else super().subscribers

    def boundaries(self, gpus: int) -> Sequence[int]:
        return [self.system.rows * gpu // gpus for gpu in range(gpus + 1)]

    def largest_part(self, gpus: int) -> int:
        part = super().largest_part(gpus)
        # A part sends the two parts of its halo to different GPUs.
        return min(part, ELEMENT_BYTES * self.system.half_bandwidth) if self.halo else part

    @property
    def collectives(self) -> tuple[str, ...]:
        return RANGE_COLLECTIVES if self.halo else super().collectives

    def arguments(self) -> tuple[Any, ...]:
        return self.system.diagonals, self.system.right, self.halo

    def held(self, case: Case, device: int) -> slice:
        if not self.halo:
            return slice(0, self.system.rows)
        cut = self.boundaries(case.gpus)
        if cut[device] == cut[device + 1]:
            return slice(0, 0)
        half = self.system.half_bandwidth
        return slice(max(0, cut[device] - half), min(self.system.rows, cut[device + 1] + half))

    def reference(self, iterations: int) -> Reference:

        return Reference(*jacobi_reference(self.system, iterations))

    # The error of an element is relative to the sum of the magnitudes of the element's terms, so
    # that elements whose terms cancel can be compared. A row adds 2 K products to b, rounds the
    # reciprocal of its diagonal, and multiplies by this reciprocal. These are 2 K + 3 independent
    # roundings, which partly cancel: the sum of n roundings is about as large as sqrt(n) roundings.
    # An iteration shrinks earlier errors at least by the factor `dominance`. All errors therefore
    # add up to at most 1 / (1 - dominance) times the error of one iteration. Four times this bound
    # is above the largest error of very many rows. A lost or late transfer causes a far larger
    # error: an old value is wrong by its change in the iteration, and a row gets A(i, j) / A(i, i)
    # of this error.
    def allowed_error(self) -> float:
        rest = 1 - self.system.dominance
        passes = min(self.iterations, 1 / rest) if rest > 0 else self.iterations
        roundings = 2 * self.system.half_bandwidth + 3
        return 4 * FLOAT32_ROUNDING * math.sqrt(roundings) * passes


# --- the data and the reference ------------------------------------------------------------------

MAX_HALF_BANDWIDTH = 512
MAX_ROWS = 2**32 - 2**10  # kernels count rows in 32 bits
DOMINANCE = 0.9  # the dominance of generated systems


@dataclass(frozen=True, eq=False)
class BandedSystem:
    """The system A x = b. `diagonals[half_bandwidth + k, i]` is A(i, i + k), or 0 outside of A."""

    name: str
    diagonals: NDArray[np.float32]  # 2 half_bandwidth + 1 diagonals by rows
    right: NDArray[np.float32]

    @property
    def rows(self) -> int:
        """Return the number of unknowns."""
        return int(self.right.size)

    @property
    def half_bandwidth(self) -> int:
        """Return the distance of the outermost diagonal from the main diagonal."""
        return len(self.diagonals) // 2

    @cached_property
    def dominance(self) -> float:
        """Return the largest ratio of a row: the sum of off-diagonal magnitudes over the diagonal.

        This ratio is below 1 if the matrix is diagonally dominant.
        """
        return float(
            (_other_magnitudes(self.diagonals) / self.diagonals[self.half_bandwidth]).max()
        )


class JacobiReference(NamedTuple):
    """The result of `jacobi_reference`."""

    x: NDArray[np.float64]
    # the result of the same iteration if A and b had the magnitudes of their entries instead
    magnitude: NDArray[np.float64]


def load_banded(path: str | os.PathLike[str], seed: int = 1) -> BandedSystem:
    """Read the matrix of a system. The right-hand side has the values that `generate` gives for
    this seed.

    `.mtx`, `.mtx.gz`: Matrix Market, in coordinate format, square. The field is real or integer.
    The symmetry is general or symmetric. Entries at the same place are added.

    Raises UserError if the file cannot be read or has an error (with the line's number), or if the
    matrix is not banded or not diagonally dominant.
    """
    from interlace.data import reading

    file = Path(path)
    stem = file.name.removesuffix(".gz")
    if file.is_dir():
        raise UserError(f"{file} is a directory; name a matrix file in it.")
    if Path(stem).suffix.lower() != ".mtx":
        raise UserError(f"{file}: files of matrices end in .mtx or .mtx.gz; name such a file.")
    try:
        return _load(file, stem[: -len(".mtx")], reading.read(file), seed)
    except MemoryError:
        raise UserError(f"{file} does not fit into memory; take a smaller matrix.") from None


def generate(rows: int, half_bandwidth: int, seed: int = 1) -> BandedSystem:
    """Return a random system that resembles the systems of finite elements.

    All off-diagonal entries are negative, uniform in -1 .. 0. The right-hand side is uniform in 0.5
    .. 1.5. Both use the upper 24 bits of PCG64's output for the seed: first for all diagonals, from
    the lowest diagonal on, and then for the right-hand side. An entry of the main diagonal is the
    sum of the magnitudes of all other entries of its row, divided by DOMINANCE. If this sum is 0,
    the entry is 1.
    """
    import numpy as np

    from interlace.data import reading

    what = f"a band of {rows} rows and half bandwidth {half_bandwidth}"
    reading.require_memory(_needed_bytes(rows, half_bandwidth), what, "one")
    try:
        random = np.random.PCG64(seed)
        diagonals = np.zeros((2 * half_bandwidth + 1, rows), dtype=np.float32)
        for k in range(-half_bandwidth, half_bandwidth + 1):
            if k != 0:
                inside = _inside(rows, k)
                diagonals[half_bandwidth + k, inside] = -_uniform(random, rows)[inside]
        sums = _other_magnitudes(diagonals) / DOMINANCE
        diagonals[half_bandwidth] = np.where(sums == 0, 1.0, sums)
        right = 0.5 + _uniform(random, rows)
    except MemoryError:
        raise UserError(f"{what} does not fit into memory; take a smaller system.") from None
    return BandedSystem(f"banded-{rows}-k{half_bandwidth}", diagonals, right)


def jacobi_reference(system: BandedSystem, iterations: int) -> JacobiReference:
    """Iterate from x = 0, in float64."""
    import numpy as np

    diagonal = system.diagonals[system.half_bandwidth].astype(np.float64)
    rest = _off_diagonal(system)
    right = system.right.astype(np.float64)

    def iterate(matrix: dia_matrix, b: NDArray[np.float64]) -> NDArray[np.float64]:
        x = np.zeros_like(b)
        for _ in range(iterations):
            x = (b - matrix @ x) / diagonal
        return x

    x = iterate(rest, right)
    # All terms of each element's sum are then 0 or positive, so magnitudes give the same result.
    if rest.data.max(initial=0) <= 0 and right.min() >= 0:
        return JacobiReference(x, x)
    return JacobiReference(x, iterate(-abs(rest), np.abs(right)))


def _off_diagonal(system: BandedSystem) -> dia_matrix:
    import numpy as np
    from scipy.sparse import dia_matrix, diags

    offsets = [k for k in range(-system.half_bandwidth, system.half_bandwidth + 1) if k != 0]
    if not offsets:
        return dia_matrix((system.rows, system.rows))
    parts = [
        system.diagonals[system.half_bandwidth + k, _inside(system.rows, k)].astype(np.float64)
        for k in offsets
    ]
    return diags(parts, offsets, shape=(system.rows, system.rows), format="dia")


def _inside(rows: int, k: int) -> slice:
    """Return the rows whose entry on diagonal k lies inside the matrix."""
    return slice(max(0, -k), rows - max(0, k))


def _uniform(random: np.random.PCG64, count: int) -> NDArray[np.float32]:
    import numpy as np

    drawn = random.random_raw(count) >> np.uint64(40)
    return drawn.astype(np.float32) * np.float32(2**-24)


def _other_magnitudes(diagonals: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the sum of each row's off-diagonal magnitudes."""
    import numpy as np

    half = len(diagonals) // 2
    sums = np.zeros(diagonals.shape[1])
    for k, diagonal in enumerate(diagonals):
        if k != half:
            sums += np.abs(diagonal)
    return sums


def _needed_bytes(rows: int, half_bandwidth: int) -> int:
    """Return the bytes of memory for a system and for its reference in float64."""
    return (2 * half_bandwidth + 1) * rows * 12 + 40 * rows


def _load(file: Path, name: str, data: bytes, seed: int) -> BandedSystem:
    import numpy as np

    from interlace.data import reading

    if not data:
        raise UserError(f"{file} is empty; name a file that holds a matrix.")
    header = reading.matrix_market_header(file, data, "a linear system", ("real", "integer"))
    if header.rows == 0 or header.entries == 0:
        what = "rows" if header.rows == 0 else "entries"
        raise UserError(f"{file}, line {header.line}: the matrix has no {what}; name another file.")
    if header.rows > MAX_ROWS:
        raise UserError(
            f"{file}, line {header.line}: {header.rows} rows are more than {MAX_ROWS}; "
            "take a smaller matrix."
        )
    needed = 48 * header.stored + _needed_bytes(header.rows, 0)
    entries = reading.matrix_market_entries(file, data, header, needed, "matrix")
    away = entries.columns - entries.rows
    farthest = int(np.abs(away).argmax())
    half = abs(int(away[farthest]))
    if half > MAX_HALF_BANDWIDTH:
        raise UserError(
            f"{file} is not banded: entry ({entries.rows[farthest] + 1}, "
            f"{entries.columns[farthest] + 1}) is {half} diagonals away from the main diagonal, "
            f"but at most {MAX_HALF_BANDWIDTH} are possible; reorder the rows and columns, or take "
            "another matrix."
        )
    reading.require_memory(_needed_bytes(header.rows, half), str(file), "matrix")
    sums = np.zeros((2 * half + 1, header.rows))
    np.add.at(sums, (half + away, entries.rows), entries.values)
    with np.errstate(over="ignore"):
        diagonals = sums.astype(np.float32)
    _check_dominance(file, diagonals)
    random = np.random.PCG64(seed)
    return BandedSystem(name, diagonals, 0.5 + _uniform(random, header.rows))


def _check_dominance(file: Path, diagonals: NDArray[np.float32]) -> None:
    import numpy as np

    finite = np.isfinite(diagonals).all(axis=0)
    if not finite.all():
        raise UserError(
            f"{file}: row {int(finite.argmin()) + 1} has a value that is not a finite float32; "
            "correct it or scale the matrix."
        )
    diagonal = diagonals[len(diagonals) // 2]
    others = _other_magnitudes(diagonals)
    dominant = diagonal > others
    if not dominant.all():
        row = int(dominant.argmin())
        raise UserError(
            f"{file} is not diagonally dominant: row {row + 1} has {diagonal[row]:g} on the "
            f"diagonal and needs more than {others[row]:g}, the sum of its other entries' "
            "magnitudes; take another matrix."
        )
