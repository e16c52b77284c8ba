"""Random updates of a table: the benchmark RandomAccess of the HPC Challenge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Self

from interlace.base.errors import UserError
from interlace.model.mechanisms import COMBINING
from interlace.model.run import Case
from interlace.workloads.base import Reference
from interlace.workloads.options import Default, Inputs, Iterations, Option, Size
from interlace.workloads.updates import UpdateWorkload

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DEFAULT_SIZE = 1 << 20
LARGEST_SIZE = 1 << 26
UPDATES_AN_ENTRY = 4
DEFAULT_ITERATIONS = 4
LANE_ENTRIES = 32  # the number of entries of the table for each lane that makes updates
HPCC_LOOK_AHEAD = 1024  # HPCC allows each process to hold back this many updates
OPERATIONS = ("xor", "store")

POLYNOMIAL = 7  # x^2 + x + 1; in this field, x^64 equals this polynomial
WORD = (1 << 64) - 1
PIECES = (22, 21, 21)  # a result shows an entry as three numbers with this many bits each


def _times_x(word: int) -> int:
    return (word << 1 & WORD) ^ (POLYNOMIAL if word >> 63 else 0)


def _power_of_x(exponent: int) -> int:
    """Return x to the power `exponent`, as a word."""
    square, power = 2, 1
    while exponent:
        if exponent & 1:
            power = _product(power, square)
        square = _product(square, square)
        exponent >>= 1
    return power


def _product(a: int, b: int) -> int:
    product = 0
    while b:
        if b & 1:
            product ^= a
        a = _times_x(a)
        b >>= 1
    return product


def _times(words: NDArray[np.uint64], factor: int) -> NDArray[np.uint64]:
    """Multiply words by a factor, with one table for each byte of a word."""
    import numpy as np

    bits = [factor]
    while len(bits) < 64:
        bits.append(_times_x(bits[-1]))
    products = np.zeros_like(words)
    for byte in range(8):
        table = np.zeros(256, dtype=np.uint64)
        for bit in range(8):
            table[1 << bit : 2 << bit] = table[: 1 << bit] ^ np.uint64(bits[8 * byte + bit])
        products ^= table[(words >> np.uint64(8 * byte)).astype(np.uint8)]
    return products


def sequence(count: int) -> NDArray[np.uint64]:
    """Return the words of the first `count` updates: x to the powers 1 to `count`."""
    import numpy as np

    words = np.array([2], dtype=np.uint64)
    while words.size < count:
        words = np.concatenate([words, _times(words, _power_of_x(words.size))])
    return words[:count]


@dataclass(frozen=True, kw_only=True)
class RandomAccessInputs(Inputs):
    """The options of the table and of its updates."""

    size: Annotated[Size, Option("N", "entries of the table, a power of two", DEFAULT_SIZE)] = None
    iterations: Annotated[Iterations, Default(DEFAULT_ITERATIONS)] = None
    look_ahead: Annotated[
        int | None,
        Option(
            "N",
            "updates that all GPUs together make between two exchanges, instead of --iterations; "
            "HPCC allows 1024 such updates for each process",
        ),
    ] = None
    operation: Annotated[
        str | None, Option("xor|store", "what an update does with its entry", OPERATIONS[0])
    ] = None


class RandomAccess(UpdateWorkload):
    """Random updates of a table of 64-bit words, with four updates per entry."""

    name = "random-access"
    place = 50
    summary = "HPCC RandomAccess: random updates of a table; --size N, --operation xor|store"
    takes = RandomAccessInputs
    values_are = "tables"
    element = "third of an entry"

    def __init__(self, inputs: RandomAccessInputs) -> None:
        self.entries = DEFAULT_SIZE if inputs.size is None else inputs.size
        super().__init__(f"table-{self.entries}", "generated", inputs)
        self.operation = inputs.operation or OPERATIONS[0]
        self.updates = UPDATES_AN_ENTRY * self.entries
        if inputs.look_ahead is not None:
            self.iterations = self.updates // inputs.look_ahead
        self.lanes = max(1, self.entries // LANE_ENTRIES)

    @classmethod
    def check_data(cls, inputs: RandomAccessInputs) -> None:
        inputs.refuse(("tolerance",), "is not for random-access; leave it out")
        size = DEFAULT_SIZE if inputs.size is None else inputs.size
        if not LANE_ENTRIES <= size <= LARGEST_SIZE or size & (size - 1):
            raise UserError(
                f"--size {size}: give a power of two from {LANE_ENTRIES} to {LARGEST_SIZE}"
            )
        if inputs.operation is not None and inputs.operation not in OPERATIONS:
            raise UserError(f"--operation {inputs.operation}: give {' or '.join(OPERATIONS)}")
        lane_updates = UPDATES_AN_ENTRY * LANE_ENTRIES
        if inputs.look_ahead is not None:
            inputs.refuse(
                ("iterations",), "and --look-ahead both set how often GPUs exchange; leave one out"
            )
            least, most = UPDATES_AN_ENTRY * size // lane_updates, UPDATES_AN_ENTRY * size
            ahead = inputs.look_ahead
            if not least <= ahead <= most or ahead & (ahead - 1):
                raise UserError(f"--look-ahead {ahead}: give a power of two from {least} to {most}")
        elif inputs.iterations is not None and (
            not 1 <= inputs.iterations <= lane_updates or inputs.iterations & inputs.iterations - 1
        ):
            raise UserError(
                f"--iterations {inputs.iterations}: give a power of two from 1 to {lane_updates}"
            )

    @classmethod
    def load(cls, inputs: RandomAccessInputs, cuda: Any | None) -> Self:  # noqa: ARG003
        return cls(inputs)

    def refuses(self, mechanism: str) -> str | None:
        if self.operation == "store" and mechanism in COMBINING:
            return "combines contributions, and stores leave nothing to combine"
        return super().refuses(mechanism)

    @property
    def look_ahead(self) -> int:
        """Return the number of updates that all GPUs make between two exchanges."""
        return self.updates // self.iterations

    @property
    def rule(self) -> str:
        """Return words that say which limit on updates between two exchanges the run obeys."""
        kept = "within" if self.look_ahead <= HPCC_LOOK_AHEAD else "beyond"
        return f"{self.look_ahead:,} between exchanges, {kept} HPCC's {HPCC_LOOK_AHEAD:,}"

    @property
    def size(self) -> str:
        return (
            f"{self.entries:,} entries of 8 B, {self.updates:,} updates by {self.operation} "
            f"({self.rule})"
        )

    def parameters(self) -> dict[str, Any]:
        return {
            "entries": self.entries,
            "updates": self.updates,
            "operation": self.operation,
            "look_ahead": self.look_ahead,
            "rule": self.rule,
        }

    def boundaries(self, gpus: int) -> Sequence[int]:
        return [self.entries * gpu // gpus for gpu in range(gpus + 1)]

    def arguments(self) -> tuple[Any, ...]:
        import numpy as np

        # `starts` has a word for each lane. The lane's first update has the next word of the
        # sequence, and the lane computes each further word from the previous word.
        each = self.updates // self.lanes
        starts = np.array([1], dtype=np.uint64)
        while starts.size < self.lanes:
            starts = np.concatenate([starts, _times(starts, _power_of_x(starts.size * each))])
        return self.entries, starts, each // self.iterations, self.operation

    def held(self, case: Case, device: int) -> slice:
        cut = self.boundaries(case.gpus)
        return slice(len(PIECES) * cut[device], len(PIECES) * cut[device + 1])

    def reference(self, iterations: int) -> Reference:
        import numpy as np

        assert iterations == self.iterations
        table = np.arange(self.entries, dtype=np.uint64)
        words = sequence(self.updates)
        places = (words & np.uint64(self.entries - 1)).astype(np.intp)
        if self.operation == "store":
            touched = np.unique(places).astype(np.uint64)
            table[touched.astype(np.intp)] = (touched + np.uint64(1)) * np.uint64(
                0x9E3779B97F4A7C15
            )
        else:
            np.bitwise_xor.at(table, places, words)
        pieces = np.empty((self.entries, len(PIECES)))
        for k, bits in enumerate(PIECES):
            pieces[:, k] = table & np.uint64((1 << bits) - 1)
            table >>= np.uint64(bits)
        return Reference(pieces.ravel(), np.ones(pieces.size))
