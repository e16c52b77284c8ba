"""`interlace bench updates`: compares two ways to update random elements: bins and atomics."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from interlace.base import files
from interlace.base.errors import UserError
from interlace.cli.failures import failure_ends
from interlace.cli.shared_options import ResultsFile, count_option, list_option
from interlace.model.options import byte_count, whole
from interlace.model.results import json_text
from interlace.nodes.nodes import real_node
from interlace.show.updates_bench import print_updates
from interlace.study.updates_bench import LEAST_TABLE, MOST_TABLE, measure

TABLES, HOST_TABLES = "32M,512M,8G", "1G"
DEFAULT_REPEATS = 3
DEFAULT_UPDATES = 4


def _sizes(option: str, text: str) -> list[int]:
    if text == "none":
        return []
    found = {byte_count(option, word) for word in text.split(",")}
    if not all(LEAST_TABLE <= one <= MOST_TABLE and one & (one - 1) == 0 for one in found):
        raise UserError(
            f"{option} {text!r}: give powers of two of at least 1M, such as 512M,8G, or none"
        )
    return sorted(found)


def updates_command(
    tables: Annotated[
        str, list_option("--tables", "Sizes of tables in GPU memory, or the word none.", TABLES)
    ] = TABLES,
    host_tables: Annotated[
        str,
        list_option(
            "--host-tables", "Sizes of tables in host memory, or the word none.", HOST_TABLES
        ),
    ] = HOST_TABLES,
    updates: Annotated[
        str | None,
        count_option(
            "--updates", "Number of updates for each element of a table.", DEFAULT_UPDATES
        ),
    ] = None,
    repeats: Annotated[
        str | None,
        count_option(
            "--repeats", "Number of repeats. The table shows their median.", DEFAULT_REPEATS, "-n"
        ),
    ] = None,
    json_file: ResultsFile = None,
) -> None:
    """Compare two ways to update random elements of large tables: bins and plain atomics.

    The bins method sorts the updates into bins first. The command also measures each stage of this
    method. Both methods make the same updates, namely the updates of HPCC's RandomAccess. The
    command then verifies the table. For tables in host memory, the command also measures stores and
    atomics over the link, and updates by the host itself.
    """
    sizes, host_sizes = _sizes("--tables", tables), _sizes("--host-tables", host_tables)
    if not sizes and not host_sizes:
        raise UserError(
            "--tables none and --host-tables none leave nothing to measure; give sizes to one of "
            "them"
        )
    times = whole("--repeats", repeats, 1) or DEFAULT_REPEATS
    each = whole("--updates", updates, 1) or DEFAULT_UPDATES
    if json_file is not None:
        files.check_writable(json_file, "--json")
    node = real_node(0, times, hint="run bench on a computer with GPUs")
    with failure_ends():
        results = measure(node, sizes, host_sizes, each, times)
    texts = {} if json_file is None else {json_file: partial(json_text, results)}
    files.show_and_write(partial(print_updates, results), texts)
    if any(row.wrong for row in results.rows) or any(row.wrong for row in results.host_rows):
        raise typer.Exit(1)
