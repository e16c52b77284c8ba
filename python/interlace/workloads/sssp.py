"""Single-source shortest paths by Bellman-Ford in pull form, float32."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Self

from interlace.base.errors import UserError
from interlace.workloads.base import MAX_ITERATIONS, Reference
from interlace.workloads.graph_data import GraphInputs, GraphWorkload, generated_graph
from interlace.workloads.options import Default, Iterations, Option

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from interlace.data.graphs import Graph

FLOAT32_ROUNDING = 2.0**-24

# The residual is the number of vertices that an iteration changed. Below this value it is 0.
NONE_CHANGED = 0.5


@dataclass(frozen=True, kw_only=True)
class SsspInputs(GraphInputs):
    """Options of the graph, and of the vertex at which paths start."""

    iterations: Annotated[Iterations, Default("to the end")] = None
    source: Annotated[
        int | None,
        Option(
            "V",
            "the vertex to start from; the first vertex is 0",
            "a vertex with the most out-edges",
        ),
    ] = None


class Sssp(GraphWorkload):
    """Single-source shortest paths by Bellman-Ford in pull form, float32."""

    name = "sssp"
    place = 3
    summary = (
        "shortest paths; --data FILE (as for pagerank, with or without weights) or --rmat SCALE"
    )
    takes = SsspInputs
    values_are = "distances"

    def __init__(
        self,
        graph: Graph,
        weights: NDArray[np.float32],
        data_name: str,
        source: str,
        inputs: SsspInputs,
    ) -> None:
        super().__init__(graph, data_name, source, inputs)
        self.weights = weights
        # The seed of the weights, if the graph's file has no weights.
        self.seed = 1 if inputs.seed is None else inputs.seed
        if inputs.source is not None and not 0 <= inputs.source < graph.rows:
            raise UserError(
                f"--source {inputs.source}: the graph has the vertices 0 to {graph.rows - 1}"
            )
        self.start = int(graph.out_degree.argmax()) if inputs.source is None else inputs.source
        self.to_the_end = inputs.iterations is None
        if self.to_the_end:
            # A shortest path has fewer edges than the graph has rows. One more iteration finds that
            # nothing changes.
            self.iterations = min(graph.rows, MAX_ITERATIONS)
        self._longest = 0 if self.to_the_end else self.iterations

    @classmethod
    def check_data(cls, inputs: SsspInputs) -> None:
        super().check_data(inputs)
        if inputs.seed is not None and inputs.seed < 0:
            raise UserError(f"--seed {inputs.seed}: give a number of at least 0")
        inputs.refuse(
            ("tolerance",),
            "is not for sssp, which ends when no distance changes; leave it out, or give "
            "--iterations",
        )

    @classmethod
    def load(cls, inputs: SsspInputs, cuda: Any | None) -> Self:
        from interlace.data import shortest_paths as paths

        seed = 1 if inputs.seed is None else inputs.seed
        if inputs.data is None:
            graph, name, source = generated_graph(inputs, cuda)
            return cls(graph, paths.seeded_weights(graph.edges, seed), name, source, inputs)
        graph, weights, own = paths.load_weighted(inputs.data, seed)
        if own:
            inputs.refuse(
                ("seed",),
                (f"is for graphs without weights, and {inputs.data} has weights; leave it out"),
            )
        source = str(inputs.data) if own else f"{inputs.data}, weights of seed {seed}"
        return cls(graph, weights, graph.name, source, inputs)

    @property
    def size(self) -> str:
        weights = "the file's weights" if self.graph.weighted else f"weights of seed {self.seed}"
        return f"{self.counts} with {weights}, from {self.start}"

    def facts(self) -> dict[str, Any]:
        return {**super().facts(), "weights": "file" if self.graph.weighted else "seeded"}

    def parameters(self) -> dict[str, Any]:
        return {
            "vertices": self.graph.rows,
            "edges": self.graph.edges,
            "start": self.start,
            "until_unchanged": self.to_the_end,
            "subscribers": self.subscribers,
        }

    def arguments(self) -> tuple[Any, ...]:
        import numpy as np

        weights = self.weights[self.out_edges[2]] if self.has_updates else self.weights
        return (
            *self.rows_of_columns(),
            np.ascontiguousarray(weights),
            self.start,
            self.kernel,
            self.subscribe,
        )

    def limits(self) -> tuple[int, float]:
        """Return the largest number of iterations and the tolerance.

        The tolerance ends a run when an iteration changes no distance.
        """
        return self.iterations, NONE_CHANGED if self.to_the_end else 0.0

    def reference(self, iterations: int) -> Reference:
        from interlace.data import shortest_paths as paths

        self._longest = max(self._longest, iterations)
        if self.to_the_end:
            distances = paths.dijkstra(self.graph, self.weights, self.start)
        else:
            distances = paths.bellman_ford(self.graph, self.weights, self.start, iterations)
        return Reference(distances, distances)

    # A distance is the sum of the non-negative float32 weights of a path. Each addition rounds by
    # at most 2**-24 of the sum. Minima are exact. After k iterations, a path has at most k edges. A
    # distance in float32 therefore differs from the distance in float64 by at most k / 2**24. The
    # difference can have either sign, because each computation could also choose the other's path.
    # After a lost or late transfer, a distance is the length of another path, or infinite.
    def allowed_error(self) -> float:
        # The factor 1.01 covers terms of higher order.
        return self._longest * FLOAT32_ROUNDING * 1.01
