"""`interlace locality`: how the loads of unified programs fall on the GPUs' memories.

How many are remote, how much of a remote line is used, how often the L1 has it: what decides
whether finer transfers or a cache would help (DualOpt, PACT 2022, Fig. 11).
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from msgspec import UnsetType

from interlace.base import workers
from interlace.base.errors import UserError, unknown
from interlace.base.files import check_writable, show_and_write
from interlace.base.native import load_core
from interlace.base.progress import progress
from interlace.base.turns import turn
from interlace.cli.failures import failure_ends
from interlace.machine.machines import Machine, load_machine, to_core
from interlace.model.options import whole, whole_numbers
from interlace.model.results import Head, json_text, provenance
from interlace.model.run import RunFailure
from interlace.nodes.nodes import CudaNode, real_node
from interlace.reproduce.rows import geometric_mean
from interlace.show import table
from interlace.workloads import unified

FORMAT = 1
MACHINE = "4x-r9nano"
THRESHOLDS = (0.02, 0.2, 0.4)  # remote, block, hit: DualOpt, Table 1
DIRECT = "direct"
OWN_PAGES = "own"  # where each array has them
MEASURED_WARMUP, MEASURED_REPEATS = 2, 7
# Pages that move; each step of DualOpt alone, and on those before it; what an engine chooses, once,
# whenever what it sees changes, or for each page; stores packed, alone and with dualopt.
MECHANISMS = (
    DIRECT, "page-migration", "griffin", "bypass", "fine-grained", "coalesced", "rdma-cache",
    "dualopt", "dualopt-adaptive", "dualopt-pages", "finepack", "dualopt-finepack",
)  # fmt: skip
LOCAL, FINE, CACHED = "local", "cache-insensitive", "cache-friendly"
PUBLISHED = {  # DualOpt, Table 2
    **dict.fromkeys(("atax", "bfs", "bicg", "pr", "spmv"), FINE),
    **dict.fromkeys(("km", "mm", "mt", "st", "bs", "sc"), CACHED),
    **dict.fromkeys(("aes", "fir"), LOCAL),
}

# What MGPUSim's 2021 release (24a2205) printed at --times 1, by program and GPUs: accesses of the
# vector L1, remote reads (with those of instructions and arguments), remote writes, microseconds.
MGPUSIM: dict[tuple[str, int], tuple[int, int, int, float]] = {
    ("atax", 1): (319552, 0, 0, 2043.973),
    ("atax", 4): (319552, 211088, 24576, 12633.495),
    ("fir", 1): (339968, 0, 0, 29.764),
    ("fir", 4): (339968, 483, 0, 16.733),
    ("mm", 1): (69696, 0, 0, 116.175),
    ("mm", 4): (69696, 49574, 0, 231.345),
    ("mt", 1): (131072, 0, 0, 93.341),
    ("mt", 4): (131072, 49968, 49152, 163.315),
    ("spmv", 1): (454313, 0, 0, 103.147),
    ("spmv", 4): (454313, 233217, 256, 499.911),
}

# How fast it was in these runs, on one thread of an EPYC: accesses of the vector L1, and remote
# reads and writes, a CPU-second. It executes the kernels' machine code as well.
MGPUSIM_SPEED: dict[tuple[str, int], tuple[float, float]] = {
    ("atax", 1): (6957.4, 0.0),
    ("atax", 4): (2756.7, 2033.0),
    ("fir", 1): (7689.8, 0.0),
    ("fir", 4): (5028.4, 7.1),
    ("mm", 1): (5487.9, 0.0),
    ("mm", 4): (4059.2, 2887.2),
    ("mt", 1): (3548.2, 0.0),
    ("mt", 4): (1727.6, 1306.4),
    ("spmv", 1): (10952.6, 0.0),
    ("spmv", 4): (5941.1, 3053.1),
}


class Loads(msgspec.Struct, frozen=True):
    """What a run's loads and stores were; an access is a warp's instruction and a line of its."""

    vector_accesses: int
    scalar_accesses: int
    local_loads: int
    remote_loads: int
    remote_hits: int
    remote_useful_bytes: int
    local_stores: int
    remote_stores: int
    requests: int
    reply_bytes: int
    wire_bytes: int
    mean_latency_s: float
    bypassed: int
    mask_hits: int
    mask_misses: int
    coalesced_packets: int
    timeout_packets: int
    coalesced_pieces: int
    cache_hits: int
    cache_misses: int
    coalesced_pages: int
    cached_pages: int
    migrated_pages: int
    migrated_again: int  # of them, those that had moved or been touched at home before
    delayed_touches: int
    migration_batches: int
    remote_by_words: list[int]  # remote loads by how many words of 4 bytes lanes want, less one
    l2_loads: int
    l2_hits: int
    mean_wait_s: float  # of a load instruction
    mean_in_links_s: float  # of mean_latency_s
    # Where the machine translates addresses: accesses in L1 TLBs, what these asked of L2 TLBs.
    tlb_hits: int
    tlb_misses: int
    l2_tlb_hits: int
    l2_tlb_misses: int
    walks: int  # at the host
    walk_wire_bytes: int
    mean_walk_s: float  # from a request until its answer


class Decision(msgspec.Struct, frozen=True):
    """What a decision engine found, by what, and when; not made: the run ended before."""

    made: bool
    choice: str  # none, coalesced, rdma-cache
    when_s: float
    accesses: int
    remote: int
    loads: int  # remote ones
    remote_ratio: float
    block_utilisation: float
    hit_rate: float


class Row(msgspec.Struct, frozen=True):
    """A program on so many GPUs, its remote loads as the mechanism has them."""

    program: str
    sizes: str
    gpus: int
    mechanism: str
    time_s: float
    cpu_s: float
    speedup: float | None  # over one GPU, where that was run
    over_direct: float | None  # speedup over direct on as many GPUs, where that was run
    loads: Loads
    link_bytes: float  # of everything between GPUs
    remote_share: float  # of vector accesses
    used_of_line: float  # of remote loads
    hit_rate: float  # of remote loads, in the L1
    locality: str
    published: str  # its class in DualOpt's Table 2
    decisions: list[Decision]  # of dualopt one, of dualopt-adaptive as many as it took
    mgpusim: dict[str, float] | None  # the same run in MGPUSim


class Measured(msgspec.Struct, frozen=True):
    """A program on so many real GPUs, whose remote loads are as they are."""

    program: str
    sizes: str
    gpus: int
    time_s: list[float]  # of each repeat
    median_s: float
    speedup: float | None  # over one GPU, where that was measured
    max_error: float


class Locality(Head, frozen=True):
    """The file of `interlace locality --json`."""

    machine: str
    pages: str | None  # None: each array's own
    blocks: str
    times: int
    rows: list[Row]
    driver: str | None  # of the real GPUs
    measured_on: str | None
    measured: list[Measured]

    @property
    def comparable(self) -> bool:
        """Whether MGPUSim's runs have these sizes and placements."""
        own = self.pages in (None, OWN_PAGES)
        return self.times == 1 and own and self.blocks == "contiguous"


