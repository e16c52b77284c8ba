"""`interlace bench copy`: copies over several paths beside plain ones, on this computer's GPUs."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any

import msgspec
import typer

from interlace.base.errors import UserError, unknown
from interlace.base.progress import progress
from interlace.base.turns import turn
from interlace.cli.failures import failure_ends
from interlace.cli.shared_options import ResultsFile, count_option
from interlace.model.mechanisms import NOT_AVAILABLE, size_text
from interlace.model.options import byte_count, whole
from interlace.model.results import BenchmarkFile, json_text, measured_by
from interlace.model.run import core_errors
from interlace.nodes.nodes import CudaNode, real_node
from interlace.show import table

HOST = -1
PLAIN = "memcpy"
NCCL = "nccl"
NVLS_OFF = f"{NCCL}: without multicast in the switches (NCCL_NVLS_ENABLE=0)."
METHODS = (PLAIN, "auto", "streams", "graphs", NCCL)
DEFAULT_METHODS = (PLAIN, "auto", NCCL)
DEFAULT_LEAST, DEFAULT_MOST = "64K", "256M"
MOST_BYTES = 16 << 30
DEFAULT_FACTOR = 4
DEFAULT_REPEATS = 20
DEFAULT_WARMUP = 4

OSU_WINDOW = 64  # of those benchmarks

Pairs = list[tuple[int, int]]

PATTERNS = (
    "h2d",
    "d2h",
    "p2p",
    "both-ways",
    "h2d-and-d2h",
    "all-h2d",
    "all-d2h",
    "ring",
    "all-to-all",
)


def messages(pattern: str, gpus: int) -> Pairs:
    """The messages (from, to) of a pattern, which are under way together."""
    every = range(gpus)
    if pattern == "all-h2d":
        return [(HOST, gpu) for gpu in every]
    if pattern == "all-d2h":
        return [(gpu, HOST) for gpu in every]
    if pattern == "ring":
        return [(gpu, (gpu + 1) % gpus) for gpu in every]
    if pattern == "all-to-all":
        return [(gpu, (gpu + turn) % gpus) for turn in range(1, gpus) for gpu in every]
    return {
        "h2d": [(HOST, 0)],
        "d2h": [(0, HOST)],
        "p2p": [(0, 1)],
        "both-ways": [(0, 1), (1, 0)],
        "h2d-and-d2h": [(HOST, 0), (0, HOST)],
    }[pattern]


def has_host(pattern: str) -> bool:
    """Whether a pattern has messages that begin or end in the host's memory."""
    return any(HOST in pair for pair in messages(pattern, 2))


class Row(msgspec.Struct):
    """A method with a pattern and a size; times are those of each repeat, seconds."""

    pattern: str
    bytes: int  # of each message
    messages: int
    method: str
    time_s: list[float]  # from the first call until all bytes have arrived
    call_s: list[float]  # of the host in all calls
    wrong: int  # bytes
    median_s: float
    median_call_s: float
    gb_per_s: float  # of all messages together, by the median
    speedup: float | None = None  # over memcpy


class Results(BenchmarkFile):
    """A file of results."""

    warmup: int
    repeats: int
    window: int
    notes: list[str]
    rows: list[Row]


def rows_of(pattern: str, size: int, count: int, found: Sequence[Any]) -> list[Row]:
    """What one measurement gave."""
    rows = []
    for method, time_s, call_s, wrong in found:
        median = statistics.median(time_s)
        rows.append(
            Row(
                pattern=pattern,
                bytes=size,
                messages=count,
                method=method,
                time_s=list(time_s),
                call_s=list(call_s),
                wrong=wrong,
                median_s=median,
                median_call_s=statistics.median(call_s),
                gb_per_s=1e-9 * count * size / median,
            )
        )
    plain = [row.median_s for row in rows if row.method == PLAIN]
    for row in rows:
        if plain:
            row.speedup = plain[0] / row.median_s
    return rows


def figure_columns(rows: Sequence[Row]) -> list[table.Column]:
    """The columns of a table of these rows."""
    return [
        table.Column("pattern", "", [row.pattern for row in rows], number=False),
        table.Column("size", "", [size_text(row.bytes) for row in rows]),
        table.Column("method", "", [row.method for row in rows], number=False),
        table.Column("time", "us", [f"{1e6 * row.median_s:.1f}" for row in rows]),
        table.Column("call", "us", [f"{1e6 * row.median_call_s:.1f}" for row in rows]),
        table.Column("bandwidth", "GB/s", [f"{row.gb_per_s:.2f}" for row in rows]),
        table.Column(
            "speedup",
            "x",
            [table.UNKNOWN if row.speedup is None else f"{row.speedup:.2f}" for row in rows],
        ),
        table.Column("#wrong", "", [str(row.wrong) for row in rows]),
    ]


