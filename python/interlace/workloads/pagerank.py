"""PageRank by pull over a directed graph, float32."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Self

from interlace.base.errors import UserError
from interlace.workloads.base import Reference
from interlace.workloads.graph_data import GraphInputs, GraphWorkload, generated_graph
from interlace.workloads.options import Option

if TYPE_CHECKING:
    from interlace.data.graphs import Graph

DEFAULT_DAMPING = 0.85

# The largest relative error of a rank. float32 rounds by 6e-8 (2**-24). Up to 256 lanes add up a
# row, so even a row of 10**5 edges is a chain of only 400 additions. (If one warp adds up the row,
# 10**4 edges are such a chain.) The roundings of a chain partly cancel and add up to about 20
# roundings. An iteration passes on at most the damping factor of earlier errors. With a factor of
# 0.85, all iterations add up to 7 times the error of one iteration: at worst 8e-6, and usually
# 1e-6. A lost or late transfer causes a far larger error: an old value changes a rank by its own
# change in the iteration.
MAX_RELATIVE_ERROR = 1e-5

FLOAT32_ROUNDING = 2.0**-24


@dataclass(frozen=True, kw_only=True)
class PagerankInputs(GraphInputs):
    """Options of the graph and its ranks."""

    damping: Annotated[float | None, Option("D", "damping factor", DEFAULT_DAMPING)] = None


class Pagerank(GraphWorkload):
    """PageRank by pull over a directed graph, float32."""

    name = "pagerank"
    place = 1
    summary = "PageRank by pull; --data FILE (.mtx, .txt, .el, .edges, .tsv, .gz) or --rmat SCALE"
    takes = PagerankInputs
    values_are = "ranks"
    largest_tolerance = 1  # ranks sum to 1

    def __init__(self, graph: Graph, data_name: str, source: str, inputs: PagerankInputs) -> None:
        super().__init__(graph, data_name, source, inputs)
        self.damping = DEFAULT_DAMPING if inputs.damping is None else inputs.damping

    @classmethod
    def check_data(cls, inputs: PagerankInputs) -> None:
        super().check_data(inputs)
        if inputs.data is not None:
            inputs.refuse(("seed",), "is for generated graphs; leave it out with --data")
        if inputs.cage is not None:
            inputs.refuse(("seed",), "is for random graphs; leave it out with --cage")
        if inputs.damping is not None and not 0 <= inputs.damping <= 1:
            raise UserError(f"--damping {inputs.damping:g}: give a number from 0 to 1")

    @classmethod
    def load(cls, inputs: PagerankInputs, cuda: Any | None) -> Self:
        from interlace.data import graphs

        if inputs.data is not None:
            graph = graphs.load_graph(inputs.data)
            return cls(graph, graph.name, str(inputs.data), inputs)
        return cls(*generated_graph(inputs, cuda), inputs)

    @property
    def size(self) -> str:
        return self.counts + ("; the file's weights are not used" if self.graph.weighted else "")

    def parameters(self) -> dict[str, Any]:
        return {
            "vertices": self.graph.rows,
            "edges": self.graph.edges,
            "dangling": int((self.graph.out_degree == 0).sum()),
            "damping": self.damping,
            "subscribers": self.subscribers,
        }

    def arguments(self) -> tuple[Any, ...]:
        import numpy as np

        return (
            *self.rows_of_columns(),
            np.ascontiguousarray(self.graph.out_degree),
            self.damping,
            self.kernel,
            self.subscribe,
        )

    def reference(self, iterations: int) -> Reference:
        from interlace.data.graphs import pagerank_reference

        ranks = pagerank_reference(self.graph, self.damping, iterations=iterations).ranks
        return Reference(ranks, ranks)

    def allowed_error(self) -> float:
        if not self.has_updates:
            return MAX_RELATIVE_ERROR
        # Pushed ranks are added one by one. The roundings of m additions add up to about sqrt(m)
        # roundings. Twice this number of roundings is above the largest error of very many ranks.
        # The errors of all iterations together are 7 times the error of one iteration.
        most = int((self.graph.offsets[1:] - self.graph.offsets[:-1]).max(initial=1))
        return max(MAX_RELATIVE_ERROR, 14 * FLOAT32_ROUNDING * math.sqrt(most))
