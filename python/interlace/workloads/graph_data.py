"""Code that workloads on graphs share: options, generated graphs, and parts for the GPUs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any

from interlace.base.counts import counted
from interlace.base.errors import UserError
from interlace.model.run import Case, core_errors
from interlace.workloads.base import Workload
from interlace.workloads.options import (
    Data,
    Default,
    Inputs,
    Kernel,
    Option,
    Seed,
    Subscribe,
    option_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from interlace.data.graphs import Graph

PUSH = "push"  # the kernel that follows out-edges and updates the target of each edge

# Names of fields of Inputs. MODELS are the fields that select a model of
# interlace.data.graph_models. GRAPHS are all fields that select a graph.
MODELS = ("cage", "crawl", "rgg")
GRAPHS = ("data", "rmat", *MODELS)


@dataclass(frozen=True, kw_only=True)
class ModelInputs(Inputs):
    """The option that selects a model of interlace.data.graph_models."""

    cage: Annotated[
        int | None, Option("ROWS", "generate a graph like matrices of DNA electrophoresis")
    ] = None
    crawl: Annotated[
        int | None,
        Option("PAGES", "generate a graph like the links of a web crawl, sorted by host"),
    ] = None
    rgg: Annotated[
        int | None,
        Option(
            "VERTICES", "generate a random geometric graph, with vertices in the order of strips"
        ),
    ] = None
    seed: Seed = None


@dataclass(frozen=True, kw_only=True)
class GraphInputs(ModelInputs):
    """The options that select or generate a graph."""

    data: Annotated[
        Data, Option("FILE", "a graph: .mtx, .txt, .el, .edges or .tsv, each also .gz")
    ] = None
    rmat: Annotated[int | None, Option("SCALE", "generate an R-MAT graph of 2**SCALE vertices")] = (
        None
    )
    edge_factor: Annotated[int | None, Option("N", "edges per vertex of R-MAT", 16)] = None
    kernel: Annotated[Kernel, Default("balanced (or warp-per-row, push)")] = None
    subscribe: Subscribe = None


def check_one(inputs: Inputs, names: tuple[str, ...]) -> str | None:
    """Return the field of `names` that was given, or None if none was given.

    Raise UserError if two of these fields were given.
    """
    given = [name for name in names if getattr(inputs, name) is not None]
    if len(given) > 1:
        first, second = (option_of(name) for name in given[:2])
        raise UserError(f"{first} and {second} exclude each other; give one of them")
    return given[0] if given else None


def check_model(inputs: ModelInputs) -> None:
    """Raise UserError for a size that no model can have."""
    from interlace.data.graph_models import LEAST_ROWS, MOST_ROWS

    for name in MODELS:
        size = getattr(inputs, name)
        if size is not None and not LEAST_ROWS <= size <= MOST_ROWS:
            raise UserError(
                f"{option_of(name)} {size}: give a number from {LEAST_ROWS} to {MOST_ROWS}"
            )


def model_graph(inputs: ModelInputs) -> tuple[Graph, str, str] | None:
    """Return the graph of the selected model, the graph's name and its source.

    Return None if no model is selected.
    """
    from interlace.data.graph_models import MODELS as MADE

    name = next((name for name in MODELS if getattr(inputs, name) is not None), None)
    if name is None:
        return None
    seed = 1 if inputs.seed is None else inputs.seed
    graph = MADE[name].make(getattr(inputs, name), seed)
    source = f"generated, {MADE[name].source}" + (f", seed {seed}" if MADE[name].seeded else "")
    return graph, graph.name, source


def generated_graph(inputs: GraphInputs, cuda: Any | None) -> tuple[Graph, str, str]:
    """Return the graph, its name and its source. With `cuda`, the GPU generates an R-MAT graph."""
    from interlace.data import graphs

    made = model_graph(inputs)
    if made is not None:
        return made
    assert inputs.rmat is not None
    factor = 16 if inputs.edge_factor is None else inputs.edge_factor
    seed = 1 if inputs.seed is None else inputs.seed
    name = f"rmat-{inputs.rmat}"
    name += f"-f{factor}" if factor != 16 else ""
    name += f"-s{seed}" if seed != 1 else ""
    source = f"R-MAT, scale {inputs.rmat}, edge factor {factor}, seed {seed}"
    if cuda is None:
        return graphs.rmat(inputs.rmat, factor, seed), name, source
    graphs.rmat_edges(inputs.rmat, 0, 0, seed)  # this call checks scale and seed
    if not 1 <= factor < graphs.MAX_VERTICES:
        raise UserError(f"--edge-factor {factor}: give a number from 1 to 2**32 - 1")
    with core_errors():
        offsets, columns, out_degree = cuda.rmat(inputs.rmat, factor, seed)
    offsets = offsets.astype("int64", copy=False)
    return graphs.Graph(name, 1 << inputs.rmat, offsets, columns, out_degree), name, source


class GraphWorkload(Workload):
    """A workload that divides rows among the GPUs. A row is a vertex with its in-edges."""

    element = "vertex"
    kernels = ("balanced", "warp-per-row", PUSH)

    def __init__(self, graph: Graph, data_name: str, source: str, inputs: GraphInputs) -> None:
        super().__init__(data_name, source, inputs)
        self.graph = graph

    @classmethod
    def updates_partitions(cls, inputs: Inputs) -> bool:
        return getattr(inputs, "kernel", None) == PUSH

    @property
    def counts(self) -> str:
        """Return the numbers of vertices and edges as text."""
        vertices = counted(self.graph.rows, "vertex", "vertices")
        return f"{vertices}, {counted(self.graph.edges, 'edge')}"

    @classmethod
    def check_data(cls, inputs: Any) -> None:
        given = check_one(inputs, GRAPHS)
        if given is None:
            raise UserError(
                f"{cls.name} needs a graph; give --data FILE, or --rmat SCALE, --cage ROWS, "
                "--crawl PAGES or --rgg VERTICES to generate one"
            )
        if given != "rmat":
            inputs.refuse(("edge_factor",), f"is for --rmat; leave it out with {option_of(given)}")
        if inputs.rmat is not None and not 1 <= inputs.rmat <= 32:
            raise UserError(f"--rmat {inputs.rmat}: give a scale from 1 to 32")
        check_model(inputs)
        if cls.updates_partitions(inputs):
            inputs.refuse(("subscribe",), f"is for regions; leave it out with --kernel {PUSH}")

    @cached_property
    def out_edges(self) -> tuple[NDArray[np.int64], NDArray[np.uint32], NDArray[np.intp]]:
        """Return the out-edges of the graph, sorted by vertex.

        The result has the offsets of vertices, the targets of edges, and the index of each edge
        among the in-edges.
        """
        import numpy as np

        graph = self.graph
        order = np.argsort(graph.columns, kind="stable")
        ends = np.repeat(np.arange(graph.rows, dtype=np.uint32), np.diff(graph.offsets))
        counts = np.bincount(graph.columns, minlength=graph.rows)
        return np.concatenate([[0], np.cumsum(counts)]), ends[order], order

    def boundaries(self, gpus: int) -> Sequence[int]:
        from interlace.data.graphs import partition, partition_by_edges

        # If not all GPUs receive all values, fewer values are sent than `partition` assumes.
        cut = partition if self.subscribe == "all" else partition_by_edges
        if self.has_updates:
            return partition_by_edges(self.out_edges[0], gpus)
        return cut(self.graph.offsets, gpus)

    def rows_of_columns(self) -> tuple[NDArray[np.uint64], NDArray[np.uint32]]:
        """Return the offsets of rows and the columns of rows, as the compiled modules need them."""
        import numpy as np

        if self.has_updates:
            return self.out_edges[0].astype(np.uint64), self.out_edges[1]
        offsets = np.ascontiguousarray(self.graph.offsets).astype(np.uint64, copy=False)
        return offsets, np.ascontiguousarray(self.graph.columns)

    def held(self, case: Case, device: int) -> slice | NDArray[np.intp]:
        import numpy as np

        if self.has_updates:
            cut = self.boundaries(case.gpus)
            return slice(cut[device], cut[device + 1])
        if self.subscribe == "all":
            return super().held(case, device)
        # The device has the rows that it computes, and the values that these rows read.
        begin, end = self.boundaries(case.gpus)[device : device + 2]
        offsets, columns = self.graph.offsets, self.graph.columns
        held = np.zeros(self.graph.rows, dtype=bool)
        held[begin:end] = True
        held[columns[offsets[begin] : offsets[end]]] = True
        return np.flatnonzero(held)
