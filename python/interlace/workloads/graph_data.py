"""The graphs of the workloads that take one: what may be asked for, and R-MAT on either node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interlace.errors import UserError
from interlace.workloads.base import Inputs, core_errors

if TYPE_CHECKING:
    from interlace.graphs import Graph


def check_graph(workload: str, inputs: Inputs) -> None:
    """Raise UserError unless the inputs say which graph."""
    if inputs.data is not None and inputs.rmat is not None:
        raise UserError("--data and --rmat exclude each other; give one of them")
    if inputs.data is None and inputs.rmat is None:
        raise UserError(
            f"{workload} needs a graph; give --data FILE, or --rmat SCALE to generate one"
        )
    if inputs.rmat is not None and not 1 <= inputs.rmat <= 32:
        raise UserError(f"--rmat {inputs.rmat}: give a scale from 1 to 32")


def generated_graph(inputs: Inputs, cuda: Any | None) -> tuple[Graph, str, str]:
    """The R-MAT graph, its name and its source; on the GPU where `cuda` is given."""
    from interlace import graphs

    assert inputs.rmat is not None
    factor = 16 if inputs.edge_factor is None else inputs.edge_factor
    seed = 1 if inputs.seed is None else inputs.seed
    name = f"rmat-{inputs.rmat}"
    name += f"-f{factor}" if factor != 16 else ""
    name += f"-s{seed}" if seed != 1 else ""
    source = f"R-MAT, scale {inputs.rmat}, edge factor {factor}, seed {seed}"
    if cuda is None:
        return graphs.rmat(inputs.rmat, factor, seed), name, source
    graphs.rmat_edges(inputs.rmat, 0, 0, seed)  # checks scale and seed
    if not 1 <= factor < graphs.MAX_VERTICES:
        raise UserError(f"--edge-factor {factor}: give a number from 1 to 2**32 - 1")
    with core_errors(cuda):
        offsets, columns, out_degree = cuda.rmat(inputs.rmat, factor, seed)
    offsets = offsets.astype("int64", copy=False)
    return graphs.Graph(name, 1 << inputs.rmat, offsets, columns, out_degree), name, source
