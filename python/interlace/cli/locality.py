"""`interlace locality`: counts the remote loads of programs that share pages between GPUs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from interlace.base.cores import allowed_cores
from interlace.base.errors import UserError, unknown
from interlace.base.files import check_writable, show_and_write
from interlace.cli.failures import failure_ends
from interlace.cli.shared_options import json_option
from interlace.machine.reading import load_machine
from interlace.model.options import whole, whole_numbers
from interlace.model.remote_load_table import DIRECT, TREATMENTS
from interlace.model.results import json_text
from interlace.nodes.nodes import real_node
from interlace.show.locality import print_locality, print_measured
from interlace.study.locality import MACHINE, MEASURED_REPEATS, MEASURED_WARMUP, run
from interlace.workloads import unified


def locality_command(
    programs: Annotated[
        list[str] | None,
        typer.Argument(metavar="[PROGRAM]...",
            help="fir, mt, mm, atax, spmv, bicg, bs, aes, bfs, pr, km, st, sc.  [default: all]",),
    ] = None,
    machine: Annotated[
        str,
        typer.Option("--machine", metavar="NAME", help="A described machine: its name or file."),
    ] = MACHINE,
    gpus: Annotated[
        str | None,
        typer.Option("--gpus", "-g", metavar="LIST", help="Numbers of GPUs.  [default: 1 and all]"),
    ] = None,
    times: Annotated[
        str,
        typer.Option(
            "--times", metavar="N",
            help=(
                "Factors by which inputs grow. 1 gives the inputs of MGPUSim, if MGPUSim has the "
                "program. 4 gives inputs that are four times as large."
            ),
        ),
    ] = "1",
    pages: Annotated[
        str | None,
        typer.Option(
            "--pages", metavar="HOW",
            help="Where pages lie: round-robin, contiguous, on one GPU such as gpu0, or own (each "
            "array has its own placement).  "
            "[default: own; gpu0 if pages move]",
        ),
    ] = None,
    blocks: Annotated[
        str, typer.Option("--blocks", metavar="HOW", help="How blocks are spread over GPUs: "
                          "contiguous, round-robin, or filled "
                          "(in multiples of the compute units of a GPU).")
    ] = "contiguous",
    mechanism: Annotated[
        str,
        typer.Option(
            "--mechanism", "-m", metavar="LIST",
            help=(
                "How remote loads are handled: direct, page-migration, griffin, bypass, "
                "fine-grained, coalesced, rdma-cache, dualopt, dualopt-adaptive or dualopt-pages. "
                "finepack packs stores; dualopt-finepack also handles loads as dualopt does. "
                "finepack and dualopt-finepack need packets that hold more than one cache line."
            ),
        ),
    ] = DIRECT,
    jobs: Annotated[
        str | None, typer.Option("--jobs", "-j", metavar="N", help="Simulations that run at once.")
    ] = None,
    measured: Annotated[
        bool,
        typer.Option("--measure", help="Also run the programs on this computer's GPUs."),
    ] = False,
    json_file: Annotated[
        Path | None, json_option("the output as JSON")
    ] = None,
) -> None:  # fmt: skip
    """Count the remote loads of programs whose GPUs share pages.

    The table also says how many bytes of each cache line the remote loads use.
    """
    wanted = list(dict.fromkeys(programs or unified.PROGRAMS))
    for name in wanted:
        if name not in unified.PROGRAMS:
            raise unknown("program", name, tuple(unified.PROGRAMS))
    asked = {word.strip() for word in mechanism.split(",")}
    for name in sorted(asked):
        if name not in TREATMENTS:
            raise unknown("mechanism", name, TREATMENTS)
    names = [name for name in TREATMENTS if name in asked]
    scale = whole("--times", times, 1) or 1
    at_once = whole("--jobs", jobs, 1) or allowed_cores()
    if json_file is not None:
        check_writable(json_file, "--json")
    described = load_machine(machine)
    counts = (
        sorted({1, described.gpu.count}) if gpus is None else whole_numbers("--gpus", gpus, "GPUs")
    )
    if counts[-1] > described.gpu.count:
        raise UserError(
            f"--gpus {counts[-1]}: machine {described.name} has {described.gpu.count} GPUs"
        )
    node = (
        real_node(MEASURED_WARMUP, MEASURED_REPEATS, hint="leave --measure out")
        if measured
        else None
    )
    if node is not None and gpus is not None and counts[-1] > node.gpus:
        raise UserError(f"--gpus {counts[-1]}: {node.machine_name} has {node.gpus} GPUs")
    problems = [unified.problem(name, scale) for name in wanted]
    with failure_ends():
        here = None if node is None or gpus is None else counts
        found = run(
            described, problems, counts, names, at_once, times=scale, pages=pages, blocks=blocks,
            node=node, measured_counts=here,
        )  # fmt: skip
    texts = {} if json_file is None else {json_file: lambda: json_text(found)}

    def show() -> None:
        print_locality(found)
        print_measured(found)

    show_and_write(show, texts)
