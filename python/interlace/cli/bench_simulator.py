"""`interlace bench simulator`: measures the speed of the simulator."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from interlace.base import files
from interlace.base.errors import UserError
from interlace.cli.failures import failure_ends
from interlace.cli.shared_options import ResultsFile, count_option
from interlace.model.options import whole
from interlace.model.results import json_text
from interlace.reproduce.simulator_workloads import workloads
from interlace.show.simulator_speed import print_speed
from interlace.study.simulator_speed import run

DEFAULT_REPEATS = 3
DEFAULT_THREADS = 1
MOST_THREADS = 1024


def simulator_command(
    repeats: Annotated[
        str | None,
        count_option(
            "--repeats",
            "Number of runs of each workload. The table shows the fastest run.",
            DEFAULT_REPEATS,
        ),
    ] = None,
    threads: Annotated[
        str | None, count_option("--threads", "Number of threads of a simulation.", DEFAULT_THREADS)
    ] = None,
    long: Annotated[
        bool, typer.Option("--long", help="Also simulate a run of 10^8 accesses.")
    ] = False,
    json_file: ResultsFile = None,
) -> None:
    """Measure how many accesses and remote transactions the simulator handles per CPU second.

    The table has a row for each workload.
    """
    runs = whole("--repeats", repeats, 1) or DEFAULT_REPEATS
    of_each = whole("--threads", threads, 1) or DEFAULT_THREADS
    if of_each > MOST_THREADS:
        raise UserError(f"--threads {of_each}: give a number of at most {MOST_THREADS}")
    if json_file is not None:
        files.check_writable(json_file, "--json")
    with failure_ends():
        found = run(workloads(), runs, of_each, long=long)
    texts = {} if json_file is None else {json_file: partial(json_text, found)}
    files.show_and_write(partial(print_speed, found), texts)
