"""Prints the cost of relaying copies as a table."""

from __future__ import annotations

import statistics

from interlace.base import table
from interlace.model.mechanisms import size_text
from interlace.study.relay_cost import RECEIVER, RelayResults


def print_relay_cost(results: RelayResults) -> None:
    lines: list[tuple[int, str, float, float, float]] = []
    for row in results.rows:
        rates = [
            1e-9 * row.bytes / statistics.median(times)
            for times in (row.message_alone_s, row.message_beside_s)
        ]
        lines.append((row.bytes, "message", rates[0], rates[1], row.slowdown_percent))
        for kernel in row.kernels:
            alone, beside = (
                1e-9 * statistics.median(each)
                for each in (kernel.alone_bytes_per_s, kernel.beside_bytes_per_s)
            )
            role = "may relay" if kernel.relays else "does not relay"
            name = f"kernel, GPU {kernel.gpu} {role}"
            lines.append((row.bytes, name, alone, beside, kernel.slowdown_percent))
    columns = [
        table.Column("size", "", [size_text(line[0]) for line in lines]),
        table.Column("what", "", [line[1] for line in lines], number=False),
        table.Column("alone", "GB/s", [f"{line[2]:.1f}" for line in lines]),
        table.Column("together", "GB/s", [f"{line[3]:.1f}" for line in lines]),
        table.Column("slow-down", "%", [f"{line[4]:.1f}" for line in lines]),
    ]
    foot = [
        f"message: copies from the host to GPU {RECEIVER}, one at a time; kernel: the rate of "
        "its reads plus the rate of its writes of memory. The values are medians of "
        f"{results.repeats} repeats of {results.window_s:g} s.",
        "slow-down: how much longer messages take while kernels run, and how much longer kernels "
        "take while messages are copied.",
    ]
    direct = [size_text(row.bytes) for row in results.rows if not row.relayed]
    if direct:
        foot.append(
            f"Messages of {', '.join(direct)} went as one plain copy, so no GPU relayed them."
        )
    wrong = sum(row.wrong for row in results.rows)
    foot.append(f"{wrong} bytes wrong." if wrong else "All bytes right.")
    head = f"relayed copies beside kernels, measured on {results.machine['name']}"
    table.print_table(head, columns, [line[0] for line in lines], [""] * len(lines), foot)
