"""`interlace bench overlap`: measures how much of a transfer each mechanism hides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Annotated

import typer

from interlace.base import files
from interlace.cli.failures import failure_ends
from interlace.cli.shared_options import ResultsFile, count_option, list_option
from interlace.model.mechanism_table import DEVICE_LAUNCH, POLLING, SPLIT, UNIFIED_MEMORY
from interlace.model.mechanisms import BOUND, EVERY, OWNER_COLLECTIVES, SIMULATED, Tuning
from interlace.model.options import (
    agent_threads,
    chunk_sizes,
    mechanism_names,
    size_between,
    whole,
    whole_numbers,
)
from interlace.model.results import json_text
from interlace.nodes.nodes import CudaNode, real_node
from interlace.show.overlap import print_overlap
from interlace.study import overlap

DEFAULT_BYTES = "256M"
DEFAULT_CHUNKS = "4K,16K,64K,256K,1M,4M,16M,64M,256M"
DEFAULT_RANGES = ",".join(map(str, CudaNode.default_ranges))
DEFAULT_THREADS = ",".join(map(str, CudaNode.default_threads))
DEFAULT_EPOCHS = 5
DEFAULT_WARMUP = 1
DEFAULT_REPEATS = 5
MEASURED = tuple(name for name in EVERY if name not in SIMULATED)


def overlap_command(
    peers: Annotated[
        str | None,
        typer.Option(
            "--peers",
            metavar="LIST",
            help="Numbers of receiving GPUs, such as 1,3.  [default: 1, and all GPUs but one]",
        ),
    ] = None,
    size: Annotated[
        str,
        typer.Option(
            "--bytes", "-b", metavar="SIZE", help="Bytes that each receiving GPU gets in an epoch."
        ),
    ] = DEFAULT_BYTES,
    mechanisms: Annotated[
        str | None,
        typer.Option(
            "--mechanisms",
            metavar="LIST",
            help=f"Some of: {','.join(MEASURED)}.  [default: all that can "
            f"run; {UNIFIED_MEMORY} only if it is named]",
        ),
    ] = None,
    split: Annotated[
        str | None, list_option("--split", f"Numbers of ranges to try for {SPLIT}.", DEFAULT_RANGES)
    ] = None,
    chunks: Annotated[
        str | None,
        list_option(
            "--chunks",
            "Chunk sizes to try, for mechanisms that track chunks.",
            "4K to 256M by factors of 4, as far as the mechanism can use them",
        ),
    ] = None,
    threads: Annotated[
        str | None,
        list_option(
            "--threads",
            f"Threads to try for {POLLING}'s agent and {DEVICE_LAUNCH}'s kernels.",
            DEFAULT_THREADS,
        ),
    ] = None,
    epochs: Annotated[
        str | None,
        count_option("--epochs", "Number of epochs in each run.", DEFAULT_EPOCHS, "-n"),
    ] = None,
    warmup: Annotated[
        str | None,
        count_option("--warmup", "Number of unmeasured runs.", DEFAULT_WARMUP, "-w"),
    ] = None,
    repeats: Annotated[
        str | None,
        count_option(
            "--repeats", "Number of measured runs. The table shows their median.", DEFAULT_REPEATS
        ),
    ] = None,
    json_file: ResultsFile = None,
) -> None:
    """Measure how much of a transfer each mechanism hides.

    In each run, a kernel computes the data that the transfer sends. Without the transfer, the
    kernel takes as long as the transfer takes without the kernel.
    """
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
    if chunks is not None:
        # every requested configuration gets a row; if it is refused, the row has the reason
        tuning = replace(tuning, most_waits=None)
    asked = (
        whole("--epochs", epochs, 1) or DEFAULT_EPOCHS,
        DEFAULT_WARMUP if (warmups := whole("--warmup", warmup, 0)) is None else warmups,
        whole("--repeats", repeats, 1) or DEFAULT_REPEATS,
    )
    if json_file is not None:
        files.check_writable(json_file, "--json")

    node = real_node(*asked[1:], hint="run bench on a computer with GPUs")
    left_out: Mapping[str, str] = {}
    if mechanisms is None:
        possible, left_out = node.default_mechanisms()
        names = tuple(name for name in possible if name != BOUND)
    else:
        names = mechanism_names("--mechanisms", mechanisms, measured=True)
        node.require(names, "--mechanisms")
    counts = overlap.chosen_peers(peers, node.gpus, node.machine_name)
    with failure_ends():
        results = overlap.measure_all(node, counts, names, tuning, total, asked)
    texts = {} if json_file is None else {json_file: partial(json_text, results)}
    files.show_and_write(partial(print_overlap, results, left_out), texts)
