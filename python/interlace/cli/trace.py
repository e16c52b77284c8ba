"""`interlace trace`: records, converts, describes and replays traces of accesses."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from interlace.base import files
from interlace.base.errors import UserError, unknown
from interlace.base.native import load_core
from interlace.base.printable import printable
from interlace.cli.failures import failure_ends
from interlace.cli.shared_options import ResultsFile, WorkloadName, known_workload
from interlace.cli.workload_options import ReadInputs, takes_inputs
from interlace.machine.reading import load_machine
from interlace.model.mechanism_table import INLINE, RANGES, SPLIT
from interlace.model.mechanisms import RECORDED, REPLAYED, Config
from interlace.model.options import whole
from interlace.model.results import json_text, provenance
from interlace.model.run import Case
from interlace.show.traces import print_replay, print_summary
from interlace.study.trace_files import COMPONENT, FORMATS
from interlace.study.traces import (
    FORMAT,
    Foreign,
    convert_foreign,
    is_ours,
    recorded,
    replayed,
    statistics,
    summary,
)
from interlace.workloads import WORKLOADS, inputs_of

File = Annotated[Path | None, typer.Argument(metavar="FILE")]
MapOption = Annotated[
    Path | None,
    typer.Option(
        "--map",
        metavar="FILE",
        help=(
            "For accel-sim and nvbit: a TOML file that says which GPU owns each address "
            "(docs/how-to/traces.md)."
        ),
    ),
]
GpusOption = Annotated[
    str | None,
    typer.Option("--gpus", "-g", metavar="N", help="For mgpusim: the number of GPUs in the trace."),
]
FormatOption = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="NAME",
        help="The format of another tool's file: "
        f"{', '.join(FORMATS)}.  [default: recognised from the file]",
    ),
]
ComponentOption = Annotated[
    str | None,
    typer.Option(
        "--component",
        metavar="NAME",
        help=(
            "For mgpusim: read the accesses of components whose names contain this text.  "
            f"[default: {COMPONENT}]"
        ),
    ),
]


def _existing(command: str, file: Path | None) -> Path:
    if file is None:
        raise UserError(f"trace {command} needs the name of a file")
    files.require_regular(file)
    try:
        with file.open("rb"):
            return file
    except OSError as error:
        raise UserError(f"{file} cannot be read: {error.strerror or error}") from None


def _deliver(show: Callable[[], None], document: dict[str, Any], json_file: Path | None) -> None:
    whole_document = {"format": FORMAT, **provenance(), **document}
    texts = {} if json_file is None else {json_file: partial(json_text, whole_document)}
    files.show_and_write(show, texts)


def info(
    file: File = None,
    map_file: MapOption = None,
    gpus: GpusOption = None,
    format_: FormatOption = None,
    component: ComponentOption = None,
    json_file: ResultsFile = None,
) -> None:
    """Describe a trace: accesses by kind and by GPU, remote accesses, locality, store sizes."""
    path = _existing("info", file)
    said = Foreign(map_file, gpus, format_, component)
    files.check_outputs({"--json": json_file}, {"FILE": path, "--map": map_file})
    core = load_core()
    with failure_ends():
        found = statistics(core, path, said)
    it = summary(found)
    foot = []
    if it["file_bytes"]:
        each = it["file_bytes"] / max(1, it["accesses"])
        foot.append(
            f"{it['file_bytes']:,} bytes, {each:.1f} bytes per access; all check sums are right."
        )
    _deliver(partial(print_summary, str(path), it, foot), {"trace": it}, json_file)


def convert(
    file: Annotated[Path | None, typer.Argument(metavar="IN")] = None,
    out: Annotated[Path | None, typer.Argument(metavar="OUT")] = None,
    map_file: MapOption = None,
    gpus: GpusOption = None,
    format_: FormatOption = None,
    component: ComponentOption = None,
    json_file: ResultsFile = None,
) -> None:
    """Convert a trace of Accel-Sim, NVBit's mem_trace or MGPUSim into Interlace's format."""
    path = _existing("convert", file)
    if out is None:
        raise UserError("trace convert needs two files: the file to read and the file to write")
    files.refuse_stdout(out, "OUT")
    files.check_outputs({"OUT": out, "--json": json_file}, {"IN": path, "--map": map_file})
    core = load_core()
    if is_ours(core, path):
        raise UserError(f"{path} is already a trace of Interlace")
    with failure_ends():
        found, lines, seconds = convert_foreign(
            core, path, Foreign(map_file, gpus, format_, component), out
        )
    it = summary(found)
    it["file_bytes"] = out.stat().st_size
    foot = [
        f"{out}: {it['file_bytes']:,} bytes, converted from {lines:,} lines at "
        f"{60e-6 * lines / seconds:.1f} million lines per minute."
    ]
    document = {"trace": it, "lines": lines, "seconds": seconds}
    _deliver(partial(print_summary, str(path), it, foot), document, json_file)


def replay(
    file: File = None,
    machine: Annotated[
        str | None,
        typer.Option(
            "--machine", "-m", metavar="NAME|FILE", help="A shipped machine or a .toml file."
        ),
    ] = None,
    mechanism: Annotated[
        str,
        typer.Option(
            "--mechanism",
            metavar="NAME",
            help=f"How stores reach other GPUs: {', '.join(REPLAYED)}.",
        ),
    ] = REPLAYED[0],
    json_file: ResultsFile = None,
) -> None:
    """Replay a trace file of Interlace on a simulated machine."""
    path = _existing("replay", file)
    if machine is None:
        raise UserError("--machine is missing: name the machine to run the trace on")
    if mechanism not in REPLAYED:
        raise unknown("replayable mechanism", mechanism, REPLAYED)
    files.check_outputs({"--json": json_file}, {"FILE": path, "--machine": Path(machine)})
    core = load_core()
    if not is_ours(core, path):
        raise UserError(f"{path} is not a trace of Interlace; convert it with trace convert")
    description = load_machine(machine)
    with failure_ends():
        it = replayed(core, path, description, mechanism)
    document = {"file": str(path), "machine": description.name, "mechanism": mechanism, **it}
    show = partial(print_replay, str(path), description.name, mechanism, it)
    _deliver(show, document, json_file)


@takes_inputs
def record(
    inputs: ReadInputs,
    workload: WorkloadName = None,
    machine: Annotated[
        str | None,
        typer.Option(
            "--machine", "-m", metavar="NAME|FILE", help="A shipped machine or a .toml file."
        ),
    ] = None,
    gpus: Annotated[
        str | None,
        typer.Option("--gpus", "-g", metavar="N", help="GPUs to use.  [default: all]"),
    ] = None,
    mechanism: Annotated[
        str, typer.Option("--mechanism", metavar="NAME", help=f"One of: {', '.join(RECORDED)}.")
    ] = INLINE,
    split: Annotated[
        str | None,
        typer.Option(
            "--split", metavar="N", help=f"Ranges of {SPLIT}.  [default: {RANGES.default}]"
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="The file to write.")
    ] = None,
) -> None:
    """Run a workload on a simulated machine and record the accesses of its warps."""
    workload = known_workload("trace record", workload)
    given_inputs = inputs()
    if machine is None:
        raise UserError("--machine is missing: name the machine to record on")
    if out is None:
        raise UserError("--output is missing: name the file to write")
    if mechanism not in RECORDED:
        raise unknown("recordable mechanism", mechanism, RECORDED)
    if split is not None and mechanism != SPLIT:
        raise UserError(f"--split is for the mechanism {SPLIT}, not {mechanism}; leave it out")
    ranges = whole("--split", split, RANGES.least) or RANGES.default
    asked = inputs_of(workload, given_inputs)
    files.refuse_stdout(out, "--output")
    files.check_outputs({"--output": out}, asked.files())
    description = load_machine(machine)
    count = whole("--gpus", gpus, 1) or description.gpu.count
    if count > description.gpu.count:
        raise UserError(f"--gpus {count}: {description.name} has {description.gpu.count} GPUs")
    core = load_core()
    config = Config(ranges=ranges if mechanism == SPLIT else None)
    with failure_ends():
        loaded = WORKLOADS[workload].load(asked, None)
        found = recorded(core, loaded, description, Case(count, mechanism, config), out)
    print(
        f"{printable(str(out))}: {out.stat().st_size:,} bytes, "
        f"{found.accesses:,} accesses of lines, "
        f"{found.remote_transactions:,} remote transactions, {1e6 * found.time_s:.4g} us of "
        "simulated time. The result is right."
    )


COMMANDS: dict[str, Callable[..., None]] = {
    "info": info,
    "convert": convert,
    "replay": replay,
    "record": record,
}
