"""`interlace bench blocks`: compares batches of blocks with copies of the driver and of PyTorch."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from interlace.base import files
from interlace.base.errors import UserError
from interlace.cli.failures import failure_ends
from interlace.cli.shared_options import (
    ChartsFile,
    ResultsFile,
    count_option,
    list_option,
    result_texts,
)
from interlace.model.options import byte_count, whole, whole_numbers
from interlace.show.blocks_bench import page, print_blocks
from interlace.study.blocks_bench import DIRECTIONS, run

SIZES, COUNTS = "512,4K,16K,64K,1M", "16,256,4096,16384"
DEFAULT_REPEATS = 9
LEAST_SIZE, MOST_SIZE = 16, 1 << 28


def _block_sizes(text: str) -> list[int]:
    found = {byte_count("--sizes", word) for word in text.split(",")}
    if not all(LEAST_SIZE <= one <= MOST_SIZE and one & (one - 1) == 0 for one in found):
        raise UserError(f"--sizes {text!r}: give powers of two from 16 to 256M, such as 4K,64K")
    return sorted(found)


def blocks_command(
    sizes: Annotated[str, list_option("--sizes", "Sizes of one block.", SIZES)] = SIZES,
    counts: Annotated[str, list_option("--blocks", "Blocks per batch.", COUNTS)] = COUNTS,
    directions: Annotated[
        str, list_option("--directions", "Directions of the copies.", ",".join(DIRECTIONS))
    ] = ",".join(DIRECTIONS),
    beside: Annotated[
        str | None,
        typer.Option(
            "--beside-kernels",
            metavar="LIST",
            help=(
                "Also measure how much batches slow a kernel down. Each number of the list limits "
                "the thread blocks of a batch. 0 means no limit."
            ),
        ),
    ] = None,
    repeats: Annotated[
        str | None,
        count_option(
            "--repeats", "Number of repeats. The table shows their median.", DEFAULT_REPEATS, "-n"
        ),
    ] = None,
    json_file: ResultsFile = None,
    html_file: ChartsFile = None,
) -> None:
    """Compare batches of blocks with the driver's batches, plain copies and PyTorch's gather.

    The blocks lie at random places in 1 GiB of page-locked memory and in 1 GiB of GPU memory. The
    command skips batches of more than 256 MiB. The methods take turns. The command verifies the
    bytes that each method copies.
    """
    wanted = directions.split(",")
    if not set(wanted) <= set(DIRECTIONS):
        raise UserError(f"--directions {directions!r}: give {' or '.join(DIRECTIONS)}")
    count = whole("--repeats", repeats, 1) or DEFAULT_REPEATS
    bounds = [] if beside is None else _bounds(beside)
    block_sizes, block_counts = _block_sizes(sizes), whole_numbers("--blocks", counts, "blocks")
    files.check_outputs({"--json": json_file, "--html": html_file})
    with failure_ends():
        results = run(block_sizes, block_counts, wanted, count, bounds)
    texts = result_texts(results, json_file, html_file, page)
    files.show_and_write(partial(print_blocks, results), texts)
    if any(row.wrong for row in results.rows):
        raise typer.Exit(1)


def _bounds(text: str) -> list[int]:
    words = text.split(",")
    if not all(word.isascii() and word.isdigit() for word in words):
        raise UserError(f"--beside-kernels {text!r}: give whole numbers such as 0,4,16")
    return sorted({int(word) for word in words})
