"""`interlace bench park`: compares parked memory with vLLM's sleep mode and torch_memory_saver."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from interlace.base import files
from interlace.base.errors import UserError
from interlace.cli.failures import failure_ends
from interlace.cli.shared_options import ChartsFile, ResultsFile, count_option, result_texts
from interlace.model.options import size_between, whole
from interlace.show.park_bench import page, print_parks
from interlace.study.park_bench import METHODS, run

LEAST, MOST, DEFAULT_BYTES = "64M", "1024G", "16G"
DEFAULT_REPEATS = 5


def park_command(
    size: Annotated[
        str,
        typer.Option(
            "--bytes", "-b", metavar="SIZE", help="Upper limit on the total size of all tensors."
        ),
    ] = DEFAULT_BYTES,
    methods: Annotated[
        str, typer.Option("--methods", metavar="LIST", help="Methods, separated by commas.")
    ] = ",".join(METHODS),
    repeats: Annotated[
        str | None,
        count_option(
            "--repeats",
            "Number of cycles after the first cycle. The table shows their median.",
            DEFAULT_REPEATS,
            "-n",
        ),
    ] = None,
    limit: Annotated[
        str | None,
        typer.Option(
            "--limit",
            metavar="S",
            help="End a method that still runs after this number of seconds.",
        ),
    ] = None,
    json_file: ResultsFile = None,
    html_file: ChartsFile = None,
) -> None:
    """Compare interlace.park with a replica of vLLM's sleep mode and with torch_memory_saver.

    Each method moves the tensors of a transformer from the GPU to host memory and back. Each method
    runs in a process of its own. The command verifies the bytes after the last cycle.
    """
    most = size_between("--bytes", size, LEAST, MOST)
    count = whole("--repeats", repeats, 1) or DEFAULT_REPEATS
    seconds = whole("--limit", limit, 1)
    wanted = methods.split(",")
    for name in wanted:
        if name not in METHODS or wanted.count(name) > 1:
            raise UserError(
                f"--methods {methods}: give some of {', '.join(METHODS)}, each at most once"
            )
    files.check_outputs({"--json": json_file, "--html": html_file})
    with failure_ends():
        results = run(most, wanted, count, seconds)
    texts = result_texts(results, json_file, html_file, page)
    files.show_and_write(partial(print_parks, results), texts)
