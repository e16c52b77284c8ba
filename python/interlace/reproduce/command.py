"""`interlace reproduce`: the published figures of a paper beside ours."""

from __future__ import annotations

import importlib
import time
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from interlace.base.errors import UserError, unknown
from interlace.base.native import load_core
from interlace.base.progress import progress
from interlace.cli.failures import failure_ends
from interlace.cli.shared_options import Jobs, simulations_at_a_time
from interlace.model.results import json_text, provenance
from interlace.nodes.nodes import CudaNode, real_node
from interlace.reproduce.rows import FORMAT, Document, Run, print_rows
from interlace.reproduce.runs import Runner

# Each is a module here, of that name, with
#
#   TITLE                               for the headline
#   inputs(quick) -> dict               sizes and seeds, for the file
#   steps(quick, gpus) -> int           how often `reproduce` calls the runner's tick, at most
#   UNVERIFIED                          why runs may have no result to verify; need not be there
#   reproduce(runner, node, quick) -> list[FigureRow]   `node` is the real one, or None
PAPERS = ("proact", "finepack", "multipath", "dualopt")

REPEATS = 3  # of measured runs
WARMUP = 1


def _real_node() -> CudaNode | None:
    """The GPUs of this computer, if it has any that can be used."""
    try:
        return real_node(WARMUP, REPEATS, hint="")
    except UserError:
        return None


def _order(run: Run) -> tuple[object, ...]:
    """Runs end in no fixed order; the file has one."""
    config = sorted(run.config.items())
    return run.node, run.machine, run.workload, run.data, run.gpus, run.mechanism, config


def reproduce_command(
    paper: Annotated[
        str | None, typer.Argument(metavar="PAPER", help=f"One of: {', '.join(PAPERS)}.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Smaller inputs and fewer runs: minutes, not an hour.")
    ] = False,
    jobs: Jobs = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write all figures and runs.")
    ] = None,
) -> None:
    """Run what a paper's figures need, and print each published figure beside ours.

    Simulated on the paper's machines; measured where this computer has GPUs. Every result is
    verified first: a wrong one ends the command with exit code 1.
    """
    from interlace.base import files

    if paper is None:
        raise UserError(f"reproduce needs the name of a paper; there are {', '.join(PAPERS)}")
    if paper not in PAPERS:
        raise unknown("paper", paper, PAPERS)
    at_once = simulations_at_a_time(jobs)
    if json_file is not None:
        files.check_writable(json_file, "--json")
    module: Any = importlib.import_module(f"interlace.reproduce.{paper}")
    core = load_core()
    node = _real_node()
    begun = time.monotonic()
    with failure_ends(), progress(f"reproduce {paper}", module.steps(quick, node)) as tick:
        runner = Runner(core, at_once, tick)
        rows = module.reproduce(runner, node, quick)
    document = Document(
        format=FORMAT,
        paper=paper,
        quick=quick,
        **provenance(),
        seconds=round(time.monotonic() - begun, 1),
        jobs=at_once,
        inputs=module.inputs(quick),
        rows=rows,
        runs=sorted(runner.runs, key=_order),
    )
    errors = [run.max_error for run in runner.runs if run.max_error is not None]
    foot = [f"{len(errors)} runs verified; the largest relative error is {max(errors):.1e}."]
    if len(errors) < len(runner.runs):
        why = getattr(module, "UNVERIFIED", "measured, they moved nothing between GPUs.")
        foot.append(f"{len(runner.runs) - len(errors)} runs have no result to verify: {why}")
    foot.append(f"It took {document.seconds:.0f} s with {at_once} simulations at a time.")
    if node is None:
        foot.append("Nothing is measured: there are no GPUs here that can be used.")
    if quick:
        foot.append("--quick: small inputs, on which launches and flags weigh more.")
    texts = {} if json_file is None else {json_file: partial(json_text, document)}
    files.show_and_write(partial(print_rows, module.TITLE, rows, foot), texts)
