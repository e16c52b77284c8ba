"""Compares a simulated machine with measurements of the real machine. This is a calibration."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import msgspec

from interlace.base.errors import UserError
from interlace.base.native import load_core
from interlace.base.progress import progress
from interlace.machine.compiled import to_core
from interlace.machine.schema import Machine
from interlace.model.mechanisms import BASELINE
from interlace.model.results import Head, provenance
from interlace.model.run import Case, RunFailure, core_errors
from interlace.nodes.nodes import in_processes, real_node
from interlace.study.calibration_gpus import METHOD, REPEATS, Gpus
from interlace.study.calibration_row import (
    FITTED,
    FITTED_TO_ALL,
    ONE_PROPERTY,
    PREDICTED,
    STATED,
    Definition,
)
from interlace.study.measured_file import Origin, origin, read_measured_file

FORMAT = 1  # the format version of results files


class MeasuredRow(msgspec.Struct, forbid_unknown_fields=True):
    """A measured row in a file. The calibration's row with the same name has the unit."""

    row: str
    value: float


class MeasuredRows(Origin, forbid_unknown_fields=True, kw_only=True):
    """The content of a file of measured rows."""

    rows: list[MeasuredRow]


class CalibrationRow(msgspec.Struct):
    """A row with its error. `measured` is None for a row that was not measured."""

    row: str
    family: str
    group: str
    unit: str
    measured: float
    simulated: float
    error: float  # the simulated value divided by the measured value, minus 1


class Missing(msgspec.Struct):
    """A row that was not measured, and the reason."""

    row: str
    reason: str


class Family(msgspec.Struct):
    """The errors of one family of rows in one group, as absolute values."""

    family: str
    group: str
    rows: int
    mean: float
    worst: float
    worst_row: str


class CalibrationResults(Head, frozen=True):
    """The content of a results file of `interlace calibrate`."""

    machine: str
    measured: dict[str, str]  # facts about the origin of the measured values
    families: list[Family]
    rows: list[CalibrationRow]
    not_measured: list[Missing]


# --- the measured column --------------------------------------------------------------------------


def read_measured(path: Path, known: Sequence[str]) -> MeasuredRows:
    """Return the rows of a file. Raise UserError if the file is not a file of measured rows."""
    return read_measured_file(
        path,
        MeasuredRows,
        "measured rows",
        known,
        lambda row: (row.row, row.value, "row"),
    )


def measure_rows(
    rows: Sequence[Definition], gpus: Gpus, tick: Callable[[], None]
) -> tuple[list[MeasuredRow], dict[str, str], bool]:
    """Measure the rows on these GPUs.

    Return the measured rows, the reason for each missing row, and whether a measurement failed.
    """
    found: list[MeasuredRow] = []
    reasons: dict[str, str] = {}
    failed = False
    for row in rows:
        if row.gpus > gpus.count:
            reasons[row.key] = f"needs {row.gpus} GPUs, and this computer has {gpus.count}"
        else:
            try:
                found.append(MeasuredRow(row.key, row.measure(gpus)))
            except UserError as refused:
                reasons[row.key] = str(refused)
            except RunFailure as failure:
                reasons[row.key] = f"failed: {failure}"
                failed = True
        tick()
    return found, reasons, failed


def measure_here(rows: Sequence[Definition]) -> tuple[MeasuredRows, dict[str, str], bool]:
    """Measure the rows on this computer's GPUs. Return the same items as `measure_rows`."""
    hint = "give a file of measured rows with --measured FILE"
    node = real_node(1, REPEATS, hint=hint)
    gpus = Gpus(node)
    with progress(f"rows on {node.machine_name}", len(rows), "rows") as tick:
        found, reasons, failed = measure_rows(rows, gpus, tick)
    if not found:
        raise UserError(f"no row can be measured here: {next(iter(reasons.values()))}")
    measured = MeasuredRows(
        **origin(),
        machine=f"{node.gpus} x {node.info['name']}",
        driver=str(node.info["driver"]),
        cuda=str(node.info["cuda"]),
        method=METHOD,
        rows=found,
    )
    return measured, reasons, failed


# --- the comparison -------------------------------------------------------------------------------


def simulate(
    rows: Sequence[Definition], machine: Machine, jobs: int, tick: Callable[[], None]
) -> list[float]:
    """Return the simulated value of each row."""
    core = load_core()
    described = to_core(machine, core)

    def one(index: int, row: Definition) -> tuple[int, float]:
        with core_errors(row.key):
            return index, row.simulate(core, described, machine)

    work = [partial(one, index, row) for index, row in enumerate(rows)]
    found: dict[int, float] = {}
    for index, value in in_processes(work, [Case(2, BASELINE)] * len(work), jobs):
        found[index] = value
        tick()
    return [found[index] for index in range(len(rows))]


def families(rows: Sequence[CalibrationRow]) -> list[Family]:
    """Summarise the errors by group and family, in the order of the rows."""
    found = []
    for group in GROUPS:
        of_group = [row for row in rows if row.group == group]
        for family in dict.fromkeys(row.family for row in of_group):
            own = [row for row in of_group if row.family == family]
            worst = max(own, key=lambda row: abs(row.error))
            mean = statistics.fmean(abs(row.error) for row in own)
            found.append(Family(family, group, len(own), mean, abs(worst.error), worst.row))
    return found


GROUPS = {
    FITTED: "One pair and one stream: the keys of the machine file may be fitted to these rows",
    ONE_PROPERTY: "One property of a GPU: the keys of the machine file may be fitted to these rows",
    FITTED_TO_ALL: "Several pairs: a key of the machine file was fitted to these rows",
    STATED: "Measured rates: the machine file holds the measured values themselves",
    PREDICTED: "Predictions: nothing is fitted to these rows",
}


def compare(
    machine: Machine, rows: Sequence[Definition], given: MeasuredRows,
    reason: Callable[[str], str], jobs: int,
) -> CalibrationResults:  # fmt: skip
    """Simulate each measured row, and compare the simulated value with the measured value.

    `reason` returns why a row was not measured.
    """
    values = {row.row: row.value for row in given.rows}
    compared = [row for row in rows if row.key in values]
    with progress(f"calibration of {machine.name}", len(compared), "rows") as tick:
        simulated = simulate(compared, machine, jobs, tick)
    found = [
        CalibrationRow(row.key, row.family, row.group, row.unit, values[row.key], value,
            value / values[row.key] - 1)
        for row, value in zip(compared, simulated, strict=True)
    ]  # fmt: skip
    return CalibrationResults(
        format=FORMAT,
        **provenance(),
        machine=machine.name,
        measured=given.described(),
        families=families(found),
        rows=found,
        not_measured=[Missing(row.key, reason(row.key)) for row in rows if row.key not in values],
    )
