"""The papers whose figures can be reproduced, and the code that reproduces a paper."""

from __future__ import annotations

import importlib
import time
from typing import Any, NamedTuple

from interlace.base.errors import UserError
from interlace.base.native import load_core
from interlace.base.progress import progress
from interlace.model.results import provenance
from interlace.nodes.nodes import CudaNode, real_node
from interlace.reproduce.rows import FORMAT, Document, Run
from interlace.reproduce.runs import Runner

# Each paper is a module of this package. The module has these names:
#
#   TITLE                          the headline
#   inputs(quick) -> dict          returns the sizes and seeds for the results file
#   steps(quick, gpus) -> int      returns the largest number of calls of the runner's tick
#   UNVERIFIED                     optional: the reason why a run may have no result to verify
#   reproduce(runner, node, quick) -> list[FigureRow]
#                                  makes the runs; `node` is the real node, or None
PAPERS = ("proact", "finepack", "multipath", "dualopt")

REPEATS = 3  # the number of measured runs for each case
WARMUP = 1


def _real_node() -> CudaNode | None:
    """Return the GPUs of this computer, or None if no GPU can be used."""
    try:
        return real_node(WARMUP, REPEATS, hint="")
    except UserError:
        return None


def _order(run: Run) -> tuple[object, ...]:
    """Return a sort key of a run. Runs end in any order, but the file has a fixed order."""
    config = sorted(run.config.items())
    return run.node, run.machine, run.workload, run.data, run.gpus, run.mechanism, config


class Reproduced(NamedTuple):
    """A paper's figures, compared with the figures of Interlace's runs."""

    title: str
    document: Document
    summary: list[str]  # sentences that summarise all rows


def run(paper: str, quick: bool, jobs: int) -> Reproduced:
    """Make the runs that a paper's figures need, and compute the figures."""
    module: Any = importlib.import_module(f"interlace.reproduce.{paper}")
    core = load_core()
    node = _real_node()
    begun = time.monotonic()
    with progress(f"reproduce {paper}", module.steps(quick, node)) as tick:
        runner = Runner(core, jobs, tick)
        rows = module.reproduce(runner, node, quick)
    document = Document(
        format=FORMAT,
        paper=paper,
        quick=quick,
        **provenance(),
        seconds=round(time.monotonic() - begun, 1),
        jobs=jobs,
        inputs=module.inputs(quick),
        rows=rows,
        runs=sorted(runner.runs, key=_order),
    )
    errors = [run.max_error for run in runner.runs if run.max_error is not None]
    summary = []
    if quick:
        summary.append(
            "--quick: the inputs are small, so launches and flags weigh more than in full runs."
        )
    if node is None:
        summary.append("Nothing was measured: this computer has no GPUs that can be used.")
    summary.append(f"{len(errors)} runs verified; the largest relative error is {max(errors):.1e}.")
    if len(errors) < len(runner.runs):
        why = getattr(module, "UNVERIFIED", "they were measured without transfers.")
        summary.append(f"{len(runner.runs) - len(errors)} runs have no result to verify: {why}")
    summary.append(f"The runs took {document.seconds:.0f} s with {jobs} simulations at a time.")
    return Reproduced(module.TITLE, document, summary)
