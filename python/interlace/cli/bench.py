"""`interlace bench`: microbenchmarks of this computer's GPUs; `overlap` is here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated

import typer

from interlace.base.errors import UserError
from interlace.base.progress import progress
from interlace.cli.failures import failure_ends
from interlace.cli.shared_options import ResultsFile, count_option, list_option
from interlace.model.mechanisms import (
    BOUND,
    EVERY,
    NOT_AVAILABLE,
    OWNER_COLLECTIVES,
    SIMULATED,
    Config,
    Tuning,
    label,
    size_text,
)
from interlace.model.options import (
    agent_threads,
    chunk_sizes,
    mechanism_names,
    size_between,
    whole,
    whole_numbers,
)
from interlace.model.results import json_text, measured_by
from interlace.nodes.nodes import CudaNode, real_node
from interlace.show import table
from interlace.study import overlap
from interlace.study.collective_bench import collective_command
from interlace.study.copy_bench import copy_command
from interlace.study.load_bench import load_command
from interlace.study.overlap import peers_text
from interlace.study.simulator_speed import simulator_command

DEFAULT_BYTES = "256M"
DEFAULT_CHUNKS = "4K,16K,64K,256K,1M,4M,16M,64M,256M"
DEFAULT_RANGES = ",".join(map(str, CudaNode.default_ranges))
DEFAULT_THREADS = ",".join(map(str, CudaNode.default_threads))
DEFAULT_EPOCHS = 5
DEFAULT_WARMUP = 1
DEFAULT_REPEATS = 5
MEASURED = tuple(name for name in EVERY if name not in SIMULATED)


# --- the table ------------------------------------------------------------------------------------


def _columns(rows: Sequence[overlap.OverlapRow]) -> list[table.Column]:
    def figures(values: Sequence[float | None]) -> list[str]:
        return [table.UNKNOWN if value is None else f"{value:.2f}" for value in values]

    microseconds = [None if row.time_s is None else 1e6 * row.time_s for row in rows]
    names = [label(row.mechanism, Config.of(row.config)) for row in rows]
    return [
        table.Column("peers", "", [str(row.peers) for row in rows]),
        table.Column("mechanism", "", names, number=False),
        table.Column("epoch", "us", table.fixed(microseconds)),
        table.Column("speedup", "x", figures([row.speedup for row in rows])),
        table.Column("own rate", "GB/s", table.fixed([row.gb_per_s for row in rows])),
        table.Column("limit", "x", figures([row.limit for row in rows])),
        table.Column("of limit", "%", [table.percent(row.of_limit) for row in rows]),
        table.Column("", "", ["best" if row.best else "" for row in rows], number=False),
    ]


def _footers(results: overlap.OverlapResults) -> list[str]:
    lines = [
        f"{peers_text(it.peers)}: the copies take {1e6 * it.transfer_s:.1f} us, the kernel alone "
        f"{1e6 * it.compute_s:.1f} us ({it.rounds} rounds); bulk-copy at the start and at the end "
        f"differs by {100 * it.spread:.1f} %."
        for it in results.balances
    ]
    remarks: dict[str, list[str]] = {}
    for row in results.rows:
        where = f"{label(row.mechanism, Config.of(row.config))} to {peers_text(row.peers)}"
        if row.reason is not None:
            lines.append(f"{where}: not possible: {row.reason}")
        if row.tracking is not None:
            lines.append(f"{where}: tracking alone costs {100 * row.tracking:.1f} % of the time.")
        for remark in row.remarks:
            remarks.setdefault(remark, []).append(where)
    for remark, (first, *more) in remarks.items():
        times = {0: "", 1: ", and once more"}.get(len(more), f", and {len(more)} times more")
        lines.append(f"{first}{times}: {remark}")
    return lines


def _print(results: overlap.OverlapResults, left_out: Mapping[str, str]) -> None:
    rows = results.rows
    head = (
        f"overlap, {size_text(results.bytes)} from one GPU to each peer, as long as its "
        f"kernel; measured on {results.machine['name']}"
    )
    styles = [table.BEST if row.best else "dim" if row.reason else "" for row in rows]
    cut = _columns(rows)
    foot = _footers(results)
    foot += [f"{name}{NOT_AVAILABLE}{reason}." for name, reason in left_out.items()]
    table.print_table(head, cut, [row.peers for row in rows], styles, foot)


# --- the command ----------------------------------------------------------------------------------


def _chosen_peers(text: str | None, gpus: int, machine: str) -> list[int]:
    if gpus < 2:
        raise UserError(f"overlap needs at least 2 GPUs; {machine} has 1")
    chosen = sorted({1, gpus - 1}) if text is None else whole_numbers("--peers", text, "peers")
    if chosen[-1] >= gpus:
        raise UserError(
            f"--peers {chosen[-1]}: {machine} has {peers_text(gpus - 1)} of its first GPU"
        )
    return chosen


def overlap_command(
    peers: Annotated[
        str | None,
        typer.Option(
            "--peers",
            metavar="LIST",
            help="Numbers of GPUs that receive, such as 1,3.  [default: 1 and all others]",
        ),
    ] = None,
    size: Annotated[
        str,
        typer.Option("--bytes", "-b", metavar="SIZE", help="That each peer receives in an epoch."),
    ] = DEFAULT_BYTES,
    mechanisms: Annotated[
        str | None,
        typer.Option(
            "--mechanisms",
            metavar="LIST",
            help=f"Some of: {','.join(MEASURED)}.  [default: all that can "
            "run; unified-memory only if it is named]",
        ),
    ] = None,
    split: Annotated[str | None, list_option("--split", "Ranges of split.", DEFAULT_RANGES)] = None,
    chunks: Annotated[
        str | None,
        list_option(
            "--chunks",
            "Chunks, where they are tracked.",
            "4K to 256M by factors of 4, those that the mechanism can take",
        ),
    ] = None,
    threads: Annotated[
        str | None,
        list_option(
            "--threads",
            "Threads of polling's agent and device-launch's kernels.",
            DEFAULT_THREADS,
        ),
    ] = None,
    epochs: Annotated[
        str | None,
        count_option("--epochs", "Epochs of a run.", DEFAULT_EPOCHS, "-n"),
    ] = None,
    warmup: Annotated[
        str | None,
        count_option("--warmup", "Unmeasured runs.", DEFAULT_WARMUP, "-w"),
    ] = None,
    repeats: Annotated[
        str | None,
        count_option("--repeats", "Runs, of which the median.", DEFAULT_REPEATS),
    ] = None,
    json_file: ResultsFile = None,
) -> None:
    """A kernel as long as the transfer of its result, by every mechanism and configuration."""
    from interlace.base import files

    if mechanisms is not None:
        mechanism_names("--mechanisms", mechanisms, measured=True)
    if peers is not None:
        whole_numbers("--peers", peers, "peers")
    total = size_between("--bytes", size, "64K", "16G")
    tuning = Tuning(
        tuple(whole_numbers("--split", DEFAULT_RANGES if split is None else split, "ranges")),
        chunk_sizes("--chunks", DEFAULT_CHUNKS if chunks is None else chunks),
        agent_threads("--threads", DEFAULT_THREADS if threads is None else threads),
        least_copied=0,
        bulk_agents=True,
        collectives=OWNER_COLLECTIVES,
    )
    if chunks is not None:  # all that was asked for: what is refused is a row that says so
        tuning = replace(tuning, most_waits=None)
    asked = (
        whole("--epochs", epochs, 1) or DEFAULT_EPOCHS,
        DEFAULT_WARMUP if (warmups := whole("--warmup", warmup, 0)) is None else warmups,
        whole("--repeats", repeats, 1) or DEFAULT_REPEATS,
    )
    if json_file is not None:
        files.check_writable(json_file, "--json")

    node = real_node(*asked[1:], hint="bench measures real GPUs")
    left_out: Mapping[str, str] = {}
    if mechanisms is None:
        possible, left_out = node.default_mechanisms()
        names = tuple(name for name in possible if name != BOUND)
    else:
        names = mechanism_names("--mechanisms", mechanisms, measured=True)
        node.require(names, "--mechanisms")
    counts = _chosen_peers(peers, node.gpus, node.machine_name)
    measured = overlap.Overlap(node.cuda, total, *asked)
    balances: list[overlap.Balance] = []
    rows: list[overlap.OverlapRow] = []
    steps = len(counts) * measured.steps(names, tuning)
    with failure_ends(), progress(f"overlap on {node.machine_name}", steps) as tick:
        for count in counts:
            balance, found = measured.measure(count, names, tuning, tick)
            balances.append(balance)
            rows += found
    results = overlap.OverlapResults(
        **measured_by("overlap", node),
        bytes=total,
        epochs=asked[0],
        warmup=asked[1],
        repeats=asked[2],
        balances=balances,
        rows=rows,
    )
    texts = {} if json_file is None else {json_file: partial(json_text, results)}
    files.show_and_write(partial(_print, results, left_out), texts)


COMMANDS: dict[str, Callable[..., None]] = {
    "collective": collective_command,
    "copy": copy_command,
    "load": load_command,
    "overlap": overlap_command,
    "simulator": simulator_command,
}
