"""Prints the locality of loads as tables."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from interlace.base import table
from interlace.base.statistics import geometric_mean
from interlace.model.remote_load_table import DIRECT
from interlace.study.locality import MGPUSIM_SPEED, Locality, LocalityRow, share_of


def _beside(rows: Sequence[LocalityRow], *, comparable: bool) -> list[str]:
    """Return lines with Interlace's figures. If MGPUSim ran the program, add MGPUSim's figures."""
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
            "Interlace's figures, each followed by MGPUSim's figure (24a2205, flits of 64 B). "
            "MGPUSim's remote reads include reads of instructions and arguments:",
            *lines,
        ]
    if predicted:
        found += ["Interlace's predictions of MGPUSim's figures for the same sizes:", *predicted]
    return found


def _speeds(rows: Sequence[LocalityRow]) -> list[str]:
    """Return the speed of Interlace's simulator divided by MGPUSim's speed, for the same runs.

    The speeds are accesses per CPU second, and remote transactions per CPU second.
    """
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
    and_remote = "" if of_remote is None else f", and {of_remote:.0f} times its remote transactions"
    return [
        f"In a CPU second, Interlace simulates {of_accesses:.0f} times MGPUSim's accesses of the "
        f"vector L1{and_remote} (geometric means of {len(accesses)} and {len(remote)} runs; "
        "MGPUSim also executes machine code)."
    ]


def _translations(rows: Sequence[LocalityRow]) -> list[str]:
    """Return lines with the hits of the TLBs and the times of page-table walks."""
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
            f"TLBs hit in {it.tlb_hits / looked_up:.2%} of {looked_up:,} accesses, L2 TLBs in "
            f"{share_of(it.l2_tlb_hits, asked):.2%} of {asked:,}; {walks}"
        )
    return ["Translations:", *lines] if lines else []


def _moves(rows: Sequence[LocalityRow]) -> list[str]:
    """Return lines with the numbers of migrated pages."""
    lines = []
    for row in rows:
        it = row.loads
        if not (it.migrated_pages or it.delayed_touches):
            continue
        line = f"  {row.program}, {row.gpus} GPUs, {row.mechanism}: {it.migrated_pages:,} pages"
        if it.migration_batches:
            line += (
                f" in {it.migration_batches:,} batches, {it.migrated_again:,} pages not for the "
                f"first time; {it.delayed_touches:,} first touches were delayed"
            )
        lines.append(line)
    return ["Pages that migrated:", *lines] if lines else []


def _decisions(rows: Sequence[LocalityRow]) -> list[str]:
    """Return lines with each decision of DualOpt's engines and the measurements that led to it."""
    lines = [
        f"  {row.program}, {row.gpus} GPUs, {row.mechanism}: {it.choice}"
        + (
            f" after {1e6 * it.when_s:,.0f} us"
            if it.made
            else " would have been chosen, but the run ended before"
        )
        + f"; {it.remote:,} of {it.accesses:,} accesses remote ({it.remote_ratio:.1%}), "
        f"{it.block_utilisation:.1%} of a line used, {it.hit_rate:.1%} hits"
        for row in rows
        for it in row.decisions
    ]
    return ["Decisions:", *lines] if lines else []


def print_measured(found: Locality) -> None:
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
        f"The same programs, measured on {found.measured_on}; remote loads are plain loads",
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
            f"time: the kernels of all GPUs, the median of {len(rows[0].time_s)} runs; pages have "
            "2 MiB. All results are verified.",
            "locality: the class of the program. Coalesced fine-grained replies would help "
            "cache-insensitive programs; a cache of remote lines would help cache-friendly "
            "programs.",
        ],
    )


def print_locality(found: Locality) -> None:
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
        f"{found.pages or 'as each array places them'}, blocks {found.blocks}",
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
            f"The simulation makes {accesses / cpu:,.0f} accesses per CPU second." if cpu else "",
            *_speeds(rows),
            *_translations(rows),
            *_moves(rows),
            *_decisions(rows),
            *_beside(rows, comparable=found.comparable),
        ],
    )
