"""`interlace study`: a workload on a machine, by mechanism and number of GPUs.

A row is a mechanism on so many GPUs. Its result is verified before the row exists. Simulated rows
run in a process each; measured ones run one after another, alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from interlace.cli import unknown
from interlace.errors import UserError
from interlace.evaluation import Plan, run_study
from interlace.mechanisms import BASELINE, BOUND, DEFAULTS, MECHANISMS, SERIAL, SIMULATED, Tuning
from interlace.nodes import CudaNode, Node, SimulatedNode, load_core, real_node
from interlace.options import (
    agent_threads,
    chunk_sizes,
    mechanism_names,
    number,
    whole,
    whole_numbers,
)
from interlace.progress import progress
from interlace.results import FORMAT, Row, Study, Timelines, json_text, provenance
from interlace.workloads import WORKLOADS, Inputs, RunFailure, Workload, check_inputs

DEFAULT_WARMUP = 2
DEFAULT_REPEATS = 5


# --- options --------------------------------------------------------------------------------------


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


def _study(workload: Workload, node: Node, rows: list[Row], candidates: list[Row]) -> Study:
    return Study(
        format=FORMAT,
        **provenance(),
        driver=node.driver,
        machine={"node": node.name, **node.description()},
        data=workload.facts(),
        notes=_notes(workload, node, rows),
        rows=rows,
        candidates=candidates,
    )


# --- the command ----------------------------------------------------------------------------------


def study_command(
    workload: Annotated[
        str | None, typer.Argument(metavar="WORKLOAD", help=f"One of: {', '.join(WORKLOADS)}.")
    ] = None,
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
    seed: Annotated[
        str | None, typer.Option("--seed", metavar="N", help="Of what is generated.  [default: 1]")
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
            "--mechanisms",
            metavar="LIST",
            help=f"Some of: {','.join(MECHANISMS)}.  [default: all but {SERIAL}]",
        ),
    ] = None,
    iterations: Annotated[
        str | None,
        typer.Option(
            "--iterations",
            "-n",
            metavar="N",
            help="Iterations, or with -t at most.  [default: 10; als 5; sssp to the end]",
        ),
    ] = None,
    tolerance: Annotated[
        str | None,
        typer.Option(
            "--tolerance",
            "-t",
            metavar="T",
            help="Iterate until the sum of all changes is at most T.",
        ),
    ] = None,
    damping: Annotated[
        str | None,
        typer.Option("--damping", metavar="D", help="pagerank: damping.  [default: 0.85]"),
    ] = None,
    rows: Annotated[
        str | None,
        typer.Option("--rows", metavar="N", help="jacobi: unknowns to generate.  [default: 32768]"),
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
    split: Annotated[
        str | None,
        typer.Option(
            "--split",
            metavar="LIST",
            help="Ranges to try for split; the fastest is the row.  "
            "[default: 2,4,8,16,32; simulated 2,8,32]",
        ),
    ] = None,
    chunks: Annotated[
        str | None,
        typer.Option(
            "--chunks",
            metavar="LIST",
            help="Chunks to try where they are tracked (polling, device-launch, copy-engine, "
            "proact-hardware), such as 64K,1M.  "
            "[default: 64K,256K,1M,4M; simulated 64K,1M]",
        ),
    ] = None,
    threads: Annotated[
        str | None,
        typer.Option(
            "--threads",
            metavar="LIST",
            help="Threads to try for polling's agent and device-launch's kernels.  "
            "[default: 4096,16384; simulated 4096]",
        ),
    ] = None,
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
        raise UserError(f"study needs the name of a workload; there are {', '.join(WORKLOADS)}")
    if workload not in WORKLOADS:
        raise unknown("workload", workload, tuple(WORKLOADS))
    chosen = WORKLOADS[workload]
    inputs = Inputs(
        data=data,
        rmat=whole("--rmat", rmat),
        edge_factor=whole("--edge-factor", edge_factor),
        seed=whole("--seed", seed),
        damping=number("--damping", damping),
        rows=whole("--rows", rows),
        half_bandwidth=whole("--half-bandwidth", half_bandwidth),
        halo=halo or None,
        source=whole("--source", source),
        users=whole("--users", users),
        items=whole("--items", items),
        ratings=whole("--ratings", ratings),
        rank=whole("--rank", rank),
        lambda_=number("--lambda", lambda_),
        method=method,
        rate=number("--rate", rate),
        iterations=whole("--iterations", iterations),
        tolerance=number("--tolerance", tolerance),
    )
    names = DEFAULTS if mechanisms is None else mechanism_names("--mechanisms", mechanisms)
    if machine is None and mechanisms is not None:
        for name in names:
            if name in SIMULATED and name != BOUND:  # which is derived
                raise UserError(
                    f"--mechanisms {name}: real GPUs cannot run this; leave it out, or name a "
                    "machine to simulate with --machine"
                )
    if gpus is not None:
        whole_numbers("--gpus", gpus, "GPUs")
    range_list = None if split is None else tuple(whole_numbers("--split", split, "ranges"))
    chunk_list = None if chunks is None else chunk_sizes("--chunks", chunks)
    thread_list = None if threads is None else agent_threads("--threads", threads)
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
    check_inputs(workload, inputs)
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
    tuning = Tuning(
        range_list or node.default_ranges,
        chunk_list or node.default_chunks,
        thread_list or node.default_threads,
    )
    plan = Plan(_chosen_gpus(gpus, node.gpus, node.machine_name), names, tuning)
    try:
        loaded = chosen.load(inputs, node.cuda if isinstance(node, CudaNode) else None)
        steps = len(plan.cases(node.runs, loaded.largest_part))
        if isinstance(node, CudaNode):
            steps += len(plan.gpus)  # counting the wire bytes
        with progress(f"{workload} on {node.machine_name}", steps) as tick:
            found, candidates, timelines = run_study(loaded, node, plan, at_once, tick)
    except RunFailure as failure:
        typer.echo(f"interlace: {failure}", err=True)
        raise typer.Exit(1) from None

    study = _study(loaded, node, found, candidates)
    _deliver(study, timelines, json_file, html_file, timeline_file)


def _deliver(
    study: Study,
    timelines: Timelines,
    json_file: Path | None,
    html_file: Path | None,
    timeline_file: Path | None,
) -> None:
    """Print the table and write the files."""
    from interlace import files, table

    texts: dict[Path, Callable[[], str]] = {}
    if json_file is not None:
        texts[json_file] = partial(json_text, study)
    if html_file is not None:
        from interlace import report

        texts[html_file] = partial(report.page, study, timelines)
    if timeline_file is not None:
        from interlace import timeline

        texts[timeline_file] = partial(timeline.chrome_trace, study, timelines)
    files.show_and_write(partial(table.print_study, study), texts)
