"""`interlace bench collective`: collectives as planned copies, beside NCCL's."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from interlace.base.errors import UserError
from interlace.base.progress import progress
from interlace.base.turns import turn
from interlace.cli.failures import failure_ends
from interlace.cli.shared_options import ResultsFile, count_option
from interlace.model.mechanisms import size_text
from interlace.model.options import whole
from interlace.model.results import json_text, measured_by
from interlace.model.run import core_errors
from interlace.nodes.nodes import real_node
from interlace.show import table
from interlace.study.copy_bench import (
    DEFAULT_FACTOR,
    DEFAULT_REPEATS,
    DEFAULT_WARMUP,
    METHODS,
    METHODS_HELP,
    PLAIN,
    Results,
    Row,
    figure_columns,
    methods_here,
    names_of,
    nccl_lines,
    rows_of,
    sizes_between,
)

REDUCE = "all-reduce"
PATTERNS = ("all-gather", "all-to-all", REDUCE)
FLOAT32 = 4  # bytes
DEFAULT_LEAST, DEFAULT_MOST = "1M", "256M"


def messages_of(pattern: str, gpus: int) -> int:
    """How many blocks GPUs send to each other: of an all-reduce, summands and then sums."""
    return gpus * (gpus - 1) * (2 if pattern == REDUCE else 1)


def _print(results: Results, gpus: int) -> None:
    rows = results.rows

    def bus(row: Row) -> str:
        return f"{row.gb_per_s / gpus:.2f}"

    columns = figure_columns(rows)
    columns.insert(-2, table.Column("of a GPU", "GB/s", [bus(row) for row in rows]))
    least: dict[tuple[str, int], float] = {}
    for row in rows:
        key = row.pattern, row.bytes
        least[key] = min(least.get(key, row.median_s), row.median_s)
    styles = [table.BEST if row.median_s == least[row.pattern, row.bytes] else "" for row in rows]
    foot = [
        "size: of the block that each GPU sends to each other; time: from the first call until all "
        f"have arrived, the median of {results.repeats}.",
        *(
            [f"{REDUCE}: sums of float32; each GPU has {gpus} blocks, of which it adds one."]
            if any(row.pattern == REDUCE for row in rows)
            else []
        ),
        "of a GPU: what each one sends to others in a second (the bus bandwidth of nccl-tests).",
        *results.notes,
    ]
    wrong = sum(row.wrong for row in rows)
    foot.append(f"{wrong} bytes wrong." if wrong else "All bytes right.")
    head = f"collectives of {gpus} GPUs, measured on {results.machine['name']}"
    sections = [PATTERNS.index(row.pattern) for row in rows]
    table.print_table(head, columns, sections, styles, foot)


def collective_command(
    patterns: Annotated[
        str | None,
        typer.Option(
            "--patterns",
            metavar="LIST",
            help=f"Some of: {','.join(PATTERNS)}.  [default: all that methods and sizes allow]",
        ),
    ] = None,
    gpus: Annotated[
        str | None,
        typer.Option("--gpus", metavar="N", help="The first GPUs.  [default: all]"),
    ] = None,
    begin: Annotated[
        str,
        typer.Option(
            "--begin", "-b", metavar="SIZE", help="The smallest block, of a GPU for another."
        ),
    ] = DEFAULT_LEAST,
    end: Annotated[
        str, typer.Option("--end", "-e", metavar="SIZE", help="The largest block.")
    ] = DEFAULT_MOST,
    factor: Annotated[
        str | None,
        count_option("--factor", "From one size to the next.", DEFAULT_FACTOR, "-f"),
    ] = None,
    methods: Annotated[
        str | None, typer.Option("--methods", metavar="LIST", help=METHODS_HELP)
    ] = None,
    repeats: Annotated[
        str | None, count_option("--repeats", "Of which the median.", DEFAULT_REPEATS, "-n")
    ] = None,
    warmup: Annotated[
        str | None, count_option("--warmup", "Unmeasured repeats.", DEFAULT_WARMUP, "-w")
    ] = None,
    json_file: ResultsFile = None,
) -> None:
    """Collectives: as copies that are planned together, as plain copies, by NCCL.

    An all-reduce is of sums of float32, and has no plain copies. Methods take turns. The bytes of
    the first and the last repeat are compared, sums with those of the host in double precision.
    """
    from interlace.base import files

    wanted = list(PATTERNS)
    if patterns is not None:
        wanted = names_of("--patterns", patterns, PATTERNS, "collective")
    named = None if methods is None else names_of("--methods", methods, METHODS, "method")
    sizes = sizes_between(begin, end, factor, DEFAULT_FACTOR)
    odd = any(size % FLOAT32 for size in sizes)
    if patterns is None and (odd or named == [PLAIN]):
        wanted.remove(REDUCE)
    if named == [PLAIN] and REDUCE in wanted:
        raise UserError(f"--methods {PLAIN}: a plain copy is no {REDUCE}; name another method too")
    if odd and REDUCE in wanted:
        raise UserError(f"--begin {begin}: blocks of an {REDUCE} have a multiple of 4 bytes")
    asked = whole("--gpus", gpus, 2)
    times = whole("--repeats", repeats, 1) or DEFAULT_REPEATS
    before = DEFAULT_WARMUP if (given := whole("--warmup", warmup, 1)) is None else given
    if json_file is not None:
        files.check_writable(json_file, "--json")

    node = real_node(before, times, hint="bench measures real GPUs")
    if node.gpus < 2:
        raise UserError(f"bench collective needs at least 2 GPUs; {node.machine_name} has 1")
    count = asked or node.gpus
    if count > node.gpus:
        raise UserError(f"--gpus {count}: {node.machine_name} has {node.gpus}")
    by, left_out = methods_here(node, named)
    rows: list[Row] = []
    with (
        failure_ends(),
        progress(f"collectives on {node.machine_name}", len(wanted) * len(sizes)) as tick,
    ):
        for name in wanted:
            can = [method for method in by if method != PLAIN or name != REDUCE]
            for size in sizes:
                with turn(), core_errors(f"{name} of {size_text(size)}"):
                    found = node.cuda.measure_collective(name, count, size, can, before, times)
                rows += rows_of(name, size, messages_of(name, count), found)
                tick()
    results = Results(
        **measured_by("collective", node),
        warmup=before,
        repeats=times,
        window=1,
        notes=nccl_lines(rows, left_out),
        rows=rows,
    )
    texts = {} if json_file is None else {json_file: partial(json_text, results)}
    files.show_and_write(partial(_print, results, count), texts)
    if any(row.wrong for row in rows):
        raise typer.Exit(1)