# A program, the number of GPUs, and a mechanism.
Case = tuple[unified.Problem, int, str]


def classify(
    remote_share: float, used: float, hits: float, thresholds: tuple[float, float, float]
) -> str:
    """The class of a program, by the flow chart."""
    remote, block, hit = thresholds
    if remote_share < remote or remote_share == 0:
        return LOCAL
    return FINE if used < block and hits < hit else CACHED


def _share(some: int, of_all: int) -> float:
    return some / of_all if of_all else 0.0


def _thresholds(machine: Machine) -> tuple[float, float, float]:
    found = machine.gpu.dualopt
    if isinstance(found, UnsetType):
        return THRESHOLDS
    return found.remote_threshold, found.block_threshold, found.hit_threshold


def _row(
    case: Case, found: dict[str, Any], one_s: float | None, direct_s: float | None,
    machine: Machine, *, comparable: bool,
) -> Row:  # fmt: skip
    it, gpus, mechanism = case
    loads = Loads(**found["loads"])
    accesses = loads.local_loads + loads.remote_loads + loads.local_stores + loads.remote_stores
    remote = loads.remote_loads + loads.remote_stores
    share = _share(remote, accesses)
    line = machine.gpu.l1.line_bytes
    used = _share(loads.remote_useful_bytes, line * loads.remote_loads)
    hits = _share(loads.remote_hits, loads.remote_loads)
    printed = MGPUSIM.get((it.name, gpus)) if comparable and mechanism == DIRECT else None
    names = ("vector_accesses", "remote_reads", "remote_writes", "kernel_us")
    return Row(
        program=it.name,
        sizes=it.sizes,
        gpus=gpus,
        mechanism=mechanism,
        time_s=found["time_s"],
        cpu_s=found["cpu_s"],
        speedup=None if one_s is None else one_s / found["time_s"],
        over_direct=None if direct_s is None else direct_s / found["time_s"],
        loads=loads,
        link_bytes=found["link_bytes"],
        remote_share=share,
        used_of_line=used,
        hit_rate=hits,
        locality=classify(share, used, hits, _thresholds(machine)),
        published=PUBLISHED[it.name],
        decisions=[Decision(**decision) for decision in found["decisions"]],
        mgpusim=None if printed is None else dict(zip(names, map(float, printed), strict=True)),
    )


