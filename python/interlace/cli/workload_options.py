"""The options that say what a workload computes on, the same for each command that runs one."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from interlace.model.options import number, whole
from interlace.workloads import Inputs


def read_inputs(
    data: Annotated[
        Path | None,
        typer.Option(
            "--data",
            metavar="FILE",
            help="pagerank, sssp: a graph, .mtx, .txt, .el, .edges, .tsv; jacobi: a banded matrix, "
            ".mtx; als: ratings, .mtx; each also .gz.",
        ),
    ] = None,
    rmat: Annotated[
        str | None,
        typer.Option(
            "--rmat",
            metavar="SCALE",
            help="pagerank, sssp: generate an R-MAT graph of 2**SCALE vertices.",
        ),
    ] = None,
    edge_factor: Annotated[
        str | None,
        typer.Option("--edge-factor", metavar="N", help="R-MAT: edges a vertex.  [default: 16]"),
    ] = None,
    cage: Annotated[
        str | None,
        typer.Option(
            "--cage",
            metavar="ROWS",
            help="pagerank, sssp, als: generate a matrix as of DNA electrophoresis.",
        ),
    ] = None,
    crawl: Annotated[
        str | None,
        typer.Option(
            "--crawl",
            metavar="PAGES",
            help="pagerank, sssp, als: generate the links of a web crawl, host by host.",
        ),
    ] = None,
    rgg: Annotated[
        str | None,
        typer.Option(
            "--rgg",
            metavar="VERTICES",
            help="pagerank, sssp, als: generate an ordered random geometric graph.",
        ),
    ] = None,
    seed: Annotated[
        str | None, typer.Option("--seed", metavar="N", help="Of what is generated.  [default: 1]")
    ] = None,
    iterations: Annotated[
        str | None,
        typer.Option(
            "--iterations",
            "-n",
            metavar="N",
            help="Iterations, or with -t at most.  [default: 10; als, diffusion, eqwp, hit 5; "
            "ct 3; sssp to the end]",
        ),
    ] = None,
    tolerance: Annotated[
        str | None,
        typer.Option(
            "--tolerance",
            "-t",
            metavar="T",
            help="Iterate until the sum of all changes is at most T; halo-jacobi: the root of the "
            "sum of their squares.",
        ),
    ] = None,
    damping: Annotated[
        str | None,
        typer.Option("--damping", metavar="D", help="pagerank: damping.  [default: 0.85]"),
    ] = None,
    rows: Annotated[
        str | None,
        typer.Option(
            "--rows",
            metavar="N",
            help="jacobi: unknowns to generate.  [default: 32768]; halo-jacobi: of the grid, which "
            "the GPUs share.  [default: 32]",
        ),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            "--columns",
            metavar="N",
            help="halo-jacobi: points of a row, 4 bytes each, which is a message.  [default: 8192]",
        ),
    ] = None,
    half_bandwidth: Annotated[
        str | None,
        typer.Option(
            "--half-bandwidth",
            metavar="K",
            help="jacobi: generate K diagonals on each side of the main one.  [default: 8]",
        ),
    ] = None,
    halo: Annotated[
        bool,
        typer.Option("--halo", help="jacobi: send unknowns only to the GPUs that need them."),
    ] = False,
    kernel: Annotated[
        str | None,
        typer.Option(
            "--kernel",
            metavar="NAME",
            help="Of those that do the same; they differ in what they store side by side. "
            "pagerank, sssp: balanced, warp-per-row; als: warp-per-row, or with --method sgd "
            "lane-per-row; eqwp, hit: runs, tiles.  [default: the first]",
        ),
    ] = None,
    subscribe: Annotated[
        str | None,
        typer.Option(
            "--subscribe",
            metavar="all|needed",
            help="pagerank, sssp, als, ct: send values to all GPUs, or to those that read them: "
            "stores each to its readers, copies a range that has all of them.  [default: all]",
        ),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(
            "--source",
            metavar="V",
            help="sssp: vertex to start from, the first is 0.  [default: one of most out-edges]",
        ),
    ] = None,
    users: Annotated[
        str | None,
        typer.Option("--users", metavar="N", help="als: users to generate.  [default: 1024]"),
    ] = None,
    items: Annotated[
        str | None,
        typer.Option("--items", metavar="N", help="als: items to generate.  [default: 256]"),
    ] = None,
    ratings: Annotated[
        str | None,
        typer.Option("--ratings", metavar="N", help="als: ratings to generate.  [default: 8192]"),
    ] = None,
    rank: Annotated[
        str | None,
        typer.Option("--rank", metavar="16|32", help="als: numbers a factor.  [default: 16]"),
    ] = None,
    lambda_: Annotated[
        str | None,
        typer.Option("--lambda", metavar="L", help="als: regularisation.  [default: 0.05]"),
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(
            "--method",
            metavar="als|sgd",
            help="als: least squares, or a gradient step an epoch.  [default: als]",
        ),
    ] = None,
    rate: Annotated[
        str | None,
        typer.Option(
            "--rate", metavar="R", help="als: length of a gradient step.  [default: 0.05]"
        ),
    ] = None,
    size: Annotated[
        str | None,
        typer.Option(
            "--size",
            metavar="N",
            help="Pixels or points a side.  [default: ct 128; diffusion 40, or 256 with 2 "
            "dimensions; eqwp, hit 32]",
        ),
    ] = None,
    dimensions: Annotated[
        str | None,
        typer.Option("--dimensions", metavar="2|3", help="diffusion: of the grid.  [default: 3]"),
    ] = None,
    equation: Annotated[
        str | None,
        typer.Option(
            "--equation", metavar="heat|burgers", help="diffusion: of what.  [default: heat]"
        ),
    ] = None,
    angles: Annotated[
        str | None,
        typer.Option("--angles", metavar="N", help="ct: angles in half a turn.  [default: 64]"),
    ] = None,
    detectors: Annotated[
        str | None,
        typer.Option(
            "--detectors",
            metavar="N",
            help="ct: rays an angle.  [default: the fewest that see the whole image]",
        ),
    ] = None,
    subsets: Annotated[
        str | None,
        typer.Option(
            "--subsets",
            metavar="N",
            help="ct: subsets of the angles, each a step of an iteration.  [default: 4]",
        ),
    ] = None,
    smoothing: Annotated[
        str | None,
        typer.Option(
            "--smoothing", metavar="B", help="ct: strength of the prior.  [default: 0.01]"
        ),
    ] = None,
) -> Inputs:
    """What the options say; raises UserError for what is no number."""
    return Inputs(
        data=data,
        rmat=whole("--rmat", rmat),
        edge_factor=whole("--edge-factor", edge_factor),
        cage=whole("--cage", cage),
        crawl=whole("--crawl", crawl),
        rgg=whole("--rgg", rgg),
        seed=whole("--seed", seed),
        damping=number("--damping", damping),
        rows=whole("--rows", rows),
        columns=whole("--columns", columns),
        half_bandwidth=whole("--half-bandwidth", half_bandwidth),
        halo=halo or None,
        kernel=kernel,
        subscribe=subscribe,
        source=whole("--source", source),
        users=whole("--users", users),
        items=whole("--items", items),
        ratings=whole("--ratings", ratings),
        rank=whole("--rank", rank),
        lambda_=number("--lambda", lambda_),
        method=method,
        rate=number("--rate", rate),
        size=whole("--size", size),
        dimensions=whole("--dimensions", dimensions),
        equation=equation,
        angles=whole("--angles", angles),
        detectors=whole("--detectors", detectors),
        subsets=whole("--subsets", subsets),
        smoothing=number("--smoothing", smoothing),
        iterations=whole("--iterations", iterations),
        tolerance=number("--tolerance", tolerance),
    )


# What a command is given in place of the options: calling it reads them.
ReadInputs = Callable[[], Inputs]


def takes_inputs(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command the options of `read_inputs` in place of its parameter `inputs`.

    The command gets a ReadInputs, so that it can complain of other things first.
    """
    options = inspect.signature(read_inputs).parameters
    hints = get_type_hints(command, include_extras=True)
    hints |= get_type_hints(read_inputs, include_extras=True)

    @functools.wraps(command)
    def call(**given: Any) -> None:
        values = {name: given.pop(name) for name in options}
        command(inputs=functools.partial(read_inputs, **values), **given)

    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        parameters += options.values() if name == "inputs" else [parameter]
    parameters = [it.replace(annotation=hints[it.name]) for it in parameters]
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {it.name: it.annotation for it in parameters}
    return call