def nccl_lines(rows: Sequence[Row], left_out: str | None) -> list[str]:
    """What is said of NCCL: how it was run, or why not."""
    if left_out is not None:
        return [f"{NCCL}{NOT_AVAILABLE}{left_out}."]
    return [NVLS_OFF] if any(row.method == NCCL for row in rows) else []


def _print(results: Results) -> None:
    rows = results.rows
    columns = figure_columns(rows)
    sections = [PATTERNS.index(row.pattern) for row in rows]
    least = {(row.pattern, row.bytes): row.median_s for row in rows}
    for row in rows:
        key = row.pattern, row.bytes
        least[key] = min(least[key], row.median_s)
    styles = [table.BEST if row.median_s == least[row.pattern, row.bytes] else "" for row in rows]
    window = f", {results.window} of each at a time" if results.window > 1 else ""
    foot = [
        "time: from the first call until all bytes have arrived, the median of "
        f"{results.repeats}; call: the host's part of it.",
        *results.notes,
    ]
    wrong = sum(row.wrong for row in rows)
    foot.append(f"{wrong} bytes wrong." if wrong else "All bytes right.")
    head = f"copies{window}, measured on {results.machine['name']}"
    table.print_table(head, columns, sections, styles, foot)


def osu_lines(rows: Sequence[Row], window: int) -> list[str]:
    """Tables in the output format of the OSU micro-benchmarks: latency of one message, bandwidth of
    windows in one direction and in both, between GPU 0 and GPU 1. MB/s are 1e6 bytes a second.

    Bandwidth is that of a window, from its first call until its last byte has arrived.
    """
    lines: list[str] = []
    for method in dict.fromkeys(row.method for row in rows):
        for name, unit, pattern, count in (
            ("Latency", "Latency (us)", "p2p", 1),
            ("Bandwidth", "Bandwidth (MB/s)", "p2p", window),
            ("Bi-Directional Bandwidth", "Bandwidth (MB/s)", "both-ways", 2 * window),
        ):
            size = "# Size"
            lines += [
                f"# Interlace put {name} Test, {method}, {count} messages at a time",
                "# Send Buffer on DEVICE (D) and Receive Buffer on DEVICE (D)",
                f"{size:<10}{unit:>20}",
            ]
            for row in rows:
                if (row.method, row.pattern, row.messages) == (method, pattern, count):
                    figure = 1e6 * row.median_s if name == "Latency" else 1e3 * row.gb_per_s
                    lines.append(f"{row.bytes:<10}{figure:>20.2f}")
            lines.append("")
    return lines


def _print_osu(results: Results) -> None:
    rows = results.rows
    print("\n".join(osu_lines(rows, results.window)), end="")
    for line in results.notes:
        typer.echo(f"interlace: {line}", err=True)
    wrong = sum(row.wrong for row in rows)
    if wrong:
        typer.echo(f"interlace: {wrong} bytes wrong", err=True)


def names_of(option: str, text: str, known: Sequence[str], kind: str) -> list[str]:
    """The names in a list, in the order of those that are known."""
    wanted = [word.strip() for word in text.split(",")]
    for word in wanted:
        if word not in known:
            raise unknown(kind, word, tuple(known)) from None
    if len(set(wanted)) < len(wanted):
        raise UserError(f"{option} {text!r}: name each once")
    return [name for name in known if name in wanted]


def methods_here(node: CudaNode, named: list[str] | None) -> tuple[list[str], str | None]:
    """The methods that were named, or those of default; and why NCCL is none of them, if so."""
    by = list(DEFAULT_METHODS) if named is None else named
    left_out = node.why_not(NCCL) if NCCL in by else None
    if left_out is None:
        return by, None
    if named is not None:
        raise UserError(f"--methods {NCCL}{NOT_AVAILABLE}{left_out}")
    return [name for name in by if name != NCCL], left_out


METHODS_HELP = (
    f"Some of: {','.join(METHODS)}.  [default: {','.join(DEFAULT_METHODS)}, the last where it is "
    "installed]"
)


def sizes_between(least: str, most: str, factor: str | None, standard: int) -> list[int]:
    """The sizes of --begin, --end and --factor."""
    first, last = byte_count("--begin", least), byte_count("--end", most)
    step = whole("--factor", factor, 2) or standard
    if last > MOST_BYTES:
        raise UserError(f"--end {most}: give at most 16G")
    if first > last:
        raise UserError(f"--begin {least} is more than --end {most}; give sizes that ascend")
    sizes = [first]
    while sizes[-1] * step <= last:
        sizes.append(sizes[-1] * step)
    return sizes


