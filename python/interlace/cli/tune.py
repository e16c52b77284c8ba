"""`interlace tune`: finds a workload's fastest mechanism and parameters by measurement.

The command writes a profile, which later studies use automatically. Every run's result is verified.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from interlace.base import files
from interlace.base.errors import UserError
from interlace.base.native import load_core
from interlace.cli.failures import failure_ends
from interlace.cli.shared_options import (
    Jobs,
    SimulatedMachine,
    WorkloadName,
    count_option,
    known_workload,
    list_option,
    profile_option,
    refuse_measuring_options,
    simulations_at_a_time,
)
from interlace.cli.workload_options import ReadInputs, takes_inputs
from interlace.model.mechanism_table import (
    AGENT_THREADS,
    CHUNK_BYTES,
    DEVICE_LAUNCH,
    POLLING,
    RANGES,
    SPLIT,
)
from interlace.model.mechanisms import (
    BOUND,
    CONTROLS,
    MECHANISMS,
    TUNED,
    TUNED_SIMULATED,
    TUNED_UPDATES,
    Tuning,
    powers_tried,
    short_size,
)
from interlace.model.options import (
    agent_threads,
    chunk_sizes,
    mechanism_names,
    refuse_simulated,
    whole,
    whole_numbers,
)
from interlace.model.results import json_text
from interlace.nodes.nodes import Node, SimulatedNode, real_node
from interlace.tuning import profiles
from interlace.tuning.explanation import explain
from interlace.tuning.workload_tuning import tune_workload
from interlace.workloads import WORKLOADS, inputs_of

DEFAULT_RANGES = powers_tried(RANGES)
DEFAULT_CHUNKS = powers_tried(CHUNK_BYTES)
DEFAULT_THREADS = powers_tried(AGENT_THREADS)
DEFAULT_WARMUP = 2
DEFAULT_REPEATS = 3


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
            help=(
                f"Some of: {','.join(TUNED)}, and on simulated machines also "
                f"{','.join(TUNED_SIMULATED)}. {' and '.join(CONTROLS)} are always measured. For "
                f"workloads that update partitioned arrays, some of: {','.join(TUNED_UPDATES)}; "
                f"{CONTROLS[0]} is always measured.  [default: all]"
            ),
        ),
    ] = None,
    split: Annotated[
        str | None,
        list_option(
            "--split", f"Numbers of ranges to try for {SPLIT}.", ",".join(map(str, DEFAULT_RANGES))
        ),
    ] = None,
    chunks: Annotated[
        str | None,
        list_option(
            "--chunks",
            "Chunk sizes to try, for mechanisms that track chunks.",
            f"{short_size(DEFAULT_CHUNKS[0])} to {short_size(DEFAULT_CHUNKS[-1])} by factors of 2",
        ),
    ] = None,
    threads: Annotated[
        str | None,
        list_option(
            "--threads",
            f"Threads to try for {POLLING}'s agent and {DEVICE_LAUNCH}'s kernels.",
            f"{DEFAULT_THREADS[0]} to {DEFAULT_THREADS[-1]} by factors of 2",
        ),
    ] = None,
    warmup: Annotated[
        str | None,
        count_option(
            "--warmup",
            "Real GPUs: number of unmeasured runs before the samples.",
            DEFAULT_WARMUP,
            "-w",
        ),
    ] = None,
    repeats: Annotated[
        str | None,
        count_option(
            "--repeats",
            "Real GPUs: number of samples of each candidate in each round.",
            DEFAULT_REPEATS,
        ),
    ] = None,
    jobs: Jobs = None,
    out: Annotated[
        Path | None,
        profile_option("studies"),
    ] = None,
    explained: Annotated[
        Path | None,
        typer.Option(
            "--explain", metavar="PROFILE", help="Only print why a profile picks its mechanism."
        ),
    ] = None,
) -> None:
    """Find a workload's fastest mechanism and parameters, and keep them for later runs.

    The search eliminates candidates step by step, from a coarse grid to a fine one. The search
    never eliminates the mechanisms bulk-copy and split. The search picks the faster of these two
    unless another candidate is faster than both. For workloads that update partitioned arrays, the
    search tries bulk-copy, inline and packed. For packed, it tries sizes of packets and queues,
    numbers of windows and blocks, and packets with and without combined updates. Every result is
    verified. `interlace tune copy` tunes copies instead, and has its own options.
    """
    if explained is not None:
        if workload is not None:
            raise UserError("--explain prints a profile that exists; leave WORKLOAD out")
        explain(profiles.load(explained, "--explain"), explained)
        return
    workload = known_workload("tune", workload)
    given_inputs = inputs()
    asked = inputs_of(workload, given_inputs)
    updates = WORKLOADS[workload].updates_partitions(asked)
    allowed = TUNED_UPDATES if updates else (*TUNED, *TUNED_SIMULATED)
    names = set(TUNED_UPDATES if updates else TUNED)
    if mechanisms is not None:
        named = mechanism_names("--mechanisms", mechanisms)
        if BOUND in named:
            raise UserError(f"--mechanisms {BOUND}: it moves no data, so leave it out")
        if machine is None:
            refuse_simulated("--mechanisms", named, bound=False)
        for name in named:
            if name not in allowed:
                raise UserError(
                    f"--mechanisms {name}: it has no parameters to tune; leave it out, and measure "
                    "it with the command interlace study"
                )
        names = {*named, *(name for name in CONTROLS if name in allowed)}
    for option, value in (("--split", split), ("--chunks", chunks), ("--threads", threads)):
        if updates and value is not None:
            raise UserError(
                f"{option} is for regions, and {workload} updates a partitioned array; leave it out"
            )
    if gpus is not None:
        whole("--gpus", gpus, 2)
    tuning = Tuning(
        DEFAULT_RANGES if split is None else tuple(whole_numbers("--split", split, "ranges")),
        DEFAULT_CHUNKS if chunks is None else chunk_sizes("--chunks", chunks),
        DEFAULT_THREADS if threads is None else agent_threads("--threads", threads),
    )
    warmups = whole("--warmup", warmup, 0)
    samples = whole("--repeats", repeats, 1)
    at_once = simulations_at_a_time(jobs)
    if machine is not None:
        refuse_measuring_options({"--warmup": warmup, "--repeats": repeats})
    if out is not None:
        files.check_outputs({"--out": out}, asked.files())

    node: Node
    rules: tuple[int | None, int]
    if machine is None:
        rules = DEFAULT_WARMUP if warmups is None else warmups, samples or DEFAULT_REPEATS
        node = real_node(rules[0] or 0, rules[1])
    else:
        rules = None, 1
        node = SimulatedNode(load_core(), machine, at_once)
    with failure_ends():
        profile, path = tune_workload(
            WORKLOADS[workload], asked, node, gpus, [name for name in MECHANISMS if name in names],
            tuning, rules[0], rules[1], out,
        )  # fmt: skip
    files.show_and_write(partial(explain, profile, path), {path: partial(json_text, profile)})
