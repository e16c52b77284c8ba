"""`interlace study`: runs a workload with every mechanism, on several numbers of GPUs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from interlace.base import files
from interlace.base.errors import UserError
from interlace.base.native import load_core
from interlace.cli.failures import failure_ends, warn
from interlace.cli.shared_options import (
    Jobs,
    ResultsFile,
    SimulatedMachine,
    WorkloadName,
    count_option,
    known_workload,
    list_option,
    refuse_measuring_options,
    simulations_at_a_time,
)
from interlace.cli.workload_options import ReadInputs, takes_inputs
from interlace.model.mechanism_table import DEVICE_LAUNCH, POLLING, SPLIT
from interlace.model.mechanisms import EVERY, TRACKED, left_out_words
from interlace.model.options import (
    agent_threads,
    chunk_sizes,
    mechanism_names,
    refuse_simulated,
    whole,
    whole_numbers,
)
from interlace.model.results import json_text, without_inside
from interlace.nodes.nodes import Node, SimulatedNode, real_node
from interlace.show.inside import print_inside
from interlace.show.study import print_study
from interlace.study.study import TUNED, Asked, conduct
from interlace.workloads import WORKLOADS, inputs_of

DEFAULT_WARMUP = 2
DEFAULT_REPEATS = 5


@takes_inputs
def study_command(
    inputs: ReadInputs,
    workload: WorkloadName = None,
    machine: SimulatedMachine = None,
    gpus: Annotated[
        str | None,
        typer.Option(
            "--gpus",
            "-g",
            metavar="LIST",
            help="Numbers of GPUs, such as 2,4. The study always adds 1.  "
            "[default: 1,2,4,... and all]",
        ),
    ] = None,
    share_gpu: Annotated[
        bool,
        typer.Option(
            "--share-gpu",
            help=(
                "Real GPUs: let several devices share one GPU if --gpus asks for more devices than "
                "there are GPUs. Results are verified as always. The times are times of a shared "
                "GPU."
            ),
        ),
    ] = False,
    mechanisms: Annotated[
        str | None,
        typer.Option(
            "--mechanisms",
            metavar="LIST",
            help=(
                f"Some of: {','.join(EVERY)}; {TUNED} is the mechanism that the profile picked.  "
                f"[default: all that can run except {left_out_words()}]"
            ),
        ),
    ] = None,
    split: Annotated[
        str | None,
        list_option(
            "--split",
            f"Numbers of ranges to try for {SPLIT}. The row shows the fastest number.",
            "2,4,8,16,32; simulated 2,8,32",
        ),
    ] = None,
    chunks: Annotated[
        str | None,
        list_option(
            "--chunks",
            f"Chunk sizes to try, for mechanisms that track chunks ({', '.join(TRACKED)}), such "
            "as 64K,1M.",
            "64K,256K,1M,4M; simulated 64K,1M",
        ),
    ] = None,
    threads: Annotated[
        str | None,
        list_option(
            "--threads",
            f"Threads to try for {POLLING}'s agent and {DEVICE_LAUNCH}'s kernels.",
            "4096,16384; simulated 4096",
        ),
    ] = None,
    warmup: Annotated[
        str | None,
        count_option("--warmup", "Real GPUs: number of unmeasured runs.", DEFAULT_WARMUP, "-w"),
    ] = None,
    repeats: Annotated[
        str | None,
        count_option(
            "--repeats",
            "Real GPUs: number of measured runs. The time is their median.",
            DEFAULT_REPEATS,
        ),
    ] = None,
    profile_file: Annotated[
        Path | None,
        typer.Option(
            "--profile",
            metavar="FILE",
            help="Use this profile of interlace tune.  [default: the profile of this "
            "machine, workload and number of GPUs, if there is one]",
        ),
    ] = None,
    no_profile: Annotated[
        bool,
        typer.Option("--no-profile", help="Ignore profiles; try several configurations instead."),
    ] = False,
    whole_run: Annotated[
        bool,
        typer.Option(
            "--whole",
            help=(
                "Simulated: simulate every iteration. By default, an iteration that repeats "
                "earlier iterations is computed but not simulated. Its time is then taken from "
                "the two preceding iterations."
            ),
        ),
    ] = False,
    jobs: Jobs = None,
    json_file: ResultsFile = None,
    show_inside: Annotated[
        bool,
        typer.Option(
            "--inside",
            help=(
                "Simulated: also print the traffic between GPUs, and the utilization of links and "
                "GPUs. The file of --json has the same data."
            ),
        ),
    ] = False,
    html_file: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", help="Write a page with charts for offline use."),
    ] = None,
    timeline_file: Annotated[
        Path | None,
        typer.Option(
            "--timeline",
            metavar="FILE",
            help="Write a Chrome trace of the rows with the most GPUs; open it in ui.perfetto.dev.",
        ),
    ] = None,
) -> None:
    """Run a workload with every mechanism, and compare the mechanisms.

    The table has a row for each mechanism and number of GPUs. Every result is verified before its
    row is printed. A wrong result ends the study with exit code 1.
    """
    # All checks of the command line come before the slow steps.
    workload = known_workload("study", workload)
    chosen = WORKLOADS[workload]
    given_inputs = inputs()
    simulated = machine is not None
    named: tuple[str, ...] = ()
    if mechanisms is not None:
        named = mechanism_names("--mechanisms", mechanisms, simulated=simulated, more=(TUNED,))
    if machine is None:
        refuse_simulated("--mechanisms", named, bound=True)
    if no_profile:
        for option, asked in (("--profile", profile_file), ("--mechanisms tuned", TUNED in named)):
            if asked:
                raise UserError(f"--no-profile and {option} exclude each other; leave one out")
    asked_gpus = [] if gpus is None else whole_numbers("--gpus", gpus, "GPUs")
    range_list = None if split is None else tuple(whole_numbers("--split", split, "ranges"))
    chunk_list = None if chunks is None else chunk_sizes("--chunks", chunks)
    thread_list = None if threads is None else agent_threads("--threads", threads)
    warmups = whole("--warmup", warmup, 0)
    runs = whole("--repeats", repeats, 1)
    at_once = simulations_at_a_time(jobs)
    if machine is None and show_inside:
        raise UserError(
            "--inside is for simulated machines, because real GPUs do not show their traffic; "
            "leave --inside out, or name a machine with --machine"
        )
    if machine is None and whole_run:
        raise UserError(
            "--whole is for simulated machines; leave --whole out, or name a machine with --machine"
        )
    if share_gpu and machine is not None:
        raise UserError(
            "--share-gpu is for real GPUs, but --machine names a simulated machine; leave one of "
            "the two options out"
        )
    if share_gpu and gpus is None:
        raise UserError("--share-gpu needs numbers of devices; give them with --gpus")
    if machine is not None:
        refuse_measuring_options({"--warmup": warmup, "--repeats": repeats})
    asked_inputs = inputs_of(workload, given_inputs)
    outputs = {"--json": json_file, "--html": html_file, "--timeline": timeline_file}
    described = None if machine is None else Path(machine)
    reads = {**asked_inputs.files(), "--machine": described, "--profile": profile_file}
    files.check_outputs(outputs, reads)

    request = Asked(
        counts=gpus,
        mechanisms=None if mechanisms is None else named,
        ranges=range_list,
        chunks=chunk_list,
        threads=thread_list,
        profile=profile_file,
        profiled=not no_profile,
    )
    node: Node
    if machine is None:
        node = real_node(
            DEFAULT_WARMUP if warmups is None else warmups,
            DEFAULT_REPEATS if runs is None else runs,
            by_processes=True,
            sharing=asked_gpus[-1] if share_gpu else 0,
        )
    else:
        # --inside shows only simulated iterations, so all iterations must be simulated
        node = SimulatedNode(load_core(), machine, at_once, whole=whole_run or show_inside)
    with failure_ends():
        study, timelines = conduct(chosen, asked_inputs, node, request, at_once, warn)

    texts: dict[Path, Callable[[], str]] = {}
    if json_file is not None:
        texts[json_file] = partial(json_text, study if show_inside else without_inside(study))
    if html_file is not None:
        from interlace.show import page as report

        texts[html_file] = partial(report.page, study, timelines)
    if timeline_file is not None:
        from interlace.show import timeline

        texts[timeline_file] = partial(timeline.chrome_trace, study, timelines)

    def show() -> None:
        print_study(study)
        if show_inside:
            print_inside(study.rows)

    files.show_and_write(show, texts)