def _beside(rows: Sequence[Row], *, comparable: bool) -> list[str]:
    """What MGPUSim printed for the same runs, beside ours; of other programs ours alone."""
    lines = [
        f"  {row.program}, {row.gpus} GPU{'s' if row.gpus > 1 else ''}: accesses of the vector L1 "
        f"{row.loads.vector_accesses:,} and {row.mgpusim['vector_accesses']:,.0f}, remote reads "
        f"{row.loads.requests:,} and {row.mgpusim['remote_reads']:,.0f}, remote writes "
        f"{row.loads.remote_stores:,} and {row.mgpusim['remote_writes']:,.0f}, "
        f"{1e6 * row.time_s:,.0f} and {row.mgpusim['kernel_us']:,.0f} us"
        for row in rows
        if row.mgpusim is not None
    ]
    predicted = [
        f"  {row.program}, {row.gpus} GPU{'s' if row.gpus > 1 else ''}: "
        f"{row.loads.vector_accesses:,} accesses of the vector L1, {row.loads.requests:,} remote "
        f"reads, {row.loads.remote_stores:,} remote writes, {1e6 * row.time_s:,.0f} us"
        for row in rows
        if comparable and row.mechanism == DIRECT and row.mgpusim is None
    ]
    found = []
    if lines:
        found += [
            "Ours, and what MGPUSim (24a2205, flits of 64 B) printed; its reads have those of "
            "instructions and arguments:",
            *lines,
        ]
    if predicted:
        found += ["Predictions, for MGPUSim with the same sizes:", *predicted]
    return found


def _speeds(rows: Sequence[Row]) -> list[str]:
    """Accesses and remote transactions a CPU-second, over MGPUSim's in the same runs."""
    accesses, remote = [], []
    for row in rows:
        if row.mgpusim is None or not row.cpu_s:
            continue
        its_accesses, its_remote = MGPUSIM_SPEED[row.program, row.gpus]
        accesses.append(row.loads.vector_accesses / row.cpu_s / its_accesses)
        transactions = row.loads.requests + row.loads.remote_stores
        if its_remote and transactions:
            remote.append(transactions / row.cpu_s / its_remote)
    of_accesses, of_remote = geometric_mean(accesses), geometric_mean(remote)
    if of_accesses is None:
        return []
    and_remote = "" if of_remote is None else f", of remote transactions {of_remote:.0f} times"
    return [
        f"A CPU-second has {of_accesses:.0f} times MGPUSim's accesses of the vector L1{and_remote} "
        f"(geometric means of {len(accesses)} and {len(remote)} runs; MGPUSim executes machine "
        "code besides)."
    ]


