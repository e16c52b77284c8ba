"""Matrix factorisation by alternating least squares or by gradient steps, float32."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, Self

from interlace.base.counts import counted
from interlace.base.errors import UserError
from interlace.model.mechanisms import ELEMENT_BYTES
from interlace.model.run import Case, Outcome, RunFailure
from interlace.workloads.base import Reference, Workload
from interlace.workloads.graph_data import MODELS, ModelInputs, check_model, check_one, model_graph
from interlace.workloads.options import (
    Data,
    Default,
    Iterations,
    Kernel,
    Option,
    Subscribe,
    option_of,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from interlace.data.ratings import Floats, Ratings, Side

DEFAULT_USERS = 1024
DEFAULT_ITEMS = 256
DEFAULT_RATINGS = 8192
RANKS = (16, 32)
METHODS = ("als", "sgd")
DEFAULT_LAMBDA = 0.05
DEFAULT_RATE = 0.05
STEPS = 1  # the number of gradient steps in an epoch of sgd

FLOAT32_ROUNDING = 2.0**-24
# If a warp computes a row, each lane sums at most this many ratings. A warp sums a part of a row,
# which has at most 512 ratings, and works on three ratings at a time.
MOST_ADDED = 171


@dataclass(frozen=True, kw_only=True)
class AlsInputs(ModelInputs):
    """The options of the ratings and of the factorisation."""

    iterations: Annotated[Iterations, Default(5)] = None
    data: Annotated[Data, Option("FILE", "ratings, .mtx, also .gz")] = None
    users: Annotated[int | None, Option("N", "users to generate", DEFAULT_USERS)] = None
    items: Annotated[int | None, Option("N", "items to generate", DEFAULT_ITEMS)] = None
    ratings: Annotated[int | None, Option("N", "ratings to generate", DEFAULT_RATINGS)] = None
    rank: Annotated[int | None, Option("16|32", "numbers per factor", RANKS[0])] = None
    lambda_: Annotated[
        float | None, Option("L", "strength of the regularisation", DEFAULT_LAMBDA)
    ] = None
    method: Annotated[
        str | None,
        Option("als|sgd", "als makes least squares, and sgd makes gradient steps", METHODS[0]),
    ] = None
    rate: Annotated[float | None, Option("R", "length of a gradient step", DEFAULT_RATE)] = None
    kernel: Annotated[Kernel, Default("warp-per-row (or with --method sgd lane-per-row)")] = None
    subscribe: Subscribe = None


class Als(Workload):
    """Matrix factorisation by alternating least squares or by gradient steps, float32."""

    name = "als"
    place = 4
    summary = "matrix factorisation of ratings; --data FILE (.mtx, .gz) or --users, --items"
    takes = AlsInputs
    values_are = "factors"
    element = "number"
    kernels = ("warp-per-row", "lane-per-row")

    def __init__(self, ratings: Ratings, source: str, inputs: AlsInputs) -> None:
        from interlace.data.ratings import rmse, start_factors

        super().__init__(ratings.name, source, inputs)
        self.ratings = ratings
        self.rank = inputs.rank or RANKS[0]
        self.method = inputs.method or METHODS[0]
        self.damping = DEFAULT_LAMBDA if inputs.lambda_ is None else inputs.lambda_
        self.rate = DEFAULT_RATE if inputs.rate is None else inputs.rate
        self.start = start_factors(ratings, self.rank, 1 if inputs.seed is None else inputs.seed)
        self.start_rmse = rmse(ratings, *self.start)
        self.rmse: float | None = None  # the error of the reference, once it is computed
        self._condition = 1.0  # the worst condition number of any row's equations so far

    @classmethod
    def check_data(cls, inputs: AlsInputs) -> None:
        from interlace.data.ratings import MOST_ROWS

        given = check_one(inputs, ("data", *MODELS))
        if given is not None:
            reason = f"is for random ratings; leave it out with {option_of(given)}"
            inputs.refuse(("users", "items", "ratings"), reason)
        check_model(inputs)
        if inputs.seed is not None and inputs.seed < 0:
            raise UserError(f"--seed {inputs.seed}: give a number of at least 0")
        for option, value in (("--users", inputs.users), ("--items", inputs.items)):
            if value is not None and not 1 <= value <= MOST_ROWS:
                raise UserError(f"{option} {value}: give a number from 1 to {MOST_ROWS}")
        if inputs.ratings is not None and not 1 <= inputs.ratings < 2**32:
            raise UserError(f"--ratings {inputs.ratings}: give a number from 1 to 2**32 - 1")
        if inputs.rank is not None and inputs.rank not in RANKS:
            raise UserError(f"--rank {inputs.rank}: give 16 or 32")
        if inputs.method is not None and inputs.method not in METHODS:
            raise UserError(f"--method {inputs.method}: give als or sgd")
        if inputs.lambda_ is not None and not 1e-6 <= inputs.lambda_ < math.inf:
            raise UserError(f"--lambda {inputs.lambda_:g}: give a finite number of at least 1e-06")
        if inputs.kernel == "lane-per-row" and inputs.method != "sgd":
            raise UserError(
                "--kernel lane-per-row is for --method sgd; leave it out, or add --method sgd"
            )
        if inputs.rate is not None and inputs.method != "sgd":
            raise UserError("--rate is for --method sgd; leave it out, or add --method sgd")
        if inputs.rate is not None and not 0 < inputs.rate < math.inf:
            raise UserError(f"--rate {inputs.rate:g}: give a finite number above 0")
        reason = "is not for als, which makes a fixed number of iterations; give --iterations"
        inputs.refuse(("tolerance",), reason)

    @classmethod
    def load(cls, inputs: AlsInputs, cuda: Any | None) -> Self:  # noqa: ARG003
        from interlace.data import ratings

        seed = 1 if inputs.seed is None else inputs.seed
        if inputs.data is not None:
            return cls(
                ratings.load_ratings(inputs.data), f"{inputs.data}, start of seed {seed}", inputs
            )
        made = model_graph(inputs)
        if made is not None:
            graph, name, source = made
            rated = ratings.on_graph(graph, name, seed)
            return cls(rated, f"{source}; ratings of seed {seed}", inputs)
        users = inputs.users or DEFAULT_USERS
        items = inputs.items or DEFAULT_ITEMS
        count = inputs.ratings or DEFAULT_RATINGS
        source = f"generated, {count} ratings of {items} items by {users} users, seed {seed}"
        return cls(ratings.generate(users, items, count, seed), source, inputs)

    @property
    def size(self) -> str:
        users, items = self.ratings.users.rows, self.ratings.items.rows
        return (
            f"{counted(users, 'user')}, {counted(items, 'item')}, "
            f"{counted(self.ratings.count, 'rating')}, "
            f"rank {self.rank}, {self.method}"
        )

    def parameters(self) -> dict[str, Any]:
        return {
            "users": self.ratings.users.rows,
            "items": self.ratings.items.rows,
            "ratings": self.ratings.count,
            "rank": self.rank,
            "method": self.method,
            "lambda": self.damping,
            "rate": self.rate if self.method == "sgd" else None,
            "start_rmse": self.start_rmse,
            "rmse": self.rmse,
            "subscribers": self.subscribers,
        }

    def boundaries(self, gpus: int) -> Sequence[int]:
        return self._cut(self.ratings.users, gpus)

    def _cut(self, side: Side, gpus: int) -> list[int]:
        """Cut the factors of a side into parts with nearly equal numbers of ratings and of rows."""
        import numpy as np

        work = side.offsets + np.arange(side.rows + 1)
        shares = [-(-int(work[-1]) * part // gpus) for part in range(1, gpus)]
        inner = np.searchsorted(work, shares) * self.rank
        return [0, *(int(b) for b in inner), side.rows * self.rank]

    def largest_part(self, gpus: int) -> int:
        items = self._cut(self.ratings.items, gpus)
        largest = ELEMENT_BYTES * max(end - begin for begin, end in pairwise(items))
        return max(super().largest_part(gpus), largest)

    def arguments(self) -> tuple[Any, ...]:
        import numpy as np

        sides = [
            array
            for side in (self.ratings.users, self.ratings.items)
            for array in (
                np.ascontiguousarray(side.offsets).astype(np.uint64, copy=False),
                np.ascontiguousarray(side.others),
                np.ascontiguousarray(side.values),
            )
        ]
        return (
            *sides,
            *self.start,
            self.method,
            self.damping,
            self.rate,
            STEPS,
            self.kernel,
            self.subscribe,
        )

    def held(self, case: Case, device: int) -> slice | NDArray[np.intp]:
        """Return the indices of the factors that a GPU holds.

        The GPU holds the factors of its own rows on both sides, and all factors of the other side
        that these rows read.
        """
        if self.subscribe == "all":
            return super().held(case, device)
        import numpy as np

        users, items = self.ratings.users, self.ratings.items
        rows = []
        for side, other, before in ((users, items, 0), (items, users, users.rows)):
            own, of_other = (
                slice(*(b // self.rank for b in self._cut(s, case.gpus)[device : device + 2]))
                for s in (side, other)
            )
            read = other.others[other.offsets[of_other.start] : other.offsets[of_other.stop]]
            rows.append(np.union1d(np.arange(own.start, own.stop), read).astype(np.intp) + before)
        numbers = np.arange(self.rank, dtype=np.intp)
        return (np.concatenate(rows)[:, None] * self.rank + numbers).ravel()

    def renewal(self) -> Callable[[Side, Floats, Floats], Floats]:
        """Return the function that computes new factors of a side for the reference."""
        from interlace.data import ratings

        if self.method == "als":
            return ratings.by_equations(self.damping)
        return ratings.by_gradient(self.damping, self.rate, STEPS)

    def reference(self, iterations: int) -> Reference:
        import numpy as np

        from interlace.data.ratings import factorise, rmse

        renew = self.renewal()

        def watched(side: Side, own: Floats, other: Floats) -> Floats:
            # No eigenvalue of Y^T Y is larger than the sum of the squared norms of Y's n factors.
            # The term lambda n I adds lambda n to each eigenvalue.
            longest = float((other**2).sum(axis=1).max())
            self._condition = max(self._condition, 1 + longest / self.damping)
            return renew(side, own, other)

        users, items = self.start
        wide = users.astype(np.float64), items.astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            found = factorise(self.ratings, wide, iterations, watched)
            self.rmse = rmse(self.ratings, *found)
        if not self.rmse < self.start_rmse:
            what = "--rate or --lambda" if self.method == "sgd" else "--lambda"
            raise UserError(
                f"the training error does not fall in {iterations} iterations (from "
                f"{self.start_rmse:.3g} to {self.rmse:.3g}); give a smaller {what}"
            )
        values = np.concatenate([side.ravel() for side in found])
        # A system of equations gives all numbers of a factor at once. Errors are therefore relative
        # to the largest number of the factor.
        largest = np.concatenate([np.abs(side).max(axis=1) for side in found])
        return Reference(values, np.repeat(largest, self.rank))

    def verify(self, outcome: Outcome) -> float:
        import numpy as np

        from interlace.data.ratings import rmse

        largest = super().verify(outcome)
        gpus = outcome.case.gpus
        users = self.ratings.users.rows
        owned = [  # each factor, from the GPU that computed it
            outcome.values[gpu][before + begin : before + end]
            for side, before in ((self.ratings.users, 0), (self.ratings.items, users * self.rank))
            for gpu, (begin, end) in enumerate(pairwise(self._cut(side, gpus)))
        ]
        factors = np.concatenate(owned).astype(np.float64).reshape(-1, self.rank)
        found = rmse(self.ratings, factors[:users], factors[users:])
        if not found < self.start_rmse:
            raise RunFailure(
                f"verification failed: {outcome.case}: the training error rises from "
                f"{self.start_rmse:.3g} to {found:.3g}"
            )
        return largest

    def _most_added(self) -> int:
        """Return the largest number of ratings that a lane adds in sequence."""
        if self.kernel != "lane-per-row":
            return MOST_ADDED
        sides = (self.ratings.users, self.ratings.items)
        return max(int((side.offsets[1:] - side.offsets[:-1]).max()) for side in sides)

    # A sum of products adds at most `_most_added` ratings in sequence. Independent roundings
    # partly cancel: the sum of n roundings is about as large as sqrt(n) roundings. Solving the
    # equations of a row multiplies this error by at most the condition number of the equations. An
    # epoch is a projection, so it does not enlarge earlier errors, and adds its own errors. Errors
    # of several epochs also partly cancel. A gradient step neither enlarges nor hides errors. A
    # lost or late transfer causes a far larger error: an old factor is wrong by its whole change in
    # the iteration.
    def allowed_error(self) -> float:
        epochs = 2 * self.iterations
        chain = math.sqrt(self._most_added() + self.rank)
        if self.method == "als":
            return FLOAT32_ROUNDING * chain * self._condition * math.sqrt(epochs)
        return FLOAT32_ROUNDING * chain * STEPS * epochs
