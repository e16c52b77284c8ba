"""`interlace bench load`: compares loads of a checkpoint with safetensors' own reader."""

from __future__ import annotations

from functools import partial
from math import prod
from pathlib import Path
from typing import Annotated

import typer

from interlace.base import files
from interlace.base.errors import UserError
from interlace.cli.failures import failure_ends
from interlace.cli.shared_options import ResultsFile, count_option
from interlace.model.mechanisms import MIB
from interlace.model.options import size_between, whole
from interlace.model.results import json_text
from interlace.runtime import reading
from interlace.show.load_bench import print_loads
from interlace.study.load_bench import run

LEAST, MOST, DEFAULT_BYTES = "1M", "64G", "4G"
DEFAULT_REPEATS = 5
DEFAULT_SLOT = f"{reading.RING[1] // MIB}M"


def load_command(
    size: Annotated[
        str,
        typer.Option(
            "--bytes", "-b", metavar="SIZE", help="The largest size of the file; 16G: all layers."
        ),
    ] = DEFAULT_BYTES,
    device: Annotated[
        str | None,
        typer.Option(
            "--device", metavar="NAME", help="cpu, cuda:0, ...  [default: cuda:0 if it is there]"
        ),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option("--folder", metavar="DIR", help="For the file.  [default: the temporary one]"),
    ] = None,
    threads: Annotated[
        str | None, typer.Option("--threads", metavar="N", help="That read.  [default: the cores]")
    ] = None,
    slots: Annotated[
        str | None, count_option("--slots", "Of page-locked memory.", reading.RING[0])
    ] = None,
    slot: Annotated[
        str, typer.Option("--slot", metavar="SIZE", help="Bytes of each.")
    ] = DEFAULT_SLOT,
    repeats: Annotated[
        str | None,
        count_option("--repeats", "Repeats; the median is shown.", DEFAULT_REPEATS, "-n"),
    ] = None,
    json_file: ResultsFile = None,
) -> None:
    """Compare loads of a transformer's checkpoint by interlace.load and safetensors' load_file.

    The file is in the page cache. Methods take turns. The bytes of each method's first load are
    verified.
    """
    most = size_between("--bytes", size, LEAST, MOST)
    count = whole("--repeats", repeats, 1) or DEFAULT_REPEATS
    ring = (whole("--slots", slots, 1) or reading.RING[0], size_between("--slot", slot, "4K", "1G"))
    if prod(ring) > reading.MOST_RING:
        raise UserError(f"--slots {ring[0]} --slot {slot}: give slots of at most 1 TiB in all")
    workers = whole("--threads", threads, 1)
    if workers is not None and workers > reading.MOST_NAMED_THREADS:
        raise UserError(
            f"--threads {workers}: give a number of at most {reading.MOST_NAMED_THREADS}"
        )
    if json_file is not None:
        files.check_writable(json_file, "--json")
    with failure_ends():
        results = run(most, device, folder, workers, ring, count)
    texts = {} if json_file is None else {json_file: partial(json_text, results)}
    files.show_and_write(partial(print_loads, results), texts)
    if any(row.wrong for row in results.rows):
        raise typer.Exit(1)
