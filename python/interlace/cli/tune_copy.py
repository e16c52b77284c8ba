"""`interlace tune copy`: finds the fastest way to copy messages, for each message size."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from interlace.base import files
from interlace.base.errors import UserError
from interlace.cli.failures import failure_ends
from interlace.cli.shared_options import count_option, profile_option
from interlace.model.options import names_of, sizes_between, whole
from interlace.model.results import json_text
from interlace.nodes.nodes import real_node
from interlace.show.copy_tuning import print_copy_profile
from interlace.tuning.copy_tuning import PAIRS, default_path, tune_copies
from interlace.tuning.profiles import Machine

DEFAULT_LEAST, DEFAULT_MOST, DEFAULT_FACTOR = "256K", "256M", 2
DEFAULT_REPEATS, DEFAULT_WARMUP = 5, 2


def tune_copy_command(
    directions: Annotated[
        str,
        typer.Option("--directions", metavar="LIST", help=f"Some of: {','.join(PAIRS)}."),
    ] = ",".join(PAIRS),
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
    repeats: Annotated[
        str | None,
        count_option(
            "--repeats", "Number of samples of each candidate in each round.", DEFAULT_REPEATS, "-n"
        ),
    ] = None,
    warmup: Annotated[
        str | None,
        count_option(
            "--warmup", "Number of unmeasured copies before each round.", DEFAULT_WARMUP, "-w"
        ),
    ] = None,
    out: Annotated[
        Path | None,
        profile_option("copies"),
    ] = None,
) -> None:
    """Measure the fastest way to copy on this machine, and save it for all later copies.

    For each direction and size, the command measures one plain copy, and copies over several paths:
    through other GPUs, through the host, or through both. Each of these copies runs on streams and
    as a graph, with several numbers of chunks. All bytes are verified. If you leave a direction
    out, later copies in this direction are plain copies.
    """
    wanted = names_of("--directions", directions, tuple(PAIRS), "direction")
    sizes = sizes_between(begin, end, factor, DEFAULT_FACTOR)
    samples = whole("--repeats", repeats, 1) or DEFAULT_REPEATS
    before = DEFAULT_WARMUP if (given := whole("--warmup", warmup, 1)) is None else given
    if out is not None:
        files.check_writable(out, "--out")
    node = real_node(before, samples, hint="run tune copy on a computer with GPUs")
    if node.gpus < 2:
        raise UserError(f"tune copy needs at least 2 GPUs; {node.machine_name} has 1")
    machine = Machine.of(node)
    path = out or default_path(machine)
    if out is None:
        files.make_folder(path.parent)
        files.check_writable(path, "the profile")
    with failure_ends():
        profile = tune_copies(node, wanted, sizes, before, samples)
    files.show_and_write(
        partial(print_copy_profile, profile, path), {path: partial(json_text, profile)}
    )
