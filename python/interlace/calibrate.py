"""`interlace calibrate`: how far a simulated machine is from the one that was measured."""

from __future__ import annotations

import importlib
import importlib.util
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from interlace import calibration, files, table
from interlace.calibration import FITTED, PREDICTED, STATED, Definition
from interlace.errors import UserError
from interlace.machines import Machine, load_machine, to_core
from interlace.mechanisms import BASELINE, KIB, MIB, size_text
from interlace.nodes import in_processes, load_core
from interlace.progress import progress
from interlace.results import json_text, provenance
from interlace.shared_options import Jobs, ResultsFile, simulations_at_a_time
from interlace.workloads import Case, RunFailure, core_errors

FORMAT = 1  # of both files
DEFAULT_MACHINE = "hgx-h200-4"
GROUPS = {
    FITTED: "One pair and one stream: the machine file may be fitted to these rows",
    STATED: "Rates that the machine file states as they were measured",
    PREDICTED: "Predictions: nothing is fitted to these rows",
}
LINK_SIZES = [64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB, 256 * MIB]


class MeasuredRow(msgspec.Struct, forbid_unknown_fields=True):
    """A row of a file of measured rows; the unit is that of the row of this name."""

    row: str
    value: float


class MeasuredRows(msgspec.Struct, forbid_unknown_fields=True):
    """A file of measured rows."""

    format: int
    machine: str
    driver: str
    cuda: str
    date: str
    method: str
    rows: list[MeasuredRow]


class Row(msgspec.Struct):
    """A row and its error; None where it was not measured."""

    row: str
    family: str
    group: str
    unit: str
    measured: float
    simulated: float
    error: float  # simulated over measured, less 1


class Family(msgspec.Struct):
    """Absolute errors of a family's rows of a group."""

    family: str
    group: str
    rows: int
    mean: float
    worst: float
    worst_row: str


class Results(msgspec.Struct):
    """A file of results."""

    format: int
    command: str
    version: str
    commit: str | None
    date: str
    machine: str
    measured: dict[str, str]  # where the measured column comes from
    families: list[Family]
    rows: list[Row]
    not_measured: list[str]


# --- the measured column --------------------------------------------------------------------------


def read_measured(path: Path, known: Sequence[str]) -> MeasuredRows:
    """The rows of a file; raises UserError where it cannot be one."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UserError(f"--measured {path}: {error.strerror}") from None
    try:
        found = msgspec.json.decode(data, type=MeasuredRows)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UserError(f"--measured {path} is no file of measured rows: {error}") from None
    if found.format != FORMAT:
        raise UserError(f"--measured {path}: format is {found.format}; it must be {FORMAT}")
    seen: set[str] = set()
    for row in found.rows:
        if row.row not in known:
            raise UserError(f"--measured {path}: there is no row {row.row!r}")
        if row.row in seen:
            raise UserError(f"--measured {path}: row {row.row!r} is there twice")
        if not (math.isfinite(row.value) and row.value > 0):
            raise UserError(f"--measured {path}: row {row.row!r} is not above 0")
        seen.add(row.row)
    if not found.rows:
        raise UserError(f"--measured {path} has no rows")
    return found


def measure_here() -> MeasuredRows:
    """The rows that this computer's GPUs give: copies between two of them and with the host."""
    hint = "give a file of measured rows with --measured"
    if importlib.util.find_spec("interlace._cuda") is None:
        raise UserError(f"this Interlace was built without CUDA; {hint}")
    try:
        cuda = importlib.import_module("interlace._cuda")
        with core_errors(cuda):
            info = dict(cuda.device_info())
            links = list(cuda.measure_links(LINK_SIZES, 5))
    except (ImportError, RunFailure, UserError) as error:
        raise UserError(f"the GPUs cannot be used ({error}); {hint}") from None
    rows = measured_links(links)
    if not rows:
        raise UserError(f"there are no two GPUs here; {hint}")
    return MeasuredRows(
        FORMAT, f"{info['gpus']} x {info['name']}", str(info["driver"]), str(info["cuda"]), "now",
        "copies of interlace topo --measure", rows,
    )  # fmt: skip


def measured_links(links: Sequence[Mapping[str, Any]]) -> list[MeasuredRow]:
    """Rows from measured copies between GPU 0 and GPU 1, and GPU 0 and the host."""
    names = {(0, 1): "copy of {} to a peer", (-1, 0): "host to GPU", (0, -1): "GPU to host"}
    both = {(0, 1): "copies both ways at once, sum", (-1, 0): "host and GPU both ways, sum"}
    found: dict[str, float] = {}
    for link in links:
        ends = _number(link["from"]), _number(link["to"])
        size, peers = int(link["bytes"]), ends == (0, 1)
        largest = size == LINK_SIZES[-1]
        if ends in names and (peers or largest):
            found[names[ends].format(size_text(size))] = float(link["gb_per_s"])
        if ends in both and largest and link["both_gb_per_s"] is not None:
            found[both[ends]] = float(link["both_gb_per_s"])
    return [MeasuredRow(key, value) for key, value in found.items()]


