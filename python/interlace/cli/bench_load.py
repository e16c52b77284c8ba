"""`interlace bench load`: loads a checkpoint with every installed loader."""

from __future__ import annotations

from functools import partial
from math import prod
from pathlib import Path
from typing import Annotated

import typer

from interlace.base import files
from interlace.base.cores import allowed_cores
from interlace.base.errors import UserError
from interlace.cli.failures import failure_ends
from interlace.cli.shared_options import (
    ChartsFile,
    ResultsFile,
    count_option,
    list_option,
    result_texts,
)
from interlace.model.options import size_between, whole
from interlace.runtime import reading
from interlace.show.load_bench import page, print_loads, wrong_tensors
from interlace.study.load_bench import PLACES, Request, run
from interlace.study.load_methods import BY_NAME

LEAST, MOST, DEFAULT_BYTES = "1M", "64G", "4G"
DEFAULT_REPEATS = 5


def load_command(
    size: Annotated[
        str,
        typer.Option(
            "--bytes",
            "-b",
            metavar="SIZE",
            help=("The largest size of the file. 16G is enough for all layers of the model."),
        ),
    ] = DEFAULT_BYTES,
    device: Annotated[
        str | None,
        typer.Option(
            "--device",
            metavar="NAME",
            help=(
                "cpu, cuda:0, or a list of GPUs, each of which loads a share of the file.  "
                "[default: a GPU if there is one, otherwise cpu]"
            ),
        ),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option(
            "--folder",
            metavar="DIR",
            help="The folder for the file.  [default: the folder for temporary files]",
        ),
    ] = None,
    places: Annotated[
        str | None,
        list_option(
            "--place", f"Places of the file: {', '.join(PLACES)} (only on the disk).", PLACES[0]
        ),
    ] = None,
    methods: Annotated[
        str | None,
        list_option("--methods", f"Loaders to measure, out of: {', '.join(BY_NAME)}", "all"),
    ] = None,
    cores: Annotated[
        str | None,
        list_option("--cores", "Also measure interlace with these numbers of cores.", "none"),
    ] = None,
    threads: Annotated[
        str | None,
        typer.Option(
            "--threads",
            metavar="N",
            help="Number of interlace's reading threads.  [default: one per core]",
        ),
    ] = None,
    slots: Annotated[
        str | None,
        typer.Option(
            "--slots",
            metavar="N",
            help="Number of slots of page-locked memory.  [default: a number that suits the cores]",
        ),
    ] = None,
    slot: Annotated[
        str | None, typer.Option("--slot", metavar="SIZE", help="Bytes of each slot.")
    ] = None,
    repeats: Annotated[
        str | None,
        count_option(
            "--repeats", "Number of repeats. The table shows their median.", DEFAULT_REPEATS, "-n"
        ),
    ] = None,
    limit: Annotated[
        str | None,
        typer.Option(
            "--limit", metavar="S", help="Start no new measurement after this number of seconds."
        ),
    ] = None,
    json_file: ResultsFile = None,
    html_file: ChartsFile = None,
) -> None:
    """Compare interlace with all other installed loaders on a checkpoint of a transformer.

    Each loader runs in a process of its own, and the loaders take turns. The bytes of the first
    load of each loader are verified. If a loader takes three times as long as the fastest loader,
    the command repeats the slow loader's load only once.
    """
    most = size_between("--bytes", size, LEAST, MOST)
    request = Request(
        most,
        device,
        folder,
        _threads(threads),
        _ring(slots, slot),
        whole("--repeats", repeats, 1) or DEFAULT_REPEATS,
        _among("--place", places, PLACES) or PLACES[:1],
        _among("--methods", methods, tuple(BY_NAME)),
        _cores(cores),
        whole("--limit", limit, 1),
    )
    files.check_outputs({"--json": json_file, "--html": html_file})
    with failure_ends():
        results = run(request)
    texts = result_texts(results, json_file, html_file, page)
    files.show_and_write(partial(print_loads, results), texts)
    if wrong_tensors(results):
        raise typer.Exit(1)


def _threads(asked: str | None) -> int | None:
    workers = whole("--threads", asked, 1)
    if workers is not None and workers > reading.MOST_NAMED_THREADS:
        raise UserError(
            f"--threads {workers}: give a number of at most {reading.MOST_NAMED_THREADS}"
        )
    return workers


def _ring(slots: str | None, slot: str | None) -> tuple[int, int] | None:
    count = whole("--slots", slots, 1)
    size = None if slot is None else size_between("--slot", slot, "4K", "1G")
    if count is None and size is None:
        return None
    if count is None or size is None:
        raise UserError("--slots and --slot go together; give both options or neither")
    if prod((count, size)) > reading.MOST_RING:
        raise UserError(f"--slots {count} --slot {slot}: give slots of at most 1 TiB in all")
    return count, size


def _among(option: str, text: str | None, known: tuple[str, ...]) -> tuple[str, ...] | None:
    if text is None:
        return None
    named = tuple(part.strip() for part in text.split(","))
    for one in named:
        if one not in known:
            raise UserError(
                f"{option} {text!r}: there is no {one!r}; give some of {', '.join(known)}"
            )
    return tuple(dict.fromkeys(named))


def _cores(text: str | None) -> tuple[int, ...]:
    if text is None:
        return ()
    counts = [whole("--cores", part, 1) for part in text.split(",")]
    most = allowed_cores()
    for count in counts:
        if count is not None and count > most:
            raise UserError(f"--cores {text}: give at most {most}, the number of cores here")
    return tuple(count for count in counts if count is not None)