def _translations(rows: Sequence[Row]) -> list[str]:
    """What TLBs had, and what walks of the page table took."""
    lines = []
    for row in rows:
        it = row.loads
        looked_up, asked = it.tlb_hits + it.tlb_misses, it.l2_tlb_hits + it.l2_tlb_misses
        if not looked_up:
            continue
        walks = (
            f"{it.walks:,} walks of {1e9 * it.mean_walk_s:,.0f} ns, "
            f"{it.walk_wire_bytes / 1e3:,.1f} kB"
        )
        lines.append(
            f"  {row.program}, {row.gpus} GPU{'s' if row.gpus > 1 else ''}, {row.mechanism}: L1 "
            f"TLBs have {it.tlb_hits / looked_up:.2%} of {looked_up:,}, L2 TLBs "
            f"{_share(it.l2_tlb_hits, asked):.2%} of {asked:,}; {walks}"
        )
    return ["Translations:", *lines] if lines else []


def _moves(rows: Sequence[Row]) -> list[str]:
    """Pages that moved."""
    lines = []
    for row in rows:
        it = row.loads
        if not (it.migrated_pages or it.delayed_touches):
            continue
        line = f"  {row.program}, {row.gpus} GPUs, {row.mechanism}: {it.migrated_pages:,} pages"
        if it.migration_batches:
            line += (
                f" in {it.migration_batches:,} batches, {it.migrated_again:,} of them not for the "
                f"first time; {it.delayed_touches:,} first touches delayed"
            )
        lines.append(line)
    return ["Pages that moved:", *lines] if lines else []


def _decisions(rows: Sequence[Row]) -> list[str]:
    """What engines decided, and by what."""
    lines = [
        f"  {row.program}, {row.gpus} GPUs, {row.mechanism}: {it.choice}"
        + (
            f" after {1e6 * it.when_s:,.0f} us"
            if it.made
            else " would be, but the run ended before"
        )
        + f"; {it.remote:,} of {it.accesses:,} accesses remote ({it.remote_ratio:.1%}), "
        f"{it.block_utilisation:.1%} of a line used, {it.hit_rate:.1%} hits"
        for row in rows
        for it in row.decisions
    ]
    return ["Decisions:", *lines] if lines else []


def _measure(
    node: CudaNode, problems: Sequence[unified.Problem], counts: Sequence[int], **placed: str
) -> list[Measured]:
    """All programs on so many real GPUs each, one at a time."""
    found: list[Measured] = []
    with progress(f"programs on {node.machine_name}", len(problems) * len(counts)) as tick:
        for it in problems:
            alone: float | None = None
            for count in counts:
                with turn():
                    ran = unified.measure(
                        node.cuda, it, count, warmup=node.warmup, repeats=node.repeats, **placed
                    )
                median = statistics.median(ran["time_s"])
                alone = median if count == 1 else alone
                found.append(
                    Measured(
                        program=it.name,
                        sizes=it.sizes,
                        gpus=count,
                        time_s=list(ran["time_s"]),
                        median_s=median,
                        speedup=None if alone is None else alone / median,
                        max_error=ran["max_error"],
                    )
                )
                tick()
    return found


def _show_measured(found: Locality) -> None:
    rows = found.measured
    if not rows:
        return
    most = {row.program: row.gpus for row in found.rows}
    class_of = {
        row.program: row.locality
        for row in found.rows
        if row.mechanism == DIRECT and row.gpus == most[row.program]
    }
    programs = list(dict.fromkeys(row.program for row in rows))
    number, text = table.Column, partial(table.Column, number=False)
    table.print_table(
        f"The same programs, measured on {found.measured_on}; remote loads as they are",
        [
            text("program", "", [row.program for row in rows]),
            text("size", "", [row.sizes for row in rows]),
            number("GPUs", "", [str(row.gpus) for row in rows]),
            number("time", "us", [f"{1e6 * row.median_s:,.1f}" for row in rows]),
            number(
                "speedup",
                "x",
                ["-" if row.speedup is None else f"{row.speedup:.2f}" for row in rows],
            ),
            text("simulated locality", "", [class_of.get(row.program, "") for row in rows]),
        ],
        [programs.index(row.program) for row in rows],
        ["" for _ in rows],
        [
            f"time: the kernels of all GPUs, the median of {len(rows[0].time_s)} runs; pages are "
            "of 2 MiB. All results verified.",
            "locality: coalescing fine-grained replies would help cache-insensitive programs, a "
            "cache of remote lines cache-friendly ones.",
        ],
    )


