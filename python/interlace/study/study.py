"""`interlace study`: a workload on a machine, by mechanism and number of GPUs.

A row is a mechanism on so many GPUs. Its result is verified before the row exists. Simulated rows
run in a process each; measured ones run one after another, alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from interlace.base.errors import UserError
from interlace.base.native import load_core
from interlace.base.progress import progress
from interlace.cli.failures import failure_ends
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
from interlace.model import inside
from interlace.model.mechanisms import (
    BASELINE,
    BOUND,
    EVERY,
    MULTI_PATH,
    NOT_AVAILABLE,
    QUEUED,
    SERIAL,
    Tuning,
)
from interlace.model.options import (
    agent_threads,
    chunk_sizes,
    mechanism_names,
    refuse_simulated,
    whole,
    whole_numbers,
)
from interlace.model.results import (
    FORMAT,
    Row,
    Study,
    Timelines,
    json_text,
    provenance,
    without_inside,
)
from interlace.nodes.nodes import CudaNode, Node, SimulatedNode, real_node
from interlace.study.evaluation import Plan, run_study
from interlace.workloads import WORKLOADS, Workload, inputs_of

if TYPE_CHECKING:
    from interlace.tuning.profiles import Profile, Use

TUNED = "tuned"  # among mechanisms: what a profile picked
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


# --- profiles -------------------------------------------------------------------------------------


def _named_profile(file: Path, counts: Sequence[int]) -> tuple[Path, Profile]:
    from interlace.tuning import profiles

    profile = profiles.load(file, "--profile")
    if profile.workload.gpus not in counts:
        raise UserError(
            f"--profile {file} is for {profile.workload.gpus} GPUs, which this study does not "
            "have; give --gpus"
        )
    return file, profile


def _profiles(
    node: Node, workload: Workload, counts: Sequence[int], named: tuple[Path, Profile] | None
) -> dict[int, Use]:
    """The profiles to use, by number of GPUs; says where one was made on another machine."""
    from interlace.tuning import profiles

    found: dict[int, Use] = {}
    for gpus in counts:
        use: Use | None
        if named is not None and named[1].workload.gpus == gpus:
            use = profiles.given(*named, node, workload)
        else:
            use = profiles.find(node, workload, gpus)
        if use is None:
            continue
        found[gpus] = use
        if (warning := use.warning()) is not None:
            typer.echo(f"interlace: {warning}", err=True)
    return found


def _planned(
    counts: tuple[int, ...],
    names: tuple[str, ...],
    tuning: Tuning,
    uses: Mapping[int, Use],
    by_hand: Mapping[str, bool],
) -> Plan:
    """What to run: mechanisms with what profiles know of them, unless options say it."""
    besides = {}
    if TUNED in names:
        for gpus in counts:
            if gpus not in uses:
                raise UserError(
                    f"--mechanisms {TUNED}: there is no profile of this workload on {gpus} GPUs of "
                    f"this machine; make one with interlace tune and --gpus {gpus}"
                )
            pick = uses[gpus].profile.pick
            besides[gpus] = (pick.mechanism, pick.config)
    profiled = {
        gpus: {
            mechanism: config
            for mechanism, said in by_hand.items()
            if mechanism in names
            and not said
            and (config := use.profile.best(mechanism)) is not None
        }
        for gpus, use in uses.items()
    }
    mechanisms = tuple(name for name in names if name != TUNED)
    return Plan(counts, mechanisms, tuning, profiled, besides)


# --- the file of results --------------------------------------------------------------------------


def _notes(
    workload: Workload, node: Node, rows: Sequence[Row], left_out: Mapping[str, str]
) -> list[str]:
    notes = [f"{name}{NOT_AVAILABLE}{reason}." for name, reason in left_out.items()]
    if any(row.derived for row in rows):
        notes.append(
            "infinite-bandwidth is derived: the time of bulk-copy, run again without its copies."
        )
        if any(row.captured is not None and row.captured > 1 for row in rows):
            notes.append(
                "A mechanism captures more than 100 % of a derived opportunity where it needs less "
                "than bulk-copy besides the copies: the bound is an estimate."
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
    notes += inside.warnings(rows)
    notes.append(
        f"Every device's result was compared with a float64 reference; relative errors up to "
        f"{workload.facts().get('max_allowed_error', 0):g} are allowed."
    )
    return notes


def _study(
    workload: Workload,
    node: Node,
    rows: list[Row],
    candidates: list[Row],
    left_out: Mapping[str, str],
    uses: Sequence[Use],
) -> Study:
    return Study(
        format=FORMAT,
        **provenance(),
        driver=node.driver,
        machine={"node": node.name, **node.description()},
        data=workload.facts(),
        notes=[
            *_notes(workload, node, rows, left_out),
            *(use.sentence() for use in uses),
        ],
        rows=rows,
        candidates=candidates,
    )


# --- the command ----------------------------------------------------------------------------------


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
            help="Numbers of GPUs, such as 1,2,4; 1 is always run.  [default: 1,2,4,... and all]",
        ),
    ] = None,
    mechanisms: Annotated[
        str | None,
        typer.Option(
            "--mechanisms",
            metavar="LIST",
            help=f"Some of: {','.join(EVERY)}; {TUNED}: what the profile picked.  [default: all "
            f"that can run but {SERIAL}, {', '.join(QUEUED)}; {MULTI_PATH}, which is for large "
            "transfers, and unified-memory, which is for small data, only if they are named]",
        ),
    ] = None,
    split: Annotated[
        str | None,
        list_option(
            "--split",
            "Ranges to try for split; the fastest is the row.",
            "2,4,8,16,32; simulated 2,8,32",
        ),
    ] = None,
    chunks: Annotated[
        str | None,
        list_option(
            "--chunks",
            "Chunks to try where they are tracked (polling, device-launch, copy-engine, "
            "proact-hardware), such as 64K,1M.",
            "64K,256K,1M,4M; simulated 64K,1M",
        ),
    ] = None,
    threads: Annotated[
        str | None,
        list_option(
            "--threads",
            "Threads to try for polling's agent and device-launch's kernels.",
            "4096,16384; simulated 4096",
        ),
    ] = None,
    warmup: Annotated[
        str | None,
        count_option("--warmup", "Real GPUs: unmeasured runs.", DEFAULT_WARMUP, "-w"),
    ] = None,
    repeats: Annotated[
        str | None,
        count_option("--repeats", "Real GPUs: runs, of which the median.", DEFAULT_REPEATS),
    ] = None,
    profile_file: Annotated[
        Path | None,
        typer.Option(
            "--profile",
            metavar="FILE",
            help="Use this profile of interlace tune.  [default: the one of this machine, workload "
            "and number of GPUs, if there is one]",
        ),
    ] = None,
    no_profile: Annotated[
        bool, typer.Option("--no-profile", help="Use no profile; try several configurations.")
    ] = False,
    jobs: Jobs = None,
    json_file: ResultsFile = None,
    show_inside: Annotated[
        bool,
        typer.Option(
            "--inside",
            help="Simulated: also print what goes between the GPUs, how busy links and GPUs are; "
            "--json FILE has it too.",
        ),
    ] = False,
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
    from interlace.base import files

    # Everything that can be wrong with the command, before anything that takes long.
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
    if gpus is not None:
        whole_numbers("--gpus", gpus, "GPUs")
    range_list = None if split is None else tuple(whole_numbers("--split", split, "ranges"))
    chunk_list = None if chunks is None else chunk_sizes("--chunks", chunks)
    thread_list = None if threads is None else agent_threads("--threads", threads)
    warmups = whole("--warmup", warmup, 0)
    runs = whole("--repeats", repeats, 1)
    at_once = simulations_at_a_time(jobs)
    if machine is None and show_inside:
        raise UserError(
            "--inside is for simulated machines; real GPUs do not show it, so leave it out or name "
            "a machine with --machine"
        )
    if machine is not None:
        refuse_measuring_options({"--warmup": warmup, "--repeats": repeats})
    asked_inputs = inputs_of(workload, given_inputs)
    files.check_outputs({"--json": json_file, "--html": html_file, "--timeline": timeline_file})

    node: Node
    if machine is None:
        node = real_node(
            DEFAULT_WARMUP if warmups is None else warmups,
            DEFAULT_REPEATS if runs is None else runs,
            by_processes=True,
        )
    else:
        node = SimulatedNode(load_core(), machine, at_once)
    left_out: Mapping[str, str] = {}
    if mechanisms is None:
        names, left_out = node.default_mechanisms()
    else:
        names = named
        if isinstance(node, CudaNode):
            node.require(names, "--mechanisms")
    tuning = Tuning(
        range_list or node.default_ranges,
        chunk_list or node.default_chunks,
        thread_list or node.default_threads,
        bulk_agents=node.bulk_agents,
    )
    counts = _chosen_gpus(gpus, node.gpus, node.machine_name)
    profile = None if profile_file is None else _named_profile(profile_file, counts)
    by_hand = {
        "split": range_list is not None,
        "polling": chunk_list is not None or thread_list is not None,
        "device-launch": chunk_list is not None or thread_list is not None,
        "copy-engine": chunk_list is not None,
        "proact-hardware": chunk_list is not None,
    }
    with failure_ends():
        loaded = chosen.load(asked_inputs, node.cuda if isinstance(node, CudaNode) else None)
        uses = {} if no_profile else _profiles(node, loaded, counts, profile)
        tuning = replace(tuning, collectives=loaded.collectives)
        plan = _planned(counts, names, tuning, uses, by_hand)
        steps = len(plan.cases(node.runs, loaded.largest_part))
        if isinstance(node, CudaNode):
            steps += len(plan.bulk_copies())  # again, for the bound
            steps += 1 + len(plan.gpus)  # counting wire bytes and work
        with progress(f"{workload} on {node.machine_name}", steps) as tick:
            found, candidates, timelines = run_study(loaded, node, plan, at_once, tick)

    study = _study(loaded, node, found, candidates, left_out, list(uses.values()))
    _deliver(study, timelines, show_inside, json_file, html_file, timeline_file)


def _deliver(
    study: Study,
    timelines: Timelines,
    show_inside: bool,
    json_file: Path | None,
    html_file: Path | None,
    timeline_file: Path | None,
) -> None:
    """Print the table and write the files."""
    from interlace.base import files
    from interlace.show import table

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
        table.print_study(study)
        if show_inside:
            inside.print_inside(study.rows)

    files.show_and_write(show, texts)
