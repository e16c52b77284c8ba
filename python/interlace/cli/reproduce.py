"""`interlace reproduce`: compares a paper's published figures with Interlace's figures."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from interlace.base import files
from interlace.base.errors import UserError, unknown
from interlace.cli.failures import failure_ends
from interlace.cli.shared_options import Jobs, json_option, simulations_at_a_time
from interlace.model.results import json_text
from interlace.reproduce.papers import PAPERS, run
from interlace.reproduce.rows import print_rows


def reproduce_command(
    paper: Annotated[
        str | None, typer.Argument(metavar="PAPER", help=f"One of: {', '.join(PAPERS)}.")
    ] = None,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help="Use smaller inputs and fewer runs. This takes minutes instead of an hour.",
        ),
    ] = False,
    jobs: Jobs = None,
    json_file: Annotated[
        Path | None,
        json_option("all figures and runs"),
    ] = None,
) -> None:
    """Make the runs for a paper's figures, and print each published figure beside Interlace's
    figure.

    The simulator runs the paper's machines. If this computer has GPUs, the command also measures
    the workloads on them. Every result is verified before its figure is printed. A wrong result
    ends the command with exit code 1.
    """
    if paper is None:
        raise UserError(f"reproduce needs the name of a paper; give one of {', '.join(PAPERS)}")
    if paper not in PAPERS:
        raise unknown("paper", paper, PAPERS)
    at_once = simulations_at_a_time(jobs)
    if json_file is not None:
        files.check_writable(json_file, "--json")
    with failure_ends():
        found = run(paper, quick, at_once)
    texts = {} if json_file is None else {json_file: partial(json_text, found.document)}
    files.show_and_write(
        partial(print_rows, found.title, found.document.rows, found.summary), texts
    )
