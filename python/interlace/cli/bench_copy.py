"""`interlace bench copy`: compares copies over several paths with plain copies on GPUs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated

import typer

from interlace.base import files
from interlace.base.errors import UserError
from interlace.cli.failures import failure_ends
from interlace.cli.shared_options import ResultsFile, count_option
from interlace.model.mechanism_table import NCCL
from interlace.model.options import names_of, sizes_between, whole
from interlace.model.results import json_text
from interlace.nodes.nodes import real_node
from interlace.show.copy_bench import print_as_osu, print_copies
from interlace.show.relay_cost import print_relay_cost
from interlace.study import relay_cost
from interlace.study.copy_bench import (
    DEFAULT_METHODS,
    DEFAULT_REPEATS,
    DEFAULT_WARMUP,
    METHODS,
    PATTERNS,
    CopyResults,
    has_host,
    measure,
    patterns_of,
)
from interlace.study.relay_cost import RelayResults

DEFAULT_LEAST, DEFAULT_MOST = "64K", "256M"
DEFAULT_FACTOR = 4
OSU_WINDOW = 64  # the default of the OSU micro-benchmarks
METHODS_HELP = (
    f"Some of: {','.join(METHODS)}.  [default: {','.join(DEFAULT_METHODS)}, but nccl only if it "
    "is installed]"
)


def copy_command(
    patterns: Annotated[
        str | None,
        typer.Option(
            "--patterns",
            metavar="LIST",
            help=f"Some of: {','.join(PATTERNS)}.  [default: all that these GPUs allow]",
        ),
    ] = None,
    begin: Annotated[
        str, typer.Option("--begin", "-b", metavar="SIZE", help="The smallest message.")
    ] = DEFAULT_LEAST,
    end: Annotated[
        str, typer.Option("--end", "-e", metavar="SIZE", help="The largest message.")
    ] = DEFAULT_MOST,
    factor: Annotated[
        str | None,
        count_option("--factor", "The factor from one size to the next.", DEFAULT_FACTOR, "-f"),
    ] = None,
    methods: Annotated[
        str | None, typer.Option("--methods", metavar="LIST", help=METHODS_HELP)
    ] = None,
    window: Annotated[
        str | None,
        count_option(
            "--window",
            "The number of messages that each pair of GPUs has in flight at a time. Each message "
            "has its own stream. NCCL sends all messages as one group.",
            1,
        ),
    ] = None,
    repeats: Annotated[
        str | None,
        count_option(
            "--repeats", "Number of repeats. The table shows their median.", DEFAULT_REPEATS, "-n"
        ),
    ] = None,
    warmup: Annotated[
        str | None, count_option("--warmup", "Number of unmeasured repeats.", DEFAULT_WARMUP, "-w")
    ] = None,
    osu: Annotated[
        bool,
        typer.Option(
            "--osu",
            help=(
                "Print latency and bandwidth between two GPUs in the format of the OSU "
                f"micro-benchmarks. With --osu, the default of --window is {OSU_WINDOW}."
            ),
        ),
    ] = False,
    beside_kernels: Annotated[
        bool,
        typer.Option(
            "--beside-kernels",
            help=(
                "Measure only how much relayed copies and kernels slow each other down. Messages "
                "go from the host to GPU 0. All other GPUs except the last one relay them. All "
                "GPUs except GPU 0 run a memory-bound kernel."
            ),
        ),
    ] = False,
    json_file: ResultsFile = None,
) -> None:
    """Compare copies over several paths with plain copies and NCCL, on this computer's GPUs.

    NCCL is measured only for patterns between GPUs. The methods take turns. The command verifies
    the bytes of the first and the last repeat.
    """
    wanted = None if patterns is None else names_of("--patterns", patterns, PATTERNS, "pattern")
    named = None if methods is None else names_of("--methods", methods, METHODS, "method")
    sizes = sizes_between(begin, end, factor, DEFAULT_FACTOR)
    count = whole("--window", window, 1) or (OSU_WINDOW if osu else 1)
    if osu and wanted is not None:
        raise UserError("--osu measures between two GPUs; leave --patterns out")
    if named == [NCCL] and not osu:
        with_host = [name for name in (wanted or ()) if has_host(name)]
        if with_host:
            raise UserError(
                f"--methods {NCCL}: NCCL copies between GPUs, but {', '.join(with_host)} of "
                "--patterns uses the host; name another method too, or only patterns without the "
                "host"
            )
        wanted = wanted or [name for name in PATTERNS if not has_host(name)]
    if beside_kernels and (osu or any(one is not None for one in (patterns, methods, window))):
        raise UserError(
            "--beside-kernels has only one pattern and one method; leave --patterns, --methods, "
            "--window and --osu out"
        )
    times = whole("--repeats", repeats, 1) or DEFAULT_REPEATS
    before = DEFAULT_WARMUP if (given := whole("--warmup", warmup, 1)) is None else given
    if json_file is not None:
        files.check_writable(json_file, "--json")

    node = real_node(before, times, hint="run bench on a computer with GPUs")
    show: Callable[[], None]
    results: CopyResults | RelayResults
    with failure_ends():
        if beside_kernels:
            results = relay_cost.measure(node, sizes, before, times)
            show = partial(print_relay_cost, results)
        else:
            chosen = patterns_of(wanted, count, osu=osu)
            results = measure(node, named, chosen, sizes, count, before, times)
            show = partial(print_as_osu if osu else print_copies, results)
    texts = {} if json_file is None else {json_file: partial(json_text, results)}
    files.show_and_write(show, texts)
    if any(row.wrong for row in results.rows):
        raise typer.Exit(1)
