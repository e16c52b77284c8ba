"""Prints the speed of the simulator as a table."""

from __future__ import annotations

from interlace.base import table
from interlace.study.simulator_speed import SpeedResults


def print_speed(of: SpeedResults) -> None:
    """Print the table."""
    rows = [*of.rows, *([of.long] if of.long else [])]
    names = [row.workload for row in of.rows] + (["long run"] if of.long else [])
    columns = [
        table.Column("workload", "", names, number=False),
        table.Column("accesses", "M", [f"{row.accesses / 1e6:.2f}" for row in rows]),
        table.Column("remote", "M", [f"{row.remote_transactions / 1e6:.3f}" for row in rows]),
        table.Column("CPU", "s", [f"{row.cpu_s:.2f}" for row in rows]),
        table.Column("time", "s", [f"{row.seconds:.2f}" for row in rows]),
        table.Column("accesses", "M/s", [f"{row.accesses_per_s / 1e6:.2f}" for row in rows]),
        table.Column(
            "remote", "M/s", [f"{row.remote_transactions_per_s / 1e6:.3f}" for row in rows]
        ),
        table.Column("peak", "MB", [f"{row.peak_rss_mb:.0f}" for row in rows]),
    ]
    threads = "one thread" if of.threads == 1 else f"{of.threads} threads"
    head = (
        f"speed of the simulator, {threads}: {of.mechanism} on {of.gpus} GPUs of {of.machine}; the "
        f"fastest of {of.repeats} runs"
    )
    least = min(of.rows, key=lambda row: row.accesses_per_s)
    foot = [
        f"Geometric means: {of.accesses_per_s / 1e6:.2f} M accesses and "
        f"{of.remote_transactions_per_s / 1e6:.3f} M remote transactions per CPU second. "
        f"{least.workload} has the fewest accesses per CPU second: "
        f"{least.accesses_per_s / 1e6:.2f} M.",
        "An access is one instruction of a warp to one line. Few accesses of these workloads are "
        "remote, but the remote transactions are divided by the CPU time of all accesses.",
        f"The microbenchmark of stores makes {of.stores.remote_transactions_per_s / 1e6:.3f} M "
        f"remote transactions per CPU second. Each lane stores {of.stores.element_bytes} bytes, "
        "and nearly every store is a packet.",
    ]
    table.print_table(
        head, columns, [0] * len(of.rows) + [1] * (of.long is not None), [""] * len(rows), foot
    )