def copy_command(
    patterns: Annotated[
        str | None,
        typer.Option(
            "--patterns",
            metavar="LIST",
            help=f"Some of: {','.join(PATTERNS)}.  [default: all that these GPUs can]",
        ),
    ] = None,
    begin: Annotated[
        str, typer.Option("--begin", "-b", metavar="SIZE", help="The smallest message.")
    ] = DEFAULT_LEAST,
    end: Annotated[
        str, typer.Option("--end", "-e", metavar="SIZE", help="The largest message.")
    ] = DEFAULT_MOST,
    factor: Annotated[
        str | None,
        count_option("--factor", "From one size to the next.", DEFAULT_FACTOR, "-f"),
    ] = None,
    methods: Annotated[
        str | None, typer.Option("--methods", metavar="LIST", help=METHODS_HELP)
    ] = None,
    window: Annotated[
        str | None,
        count_option(
            "--window", "Messages of each pair at a time: a stream each, of NCCL a group.", 1
        ),
    ] = None,
    repeats: Annotated[
        str | None, count_option("--repeats", "Of which the median.", DEFAULT_REPEATS, "-n")
    ] = None,
    warmup: Annotated[
        str | None, count_option("--warmup", "Unmeasured repeats.", DEFAULT_WARMUP, "-w")
    ] = None,
    osu: Annotated[
        bool,
        typer.Option(
            "--osu",
            help="Print latency and bandwidth between two GPUs as the OSU micro-benchmarks do; the "
            f"window is then {OSU_WINDOW} by default.",
        ),
    ] = False,
    beside_kernels: Annotated[
        bool,
        typer.Option(
            "--beside-kernels",
            help="Instead: messages from the host to GPU 0 which all GPUs but the last one relay, "
            "while all but GPU 0 run a kernel bound by memory; how much each slows the other.",
        ),
    ] = False,
    json_file: ResultsFile = None,
) -> None:
    """Copies between host and GPUs and between GPUs: over several paths, plain ones, and NCCL's.

    NCCL sends and receives between GPUs alone. Methods take turns. The bytes of the first and the
    last repeat are compared.
    """
    from interlace.base import files
    from interlace.study import relay_cost

    wanted = None if patterns is None else names_of("--patterns", patterns, PATTERNS, "pattern")
    named = None if methods is None else names_of("--methods", methods, METHODS, "method")
    sizes = sizes_between(begin, end, factor, DEFAULT_FACTOR)
    count = whole("--window", window, 1) or (OSU_WINDOW if osu else 1)
    if osu and wanted is not None:
        raise UserError("--osu measures between two GPUs; leave --patterns out")
    if named == [NCCL] and not osu:
        with_host = [name for name in (wanted or ()) if has_host(name)]
        if with_host:
            raise UserError(
                f"--methods {NCCL}: NCCL copies between GPUs, and {', '.join(with_host)} of "
                "--patterns has the host; name another method too, or patterns without it"
            )
        wanted = wanted or [name for name in PATTERNS if not has_host(name)]
    if beside_kernels and (osu or any(one is not None for one in (patterns, methods, window))):
        raise UserError(
            "--beside-kernels has one pattern and one method; leave --patterns, --methods, "
            "--window and --osu out"
        )
    times = whole("--repeats", repeats, 1) or DEFAULT_REPEATS
    before = DEFAULT_WARMUP if (given := whole("--warmup", warmup, 1)) is None else given
    if json_file is not None:
        files.check_writable(json_file, "--json")

    node = real_node(before, times, hint="bench measures real GPUs")
    if beside_kernels:
        relay_cost.measure(node, sizes, before, times, json_file)
        return
    if node.gpus < 2:
        raise UserError(f"bench copy needs at least 2 GPUs; {node.machine_name} has 1")
    by, left_out = methods_here(node, named)
    rows: list[Row] = []
    chosen = [(name, count) for name in (list(PATTERNS) if wanted is None else wanted)]
    if osu:
        chosen = list(dict.fromkeys((("p2p", 1), ("p2p", count), ("both-ways", count))))
    with (
        failure_ends(),
        progress(f"copies on {node.machine_name}", len(chosen) * len(sizes)) as tick,
    ):
        for name, outstanding in chosen:
            pairs = messages(name, node.gpus) * outstanding
            can = [method for method in by if method != NCCL or not has_host(name)]
            for size in sizes:
                with turn(), core_errors(f"{name} of {size_text(size)}"):
                    found = node.cuda.measure_copies(pairs, size, can, before, times)
                rows += rows_of(name, size, len(pairs), found)
                tick()
    results = Results(
        **measured_by("copy", node),
        warmup=before,
        repeats=times,
        window=count,
        notes=nccl_lines(rows, left_out),
        rows=rows,
    )
    texts = {} if json_file is None else {json_file: partial(json_text, results)}
    show = partial(_print_osu if osu else _print, results)
    files.show_and_write(show, texts)
    if any(row.wrong for row in rows):
        raise typer.Exit(1)
