"""`interlace calibrate`: compares a simulated machine with measurements of the real machine."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from interlace.base import files
from interlace.base.errors import UserError
from interlace.cli.failures import failure_ends
from interlace.cli.shared_options import Jobs, ResultsFile, simulations_at_a_time
from interlace.machine.reading import load_machine
from interlace.machine.schema import Machine
from interlace.model.results import json_text
from interlace.show.calibrate import print_calibration
from interlace.show.workload_calibration import print_workloads
from interlace.study import calibration, workload_calibration
from interlace.study.calibrate import compare, measure_here, read_measured

DEFAULT_MACHINE = "hgx-h200-4"


def calibrate_command(
    machine: Annotated[
        str,
        typer.Option("--machine", "-m", metavar="NAME|FILE", help="The simulated machine."),
    ] = DEFAULT_MACHINE,
    measured: Annotated[
        Path | None,
        typer.Option(
            "--measured",
            metavar="FILE",
            help="A file of measured rows. [default: rows measured on this computer's GPUs]",
        ),
    ] = None,
    save_measured: Annotated[
        Path | None,
        typer.Option(
            "--save-measured",
            metavar="FILE",
            help=(
                "Write the rows that are measured on this computer's GPUs to this file, for a "
                "later --measured."
            ),
        ),
    ] = None,
    workloads: Annotated[
        bool,
        typer.Option(
            "--workloads",
            help=(
                "Compare the times of whole workloads on one GPU. With this option, the files of "
                "--measured and --save-measured hold measured workloads instead of rows."
            ),
        ),
    ] = False,
    jobs: Jobs = None,
    json_file: ResultsFile = None,
) -> None:
    """Compare a simulated machine with measured rows, and print the errors by family.

    The planner predicts the times of rows about host memory. The simulator predicts the times of
    rows about kernels and copies.
    """
    described = load_machine(machine)
    if workloads:
        _workloads(described, measured, save_measured, simulations_at_a_time(jobs), json_file)
        return
    calibration.check_machine(described)
    rows = calibration.definitions()
    at_a_time = simulations_at_a_time(jobs)
    _check_files(measured, save_measured, json_file)
    known = [row.key for row in rows]
    given, reasons, failed = (
        measure_here(rows) if measured is None else (read_measured(measured, known), {}, False)
    )
    if save_measured is not None:  # write the file now, because the simulations take long
        files.write_all({save_measured: json_text(given)})
    missing = f"not in {measured}"
    with failure_ends():
        results = compare(described, rows, given, lambda key: reasons.get(key, missing), at_a_time)
    texts = {} if json_file is None else {json_file: partial(json_text, results)}
    files.show_and_write(partial(print_calibration, results), texts)
    if failed:
        raise typer.Exit(1)


def _check_files(measured: Path | None, save_measured: Path | None, json_file: Path | None) -> None:
    if measured is not None and save_measured is not None:
        raise UserError(
            "--save-measured keeps the rows that are measured here; leave --measured out"
        )
    outputs = {"--json": json_file, "--save-measured": save_measured}
    files.check_outputs(outputs, {"--measured": measured})


def _workloads(
    machine: Machine,
    measured: Path | None,
    save_measured: Path | None,
    jobs: int,
    json_file: Path | None,
) -> None:
    """Compare the times of workloads."""
    _check_files(measured, save_measured, json_file)
    with failure_ends():
        if measured is None:
            given, reasons = workload_calibration.measure_here(jobs)
        else:
            given, reasons = workload_calibration.read_measured(measured), {}
        # write the file now, because the simulations take long
        if save_measured is not None:
            files.write_all({save_measured: json_text(given)})
        results = workload_calibration.compare(machine, given, reasons, jobs)
    texts = {} if json_file is None else {json_file: partial(json_text, results)}
    files.show_and_write(partial(print_workloads, results), texts)
    if reasons:
        raise typer.Exit(1)
