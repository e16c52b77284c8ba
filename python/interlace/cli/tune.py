"""`interlace tune`: finds the fastest mechanism of a workload and its parameters by measuring.

What was found is a profile, which later studies use by themselves. Every result is verified.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from interlace.base import files
from interlace.base.errors import UserError
from interlace.base.native import load_core
from interlace.base.progress import Steps, progress
from interlace.cli.failures import failure_ends
from interlace.cli.shared_options import (
    Jobs,
    SimulatedMachine,
    WorkloadName,
    count_option,
    known_workload,
    list_option,
    refuse_measuring_options,
    simulations_at_a_time,
)
from interlace.cli.workload_options import ReadInputs, takes_inputs
from interlace.model.mechanisms import BOUND, HARDWARE, MECHANISMS, Config, Tuning, label
from interlace.model.options import (
    agent_threads,
    chunk_sizes,
    mechanism_names,
    refuse_simulated,
    whole,
    whole_numbers,
)
from interlace.model.results import json_text
from interlace.model.run import Case
from interlace.nodes.nodes import CudaNode, Node, SimulatedNode, real_node
from interlace.show import table
from interlace.tuning import profiles
from interlace.tuning.profiles import Machine, Profile, Subject
from interlace.tuning.search import TUNED, Round, Search, Tried, tune_in_rounds
from interlace.workloads import WORKLOADS, Workload, inputs_of

DEFAULT_RANGES = "2,4,8,16,32"
DEFAULT_CHUNKS = "4K,8K,16K,32K,64K,128K,256K,512K,1M,2M,4M,8M,16M"
DEFAULT_THREADS = "32,64,128,256,512,1024,2048,4096,8192,16384"
DEFAULT_WARMUP = 2
DEFAULT_REPEATS = 3
MOST_ROUNDS = 8  # of finalists


# --- measuring ------------------------------------------------------------------------------------


def _measured_by(
    workload: Workload, node: Node, gpus: int, steps: Steps
) -> Callable[[Round], list[Sequence[float] | str]]:
    """Runs the candidates of a round on the node, and verifies every result."""

    def measure(round_: Round) -> list[Sequence[float] | str]:
        steps.expect(round_.expected)
        cases = [Case(gpus, it.mechanism, Config.of(it.parameters)) for it in round_.candidates]
        found: dict[Case, Sequence[float] | str] = {}
        for case, outcome in node.attempts(workload, cases):
            if isinstance(outcome, UserError):
                found[case] = str(outcome)
            else:
                workload.verify(outcome)
                outcome.values = np.empty((0, 0), dtype=np.float32)
                found[case] = outcome.times_s or [outcome.time_s]
            steps()
        return [found[case] for case in cases]

    return measure


# --- what it says ---------------------------------------------------------------------------------


def _outcome(tried: Tried, profile: Profile) -> str:
    """What became of a candidate."""
    search = profile.search
    if tried is search.picked:
        return "picked"
    if tried.dropped is not None:
        return f"dropped in round {tried.dropped_round}: {tried.dropped}"
    if tried.control:
        return "control"
    return "finalist"


def _columns(shown: Sequence[Tried], profile: Profile) -> list[table.Column]:
    medians = [it.median_s or 0.0 for it in shown]
    unit, name = table.scale(medians, table.SECONDS)
    pick = profile.pick.median_s
    counts = [str(sum(len(one.times_s) for one in it.samples)) for it in shown]
    return [
        table.Column(
            "candidate",
            "",
            [label(it.mechanism, Config.of(it.parameters)) for it in shown],
            number=False,
            wraps=True,
        ),
        table.Column("samples", "", counts),
        table.Column("median", name, table.fixed([m / unit for m in medians])),
        table.Column("spread", name, table.fixed([(it.spread_s or 0.0) / unit for it in shown], 3)),
        table.Column("over the pick", "%", [f"{100 * (m / pick - 1):+.1f}" for m in medians]),
        table.Column("", "", [_outcome(it, profile) for it in shown], number=False, wraps=True),
    ]


def _time(seconds: float) -> str:
    unit, name = table.scale([seconds], table.SECONDS)
    return f"{table.fixed([seconds / unit])[0]} {name}"


def _verdict(profile: Profile) -> list[str]:
    pick, control = profile.pick, profile.best_control
    text = f"Picked {pick.label}: median {_time(pick.median_s)}, spread {_time(pick.spread_s)}."
    if profile.search.control_unbeaten:
        return [
            text,
            "It is a control: others have a lower median, but by no more than errors explain "
            f"({_time(profile.search.error_s)}).",
        ]
    if control is None:
        return [text, "No control was among the mechanisms."]
    if profile.search.picked.control:
        return [text, "It is a control, and nothing was faster."]
    behind = 100 * (control.median_s / pick.median_s - 1)
    return [
        text,
        f"The next control is {control.label}: median {_time(control.median_s)}, "
        f"{behind:.1f} % longer.",
    ]


def _left_out(search: Search) -> list[str]:
    """What was not measured, by mechanism, parameters and reason."""
    found: dict[tuple[str, tuple[str, ...], str], list[Config]] = {}
    for it in search.candidates:
        if not it.samples:
            key = it.mechanism, tuple(it.parameters), it.dropped or ""
            found.setdefault(key, []).append(Config.of(it.parameters))
    for out in search.excluded:
        key = out.mechanism, tuple(out.parameters), f"not possible: {out.reason}"
        found.setdefault(key, []).append(Config.of(out.parameters))
    lines = []
    for (mechanism, _, reason), configs in found.items():
        more = f" to ({configs[-1].words()}), {len(configs)} in all" if configs[1:] else ""
        lines.append(f"{label(mechanism, configs[0])}{more}: {reason}.")
    return lines


def explain(profile: Profile, path: Path | None = None) -> None:
    """Print why a profile picks what it picks."""
    search = profile.search
    shown = sorted(
        (it for it in search.candidates if it.samples),
        key=lambda it: (it is not search.picked, not it.finalist, it.median_s or 0.0),
    )
    how = "simulated" if profile.machine.node == "sim" else "measured"
    head = f"{profile.workload}; {how} on {profile.machine.name}, {profile.date}"
    foot = _verdict(profile)
    foot += _left_out(search)
    if path is not None:
        foot.append(f"Profile: {path}")
    styles = [table.BEST if it is search.picked else "dim" if it.dropped else "" for it in shown]
    groups = [0 if it.finalist else 1 for it in shown]
    table.print_table(head, _columns(shown, profile), groups, styles, foot)


# --- the command ----------------------------------------------------------------------------------


def _chosen_gpus(text: str | None, node: Node) -> int:
    if node.gpus < 2:
        raise UserError(f"tune needs at least 2 GPUs; {node.machine_name} has 1")
    if text is None:
        return node.gpus
    chosen = whole("--gpus", text, 2)
    assert chosen is not None
    if chosen > node.gpus:
        raise UserError(f"--gpus {chosen}: {node.machine_name} has {node.gpus} GPUs")
    return chosen


@takes_inputs
def tune_command(
    inputs: ReadInputs,
    workload: WorkloadName = None,
    machine: SimulatedMachine = None,
    gpus: Annotated[
        str | None,
        typer.Option("--gpus", "-g", metavar="N", help="Number of GPUs.  [default: all]"),
    ] = None,
    mechanisms: Annotated[
        str | None,
        typer.Option(
            "--mechanisms",
            metavar="LIST",
            help=f"Some of: {','.join(TUNED)}, and simulated {HARDWARE}; bulk-copy and "
            "split are always measured.  "
            "[default: all]",
        ),
    ] = None,
    split: Annotated[str | None, list_option("--split", "Ranges of split.", DEFAULT_RANGES)] = None,
    chunks: Annotated[
        str | None,
        list_option("--chunks", "Chunks, where they are tracked.", "4K to 16M by factors of 2"),
    ] = None,
    threads: Annotated[
        str | None,
        list_option(
            "--threads",
            "Threads of polling's agent and device-launch's kernels.",
            "32 to 16384 by factors of 2",
        ),
    ] = None,
    warmup: Annotated[
        str | None,
        count_option(
            "--warmup", "Real GPUs: unmeasured runs before samples.", DEFAULT_WARMUP, "-w"
        ),
    ] = None,
    repeats: Annotated[
        str | None,
        count_option("--repeats", "Real GPUs: samples of a candidate in a round.", DEFAULT_REPEATS),
    ] = None,
    jobs: Jobs = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            help="Write the profile here.  [default: the user's folder, where studies look]",
        ),
    ] = None,
    explained: Annotated[
        Path | None,
        typer.Option("--explain", metavar="PROFILE", help="Print why a profile picks, and end."),
    ] = None,
) -> None:
    """Find a workload's fastest mechanism and parameters, and keep them for later runs.

    Measures candidates by successive elimination, from a coarse grid to a fine one. bulk-copy and
    split are measured to the end, and picked unless something is faster. Every result is verified.
    `interlace tune copy` is for copies and has options of its own.
    """
    if explained is not None:
        if workload is not None:
            raise UserError("--explain prints a profile that is there; leave WORKLOAD out")
        explain(profiles.load(explained, "--explain"), explained)
        return
    workload = known_workload("tune", workload)
    given_inputs = inputs()
    names = set(TUNED)
    if mechanisms is not None:
        named = mechanism_names("--mechanisms", mechanisms)
        if BOUND in named:
            raise UserError(f"--mechanisms {BOUND}: a bound cannot be picked; leave it out")
        if machine is None:
            refuse_simulated("--mechanisms", named, bound=False)
        for name in named:
            if name not in (*TUNED, HARDWARE):
                raise UserError(
                    f"--mechanisms {name}: it has nothing to tune; leave it out, and compare it by "
                    "interlace study"
                )
        names = {*named, "bulk-copy", "split"}
    if gpus is not None:
        whole("--gpus", gpus, 2)
    tuning = Tuning(
        tuple(whole_numbers("--split", split or DEFAULT_RANGES, "ranges")),
        chunk_sizes("--chunks", DEFAULT_CHUNKS if chunks is None else chunks),
        agent_threads("--threads", DEFAULT_THREADS if threads is None else threads),
    )
    warmups = whole("--warmup", warmup, 0)
    samples = whole("--repeats", repeats, 1)
    at_once = simulations_at_a_time(jobs)
    if machine is not None:
        refuse_measuring_options({"--warmup": warmup, "--repeats": repeats})
    asked = inputs_of(workload, given_inputs)
    if out is not None:
        files.check_writable(out, "--out")

    node: Node
    rules: tuple[int | None, int]
    if machine is None:
        rules = DEFAULT_WARMUP if warmups is None else warmups, samples or DEFAULT_REPEATS
        node = real_node(rules[0] or 0, rules[1])
    else:
        rules = None, 1
        node = SimulatedNode(load_core(), machine, at_once)
    tuning = replace(tuning, bulk_agents=node.bulk_agents)
    count = _chosen_gpus(gpus, node)
    with failure_ends():
        loaded = WORKLOADS[workload].load(asked, node.cuda if isinstance(node, CudaNode) else None)
        path = out or profiles.default_path(Machine.of(node), Subject.of(loaded, count))
        if out is None:
            files.make_folder(path.parent)
            files.check_writable(path, "the profile")
        space = tuning.space(
            [name for name in MECHANISMS if name in names], loaded.largest_part(count), count - 1
        )
        with progress(f"tuning {workload} on {node.machine_name}", 1) as steps:
            found = tune_in_rounds(
                _measured_by(loaded, node, count, steps),
                space=space,
                repeats=rules[1],
                most_rounds=MOST_ROUNDS,
                repeatable=machine is not None,
            )
    profile = Profile.of(
        Machine.of(node),
        Subject.of(loaded, count),
        found,
        iterations=loaded.iterations,
        warmup=rules[0],
        repeats=rules[1],
    )
    files.show_and_write(partial(explain, profile, path), {path: partial(json_text, profile)})