def _number(end: Any) -> int:
    """A GPU's number; -1 for the host."""
    if isinstance(end, str):
        return -1 if end == "host" else int(end.removeprefix("gpu"))
    return int(end)


# --- the comparison -------------------------------------------------------------------------------


def simulate(
    rows: Sequence[Definition], machine: Machine, jobs: int, tick: Callable[[], None]
) -> list[float]:
    """What the simulated machine gives for each row."""
    core = load_core()
    described = to_core(machine, core)

    def one(index: int, row: Definition) -> tuple[int, float]:
        with core_errors(core, row.key):
            return index, row.simulate(core, described, machine)

    work = [partial(one, index, row) for index, row in enumerate(rows)]
    found: dict[int, float] = {}
    for index, value in in_processes(work, [Case(2, BASELINE)] * len(work), jobs):
        found[index] = value
        tick()
    return [found[index] for index in range(len(rows))]


def families(rows: Sequence[Row]) -> list[Family]:
    """Errors by group and family, in the order of the rows."""
    found = []
    for group in GROUPS:
        of_group = [row for row in rows if row.group == group]
        for family in dict.fromkeys(row.family for row in of_group):
            own = [row for row in of_group if row.family == family]
            worst = max(own, key=lambda row: abs(row.error))
            mean = statistics.fmean(abs(row.error) for row in own)
            found.append(Family(family, group, len(own), mean, abs(worst.error), worst.row))
    return found


def show(of: Results) -> None:
    """Prints the rows, then each family's errors."""
    print(
        f"{of.machine}, simulated, beside what was measured on {of.measured['machine']}, driver "
        f"{of.measured['driver']}, CUDA {of.measured['cuda']}, {of.measured['date']}"
    )
    for group, headline in GROUPS.items():
        rows = [row for row in of.rows if row.group == group]
        if not rows:
            continue
        print()
        columns = [
            table.Column("row", "", [row.row for row in rows], number=False),
            table.Column("measured", "", [_figure(row.measured) for row in rows]),
            table.Column("simulated", "", [_figure(row.simulated) for row in rows]),
            table.Column("", "", [row.unit for row in rows], number=False),
            table.Column("error", "%", [f"{100 * row.error:+.1f}" for row in rows]),
        ]
        order = list(dict.fromkeys(row.family for row in rows))
        foot = [
            f"{it.family}: mean {100 * it.mean:.1f} %, worst {100 * it.worst:.1f} % "
            f"({it.worst_row})"
            for it in of.families
            if it.group == group
        ]
        groups = [order.index(row.family) for row in rows]
        table.print_table(headline + ".", columns, groups, [""] * len(rows), foot)
    if of.not_measured:
        print()
        print(f"Not measured, and left out: {', '.join(of.not_measured)}.")


def _figure(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


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
            help="A file of measured rows. Without it: what the GPUs of this computer give.",
        ),
    ] = None,
    jobs: Jobs = None,
    json_file: ResultsFile = None,
) -> None:
    """Compare a simulated machine with measured rows: its error in each, by families.

    Rows of host memory are the planner's predictions; kernels' and copies' are simulated.
    """
    described = load_machine(machine)
    calibration.check_machine(described)
    rows = calibration.definitions()
    at_a_time = simulations_at_a_time(jobs)
    if json_file is not None:
        files.check_writable(json_file, "--json")
    known = [row.key for row in rows]
    given = measure_here() if measured is None else read_measured(measured, known)
    values = {row.row: row.value for row in given.rows}
    compared = [row for row in rows if row.key in values]
    try:
        with progress(f"calibration of {described.name}", len(compared), "rows") as tick:
            simulated = simulate(compared, described, at_a_time, tick)
    except RunFailure as failure:
        typer.echo(f"interlace: {failure}", err=True)
        raise typer.Exit(1) from None
    found = [
        Row(row.key, row.family, row.group, row.unit, values[row.key], value,
            value / values[row.key] - 1)
        for row, value in zip(compared, simulated, strict=True)
    ]  # fmt: skip
    results = Results(
        format=FORMAT,
        **provenance(),
        machine=described.name,
        measured={
            "machine": given.machine,
            "driver": given.driver,
            "cuda": given.cuda,
            "date": given.date,
            "method": given.method,
        },
        families=families(found),
        rows=found,
        not_measured=[key for key in known if key not in values],
    )
    texts = {} if json_file is None else {json_file: partial(json_text, results)}
    files.show_and_write(partial(show, results), texts)