def _show(found: Locality) -> None:
    rows = found.rows
    programs = list(dict.fromkeys(row.program for row in rows))
    seconds = [row.time_s for row in rows]
    class_of = {(row.program, row.gpus): row.locality for row in rows if row.mechanism == DIRECT}
    latency = [1e9 * row.loads.mean_latency_s for row in rows]
    number, text = table.Column, partial(table.Column, number=False)
    accesses = sum(row.loads.vector_accesses for row in rows)
    cpu = sum(row.cpu_s for row in rows)
    table.print_table(
        f"Loads of unified programs on {found.machine}; pages "
        f"{found.pages or 'as each array has them'}, blocks {found.blocks}",
        [
            text("program", "", [row.program for row in rows]),
            text("size", "", [row.sizes for row in rows]),
            number("GPUs", "", [str(row.gpus) for row in rows]),
            text("mechanism", "", [row.mechanism for row in rows]),
            number("time", "us", [f"{1e6 * value:,.1f}" for value in seconds]),
            number(
                "speedup",
                "x",
                ["-" if row.speedup is None else f"{row.speedup:.2f}" for row in rows],
            ),
            number(
                "of direct",
                "x",
                ["-" if row.over_direct is None else f"{row.over_direct:.2f}" for row in rows],
            ),
            number("remote", "%", [f"{100 * row.remote_share:.1f}" for row in rows]),
            number("of a line", "%", [f"{100 * row.used_of_line:.1f}" for row in rows]),
            number("L1 hits", "%", [f"{100 * row.hit_rate:.1f}" for row in rows]),
            number("requests", "", [f"{row.loads.requests:,}" for row in rows]),
            number("wire", "kB", [f"{row.loads.wire_bytes / 1e3:,.0f}" for row in rows]),
            number("round trip", "ns", [f"{value:.0f}" if value else "-" for value in latency]),
            text(
                "locality",
                "",
                [class_of.get((r.program, r.gpus), "") if r.gpus > 1 else "" for r in rows],
            ),
            text("published", "", [r.published if r.gpus > 1 else "" for r in rows]),
        ],
        [programs.index(row.program) for row in rows],
        ["" for _ in rows],
        [
            f"{accesses / cpu:,.0f} accesses a CPU-second." if cpu else "",
            *_speeds(rows),
            *_translations(rows),
            *_moves(rows),
            *_decisions(rows),
            *_beside(rows, comparable=found.comparable),
        ],
    )


