"""`interlace tune blocks`: finds the fastest way to move batches of blocks, for each block size."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

from interlace.base import files
from interlace.cli.failures import failure_ends
from interlace.cli.shared_options import count_option, profile_option
from interlace.model.options import whole
from interlace.model.results import json_text
from interlace.show.block_tuning import print_block_profile
from interlace.tuning.block_tuning import REPEATS, default_path, tune_blocks


def tune_blocks_command(
    repeats: Annotated[
        str | None,
        count_option(
            "--repeats",
            "Number of measurements of each way. The profile uses their median.",
            REPEATS,
            "-n",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        profile_option("batches"),
    ] = None,
) -> None:
    """Measure the ways to move batches of blocks on GPU 0, and save the result for later batches.

    There are three ways: one kernel, one batch call of the driver, and plain copies. A later batch
    takes the way with the shortest predicted time. Without a profile, the predictions come from
    measurements of an H200.
    """
    count = whole("--repeats", repeats, 1) or REPEATS
    if out is not None:
        files.check_writable(out, "--out")
    with failure_ends():
        profile = tune_blocks(count)
    path = out or default_path(profile.machine.model)
    if out is None:
        files.make_folder(path.parent)
    files.show_and_write(
        partial(print_block_profile, profile, path), {path: partial(json_text, profile)}
    )
