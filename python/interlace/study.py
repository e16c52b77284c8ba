"""`interlace study`: a workload on a machine, by mechanism and number of GPUs.

A row is a mechanism on so many GPUs. Its result is verified before the row exists. Simulated rows
run in a process each; measured ones run one after another, alone.
"""

from __future__ import annotations

import datetime
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from interlace.cli import unknown, version
from interlace.errors import UserError
from interlace.evaluation import Plan, run_study
from interlace.nodes import (
    BASELINE,
    BOUND,
    MECHANISMS,
    CudaNode,
    Node,
    SimulatedNode,
    load_core,
    real_node,
)
from interlace.results import FORMAT, Row, Study, Timelines, commit, json_text
from interlace.workloads import WORKLOADS, Inputs, RunFailure, Workload

DEFAULT_SPLIT = "2,4,8,16,32"
DEFAULT_WARMUP = 2
DEFAULT_REPEATS = 5


# --- options --------------------------------------------------------------------------------------


def whole(option: str, text: str | None, least: int | None = None) -> int | None:
    """The whole number that an option was given, if it was."""
    if text is None:
        return None
    try:
        value = int(text)
    except ValueError:
        raise UserError(f"{option} {text!r}: give a whole number") from None
    if least is not None and value < least:
        raise UserError(f"{option} {value}: give a number of at least {least}")
    return value


def number(option: str, text: str | None) -> float | None:
    """The number that an option was given, if it was."""
    try:
        return None if text is None else float(text)
    except ValueError:
        raise UserError(f"{option} {text!r}: give a number") from None


def whole_numbers(option: str, text: str, what: str) -> list[int]:
    """The numbers of a list such as 1,2,4; ascending, each once."""
    found = set()
    for word in text.split(","):
        if not word.strip().isascii() or not word.strip().isdigit() or len(word.strip()) > 9:
            raise UserError(
                f"{option} {text!r}: give whole numbers of {what} with commas between them, "
                "such as 1,2,4"
            )
        found.add(int(word))
    if 0 in found:
        raise UserError(f"{option} {text!r}: 0 {what} cannot run anything; give at least 1")
    return sorted(found)


def parse_mechanisms(text: str) -> tuple[str, ...]:
    """The names of a list such as bulk-copy,inline; in the order of MECHANISMS."""
    names = {word.strip() for word in text.split(",")}
    for name in sorted(names):
        if name not in MECHANISMS:
            raise unknown("mechanism", name, MECHANISMS)
    return tuple(name for name in MECHANISMS if name in names)


def default_gpus(count: int) -> list[int]:
    """1, 2, 4, ... and all."""
    return sorted({1 << n for n in range(count.bit_length())} | {count})


def _chosen_gpus(text: str | None, count: int, machine: str) -> tuple[int, ...]:
    chosen = default_gpus(count) if text is None else whole_numbers("--gpus", text, "GPUs")
    if chosen[-1] > count:
        has = "1 GPU" if count == 1 else f"{count} GPUs"
        raise UserError(f"--gpus {chosen[-1]}: {machine} has {has}")
    return tuple(gpus for gpus in chosen if gpus != 1)


# --- the file of results --------------------------------------------------------------------------


def _notes(workload: Workload, node: Node, rows: Sequence[Row]) -> list[str]:
    notes = []
    if any(row.derived for row in rows):
        notes.append(
            "infinite-bandwidth is derived: the bulk-copy run's time less that of its copies."
        )
        if any(row.captured is not None and row.captured > 1 for row in rows):
            notes.append(
                "A mechanism captures more than 100 % of a derived opportunity where the bulk copy "
                "loses time besides its copies: the bound is an estimate."
            )
    elif any(row.gpus > 1 and row.opportunity is None for row in rows):
        bound = BOUND if node.runs(BOUND) else BASELINE
        notes.append(f"opportunity, captured and overlap need {bound} among the mechanisms.")
    if isinstance(node, CudaNode):
        notes.append(
            "Useful and wasted bytes are counted on the host node with the same boundaries; "
            "protocol is the NVLink counters' raw bytes less those, null without the counters."
        )
    else:
        notes.append(
            "peak_rss_mb is that of the row's own process, with the interpreter and the data."
        )
    for row in rows:
        notes.extend(
            f"{row.mechanism} on {row.gpus} GPUs: {remark}"
            for remark in row.config.get("remarks", ())
        )
    notes.append(
        f"Every device's result was compared with a float64 reference; relative errors up to "
        f"{workload.facts().get('max_allowed_error', 0):g} are allowed."
    )
    return notes