def locality_command(
    programs: Annotated[
        list[str] | None,
        typer.Argument(metavar="[PROGRAM]...",
            help="fir, mt, mm, atax, spmv, bicg, bs, aes, bfs, pr, km, st, sc.  [default: all]",),
    ] = None,
    machine: Annotated[
        str, typer.Option("--machine", metavar="NAME", help="A described machine by name or file.")
    ] = MACHINE,
    gpus: Annotated[
        str | None,
        typer.Option("--gpus", "-g", metavar="LIST", help="Numbers of GPUs.  [default: 1 and all]"),
    ] = None,
    times: Annotated[
        str, typer.Option("--times", metavar="N", help="1: MGPUSim's sizes or ours; 4: four times.")
    ] = "1",
    pages: Annotated[
        str | None,
        typer.Option(
            "--pages", metavar="HOW",
            help="round-robin, contiguous, a GPU such as gpu0, or own: each array's.  [default: "
            "own; gpu0 where pages move]",
        ),
    ] = None,
    blocks: Annotated[
        str, typer.Option("--blocks", metavar="HOW", help="contiguous or round-robin.")
    ] = "contiguous",
    mechanism: Annotated[
        str,
        typer.Option(
            "--mechanism", "-m", metavar="LIST",
            help="What becomes of remote loads: direct, page-migration, griffin, bypass, "
            "fine-grained, coalesced, rdma-cache, dualopt, dualopt-adaptive, dualopt-pages; "
            "finepack packs stores, dualopt-finepack does both, where packets have room for more "
            "than a line.",
        ),
    ] = DIRECT,
    jobs: Annotated[
        str | None, typer.Option("--jobs", "-j", metavar="N", help="Runs at the same time.")
    ] = None,
    measured: Annotated[
        bool,
        typer.Option("--measure", help="Also run the programs on this computer's GPUs."),
    ] = False,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write what is shown as JSON.")
    ] = None,
) -> None:  # fmt: skip
    """Say how many loads of unified programs are remote, and what of remote lines they use."""
    wanted = list(dict.fromkeys(programs or unified.PROGRAMS))
    for name in wanted:
        if name not in unified.PROGRAMS:
            raise unknown("program", name, tuple(unified.PROGRAMS))
    asked = {word.strip() for word in mechanism.split(",")}
    for name in sorted(asked):
        if name not in MECHANISMS:
            raise unknown("mechanism", name, MECHANISMS)
    names = [name for name in MECHANISMS if name in asked]
    scale = whole("--times", times, 1) or 1
    at_once = whole("--jobs", jobs, 1) or workers.cores()
    if json_file is not None:
        check_writable(json_file, "--json")
    described = load_machine(machine)
    counts = (
        sorted({1, described.gpu.count}) if gpus is None else whole_numbers("--gpus", gpus, "GPUs")
    )
    if counts[-1] > described.gpu.count:
        raise UserError(
            f"--gpus {counts[-1]}: machine {described.name} has {described.gpu.count} GPUs"
        )
    node = (
        real_node(MEASURED_WARMUP, MEASURED_REPEATS, hint="leave --measure out")
        if measured
        else None
    )
    if node is not None and gpus is not None and counts[-1] > node.gpus:
        raise UserError(f"--gpus {counts[-1]}: {node.machine_name} has {node.gpus} GPUs")
    core = load_core()
    made = to_core(described, core)
    problems = [unified.problem(name, scale) for name in wanted]
    # One GPU has no remote loads.
    cases = [
        (it, count, how)
        for it in problems
        for count in counts
        for how in (names if count > 1 else names[:1])
    ]
    work = [
        partial(unified.simulate, core, made, *case, pages=pages or "", blocks=blocks)
        for case in cases
    ]
    done: dict[int, dict[str, Any]] = {}
    real: list[Measured] = []
    with failure_ends():
        if node is not None:  # alone on the machine
            here = sorted({1, node.gpus}) if gpus is None else counts
            real = _measure(node, problems, here, pages=pages or "", blocks=blocks)
        try:
            done.update(workers.run_all(work, at_once))
        except workers.WorkerLost as lost:
            it, count, _ = cases[lost.index]
            raise RunFailure(f"{it.name} on {count} GPUs: {lost.reason}") from None
    alone = {it.name: done[i]["time_s"] for i, (it, count, _) in enumerate(cases) if count == 1}
    direct = {
        (it.name, count): done[i]["time_s"]
        for i, (it, count, how) in enumerate(cases)
        if how == DIRECT
    }
    comparable = scale == 1 and pages in (None, OWN_PAGES) and blocks == "contiguous"
    found = Locality(
        format=FORMAT,
        **provenance(),
        machine=described.name,
        pages=pages,
        blocks=blocks,
        times=scale,
        rows=[
            _row(
                case,
                done[i],
                alone.get(case[0].name),
                direct.get((case[0].name, case[1])),
                described,
                comparable=comparable,
            )
            for i, case in enumerate(cases)
        ],
        driver=None if node is None else node.driver,
        measured_on=None if node is None else node.machine_name,
        measured=real,
    )
    texts = {} if json_file is None else {json_file: lambda: json_text(found)}

    def show() -> None:
        _show(found)
        _show_measured(found)

    show_and_write(show, texts)
