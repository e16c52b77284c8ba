"""`interlace bench collective`: compares collectives made of planned copies with NCCL's
collectives.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from interlace.base import files
from interlace.base.errors import UserError
from interlace.cli.bench_copy import DEFAULT_FACTOR, METHODS_HELP
from interlace.cli.failures import failure_ends
from interlace.cli.shared_options import ResultsFile, count_option
from interlace.model.copies import PLAIN
from interlace.model.options import names_of, sizes_between, whole
from interlace.model.results import json_text
from interlace.nodes.nodes import real_node
from interlace.show.collective_bench import print_collectives
from interlace.study.collective_bench import FLOAT32, PATTERNS, REDUCE, gpus_of, measure
from interlace.study.copy_bench import DEFAULT_REPEATS, DEFAULT_WARMUP, METHODS

DEFAULT_LEAST, DEFAULT_MOST = "1M", "256M"


def collective_command(
    patterns: Annotated[
        str | None,
        typer.Option(
            "--patterns",
            metavar="LIST",
            help=f"Some of: {','.join(PATTERNS)}.  [default: all that the methods and sizes allow]",
        ),
    ] = None,
    gpus: Annotated[
        str | None,
        typer.Option("--gpus", metavar="N", help="Use the first N GPUs.  [default: all]"),
    ] = None,
    begin: Annotated[
        str,
        typer.Option(
            "--begin",
            "-b",
            metavar="SIZE",
            help="The smallest block that a GPU sends to another GPU.",
        ),
    ] = DEFAULT_LEAST,
    end: Annotated[
        str, typer.Option("--end", "-e", metavar="SIZE", help="The largest block.")
    ] = DEFAULT_MOST,
    factor: Annotated[
        str | None,
        count_option("--factor", "The factor from one size to the next.", DEFAULT_FACTOR, "-f"),
    ] = None,
    methods: Annotated[
        str | None, typer.Option("--methods", metavar="LIST", help=METHODS_HELP)
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
    json_file: ResultsFile = None,
) -> None:
    """Compare three ways to run a collective: jointly planned copies, plain copies, and NCCL.

    An all-reduce adds float32 numbers, so plain copies cannot make it. The methods take turns. The
    command verifies the first and the last repeat. It compares the sums of an all-reduce with sums
    that the host computes in double precision.
    """
    wanted = list(PATTERNS)
    if patterns is not None:
        wanted = names_of("--patterns", patterns, PATTERNS, "collective")
    named = None if methods is None else names_of("--methods", methods, METHODS, "method")
    sizes = sizes_between(begin, end, factor, DEFAULT_FACTOR)
    odd = any(size % FLOAT32 for size in sizes)
    if patterns is None and (odd or named == [PLAIN]):
        wanted.remove(REDUCE)
    if named == [PLAIN] and REDUCE in wanted:
        raise UserError(
            f"--methods {PLAIN}: plain copies cannot make an {REDUCE}; name another method too"
        )
    if odd and REDUCE in wanted:
        raise UserError(
            f"--begin {begin}: the blocks of an {REDUCE} must have a multiple of 4 bytes"
        )
    asked = whole("--gpus", gpus, 2)
    times = whole("--repeats", repeats, 1) or DEFAULT_REPEATS
    before = DEFAULT_WARMUP if (given := whole("--warmup", warmup, 1)) is None else given
    if json_file is not None:
        files.check_writable(json_file, "--json")

    node = real_node(before, times, hint="run bench on a computer with GPUs")
    count = gpus_of(node, asked)
    with failure_ends():
        results = measure(node, count, named, wanted, sizes, before, times)
    texts = {} if json_file is None else {json_file: partial(json_text, results)}
    files.show_and_write(partial(print_collectives, results, count), texts)
    if any(row.wrong for row in results.rows):
        raise typer.Exit(1)