def _study(
    workload: Workload, node: Node, rows: list[Row], candidates: list[Row], command: str
) -> Study:
    return Study(
        format=FORMAT,
        command=command,
        version=version(),
        commit=commit(),
        date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        driver=node.driver,
        machine={"node": node.name, **node.description()},
        data=workload.facts(),
        notes=_notes(workload, node, rows),
        rows=rows,
        candidates=candidates,
    )


# --- progress -------------------------------------------------------------------------------------


@contextmanager
def _progress(what: str, steps: int) -> Iterator[Callable[[], None]]:
    """A bar with the time left on standard error, if that is a terminal; calls advance it."""
    if not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TextColumn("runs,"),
        TimeElapsedColumn(),
        TextColumn("gone,"),
        TimeRemainingColumn(),
        TextColumn("left"),
        console=Console(stderr=True),
        transient=True,
        speed_estimate_period=3600,
    )
    with bar:
        task = bar.add_task(what, total=steps)
        yield lambda: bar.advance(task)


# --- the command ----------------------------------------------------------------------------------


def study_command(
    workload: Annotated[
        str | None, typer.Argument(metavar="WORKLOAD", help=f"One of: {', '.join(WORKLOADS)}.")
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            "--data", metavar="FILE", help="Graph: .mtx, .txt, .el, .edges, .tsv, each also .gz."
        ),
    ] = None,
    rmat: Annotated[
        str | None,
        typer.Option(
            "--rmat", metavar="SCALE", help="Generate an R-MAT graph of 2**SCALE vertices."
        ),
    ] = None,
    edge_factor: Annotated[
        str | None,
        typer.Option("--edge-factor", metavar="N", help="R-MAT edges a vertex.  [default: 16]"),
    ] = None,
    seed: Annotated[
        str | None, typer.Option("--seed", metavar="N", help="R-MAT seed.  [default: 1]")
    ] = None,
    machine: Annotated[
        str | None,
        typer.Option(
            "--machine",
            "-m",
            metavar="NAME|FILE",
            help="Simulate this machine: a shipped one or a .toml file. Without it: the real GPUs.",
        ),
    ] = None,
    gpus: Annotated[
        str | None,
        typer.Option(
            "--gpus",
            "-g",
            metavar="LIST",
            help="Numbers of GPUs, such as 1,2,4; 1 is always run.  [default: 1,2,4,... and all]",
        ),
    ] = None,
    mechanisms: Annotated[
        str | None,
        typer.Option(
            "--mechanisms", metavar="LIST", help=f"Some of: {','.join(MECHANISMS)}.  [default: all]"
        ),
    ] = None,
    iterations: Annotated[
        str | None,
        typer.Option(
            "--iterations", "-n", metavar="N", help="Iterations, or with -t at most.  [default: 10]"
        ),
    ] = None,
    tolerance: Annotated[
        str | None,
        typer.Option(
            "--tolerance", "-t", metavar="T", help="Iterate until the ranks' change is at most T."
        ),
    ] = None,
    damping: Annotated[
        str | None, typer.Option("--damping", metavar="D", help="Damping.  [default: 0.85]")
    ] = None,
    split: Annotated[
        str,
        typer.Option(
            "--split", metavar="LIST", help="Ranges to try for split; the fastest is the row."
        ),
    ] = DEFAULT_SPLIT,
    warmup: Annotated[
        str | None,
        typer.Option(
            "--warmup", "-w", metavar="N", help="Real GPUs: unmeasured runs.  [default: 2]"
        ),
    ] = None,
    repeats: Annotated[
        str | None,
        typer.Option(
            "--repeats", metavar="N", help="Real GPUs: runs, of which the median.  [default: 5]"
        ),
    ] = None,
    jobs: Annotated[
        str | None,
        typer.Option(
            "--jobs", "-j", metavar="N", help="Simulations at a time.  [default: the cores]"
        ),
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write all results.")
    ] = None,
    html_file: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", help="Write a page with charts; it works offline."),
    ] = None,
    timeline_file: Annotated[
        Path | None,
        typer.Option(
            "--timeline",
            metavar="FILE",
            help="Write a Chrome trace for ui.perfetto.dev: the rows with the most GPUs.",
        ),
    ] = None,
) -> None:
    """Run a workload by every mechanism and compare.

    Prints a table with a row for each mechanism and number of GPUs. Every result is verified
    first: a wrong one ends the study with exit code 1.
    """
    from interlace import files, workers

    # Everything that can be wrong with the command, before anything that takes long.
    if workload is None:
        raise UserError(f"study needs the name of a workload; there is {', '.join(WORKLOADS)}")
    if workload not in WORKLOADS:
        raise unknown("workload", workload, tuple(WORKLOADS))
    chosen = WORKLOADS[workload]
    inputs = Inputs(
        data=data,
        rmat=whole("--rmat", rmat),
        edge_factor=whole("--edge-factor", edge_factor),
        seed=whole("--seed", seed),
        damping=number("--damping", damping),
        iterations=whole("--iterations", iterations),
        tolerance=number("--tolerance", tolerance),
    )
    names = MECHANISMS if mechanisms is None else parse_mechanisms(mechanisms)
    if gpus is not None:
        whole_numbers("--gpus", gpus, "GPUs")
    ranges = whole_numbers("--split", split, "ranges")
    warmups = whole("--warmup", warmup, 0)
    runs = whole("--repeats", repeats, 1)
    at_once = whole("--jobs", jobs, 1) or workers.cores()
    if machine is not None:
        for option, value in (("--warmup", warmup), ("--repeats", repeats)):
            if value is not None:
                raise UserError(
                    f"{option} is for real GPUs; a simulated run always takes the same time, so "
                    "leave it out with --machine"
                )
    chosen.check(inputs)
    outputs = {"--json": json_file, "--html": html_file, "--timeline": timeline_file}
    paths = {option: path for option, path in outputs.items() if path is not None}
    for option, path in paths.items():
        files.check_writable(path, option)
        for other, same in paths.items():
            if other < option and path.resolve() == same.resolve():
                raise UserError(f"{other} and {option} are both {path}; give two names")

    node: Node
    if machine is None:
        node = real_node(
            DEFAULT_WARMUP if warmups is None else warmups,
            DEFAULT_REPEATS if runs is None else runs,
        )
    else:
        node = SimulatedNode(load_core(), machine, at_once)
    plan = Plan(_chosen_gpus(gpus, node.gpus, node.machine_name), names, tuple(ranges))
    steps = len(plan.cases(node.runs))
    if isinstance(node, CudaNode):
        steps += len(plan.gpus) * sum(map(node.runs, names))  # counting the wire bytes
    try:
        loaded = chosen.load(inputs, node.cuda if isinstance(node, CudaNode) else None)
        with _progress(f"{workload} on {node.machine_name}", steps) as tick:
            rows, candidates, timelines = run_study(loaded, node, plan, at_once, tick)
    except RunFailure as failure:
        typer.echo(f"interlace: {failure}", err=True)
        raise typer.Exit(1) from None

    command = shlex.join(["interlace", *sys.argv[1:]])
    study = _study(loaded, node, rows, candidates, command)
    _deliver(study, timelines, json_file, html_file, timeline_file)


def _deliver(
    study: Study,
    timelines: Timelines,
    json_file: Path | None,
    html_file: Path | None,
    timeline_file: Path | None,
) -> None:
    """Print the table and write the files; a reader who left does not cost the files."""
    from interlace import files, table

    broken: BrokenPipeError | None = None
    try:
        table.print_study(study)
        sys.stdout.flush()
    except BrokenPipeError as error:
        broken = error
    contents: dict[Path, str] = {}
    if json_file is not None:
        contents[json_file] = json_text(study)
    if html_file is not None:
        from interlace import report

        contents[html_file] = report.page(study, timelines)
    if timeline_file is not None:
        from interlace import timeline

        contents[timeline_file] = timeline.chrome_trace(study, timelines)
    files.write_all(contents)
    if broken is not None:
        raise broken
