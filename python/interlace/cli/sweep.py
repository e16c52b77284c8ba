"""`interlace sweep`: runs a workload on every machine of a design space."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from interlace.base import files
from interlace.base.errors import UserError
from interlace.cli.failures import failure_ends, say
from interlace.cli.shared_options import Jobs, ResultsFile, simulations_at_a_time
from interlace.model.results import json_text
from interlace.show.sweep import csv_text, print_sweep
from interlace.study.design_space import load_design_space
from interlace.study.sweep import run_sweep


def sweep_command(
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE.toml", help="The design space.")
    ] = None,
    runs_file: Annotated[
        Path | None,
        typer.Option(
            "--runs",
            metavar="FILE",
            help=(
                "Keep finished runs in this file. Runs that are already in the file are not "
                "repeated.  [default: FILE.runs.jsonl in this folder]"
            ),
        ),
    ] = None,
    jobs: Jobs = None,
    scheduler: Annotated[
        str | None,
        typer.Option(
            "--scheduler",
            metavar="ADDRESS",
            help="Make the runs on workers of this Dask scheduler, such as tcp://10.0.0.1:8786.",
        ),
    ] = None,
    json_file: ResultsFile = None,
    csv_file: Annotated[
        Path | None,
        typer.Option("--csv", metavar="FILE", help="Write a CSV file with a line for each run."),
    ] = None,
) -> None:
    """Run a workload on every machine of a design space.

    Finished runs are kept, so the same command continues a sweep that was stopped. If you change
    the file, the command makes only the runs that your change affects.
    """
    if file is None:
        raise UserError("sweep needs a file that describes the design space, FILE.toml")
    at_once = simulations_at_a_time(jobs)
    if scheduler is not None and jobs is not None:
        raise UserError("--jobs and --scheduler exclude each other; leave one out")
    space = load_design_space(file)
    runs_path = runs_file or Path(f"{file.stem}.runs.jsonl")
    outputs = {"--json": json_file, "--csv": csv_file, "--runs": runs_path}
    files.refuse_stdout(runs_path, "--runs")
    files.require_regular(runs_path)
    files.check_outputs(outputs, {"FILE": file, **space.inputs.files()})

    with failure_ends():
        result = run_sweep(space, runs_path, at_once, scheduler, say)
    texts: dict[Path, Callable[[], str]] = {}
    if json_file is not None:
        texts[json_file] = partial(json_text, result)
    if csv_file is not None:
        texts[csv_file] = partial(csv_text, result)
    files.show_and_write(partial(print_sweep, result), texts)
