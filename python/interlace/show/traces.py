"""Prints the statistics of a trace and the result of its replay as tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from interlace.base import table
from interlace.study.traces import KINDS, UNITS


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def print_summary(name: str, it: dict[str, Any], foot: Sequence[str]) -> None:
    head = (
        f"{name}: {_count(it['kernels'], 'kernel')} on {_count(it['gpus'], 'GPU')}, "
        f"{_count(it['blocks'], 'block')}, {it['accesses']:,} "
        f"access{'' if it['accesses'] == 1 else 'es'} of warps"
    )
    per_gpu = it["per_gpu"]
    rows = [(g, kind) for g in range(it["gpus"]) for kind in KINDS]
    own = [per_gpu[g]["own"][kind] for g, kind in rows]
    remote = [per_gpu[g]["remote"][kind] for g, kind in rows]
    moved = [(per_gpu[g]["own_bytes"][kind], per_gpu[g]["remote_bytes"][kind]) for g, kind in rows]
    size, unit = table.scale([a + b for a, b in moved], table.BYTES)
    cut = [
        table.Column("GPU", "", [str(g) for g, _ in rows]),
        table.Column("kind", "", [kind for _, kind in rows], number=False),
        table.Column("own", "", [f"{count:,}" for count in own]),
        table.Column("remote", "", [f"{count:,}" for count in remote]),
        table.Column("bytes", unit, table.fixed([(a + b) / size for a, b in moved])),
        table.Column("remote", "%", [table.percent(b / (a + b) if a + b else None)
                                     for a, b in moved]),
    ]  # fmt: skip
    sizes = f"{', '.join(map(str, UNITS[:-1]))} or {UNITS[-1]}"
    lines = [
        f"Average number of bytes that an instruction uses in each unit of {sizes} B that it "
        "touches: "
        + "; ".join(
            f"{kind} "
            + ", ".join(f"{used[str(u)]:.1f} of {u}" for u in UNITS if used[str(u)] is not None)
            for kind, used in it["used_bytes"].items()
            if used["32"] is not None
        )
        + "."
    ]
    runs = [(run["up_to_bytes"], run["count"]) for run in it["remote_store_runs"] if run["count"]]
    if runs:
        total = sum(count for _, count in runs)
        lines.append(
            "Lengths of the runs of bytes that instructions store to a line of another GPU: "
            + ", ".join(f"{100 * count / total:.0f} % up to {up_to} B" for up_to, count in runs)
            + "."
        )
    more = [
        (it["copies"] - it["host_copies"], "copies between GPUs"),
        (it["host_copies"], "copies from or to the host"),
        (it["exchanges"], "exchanges"),
        (it["calls"], "library calls"),
    ]
    if any(count for count, _ in more):
        lines.append("Besides: " + ", ".join(f"{n:,} {what}" for n, what in more if n) + ".")
    table.print_table(head, cut, [g for g, _ in rows], [""] * len(rows), [*lines, *foot])


def print_replay(name: str, machine: str, mechanism: str, it: dict[str, Any]) -> None:
    time, time_unit = table.scale([it["time_s"]], table.SECONDS)
    moved = ("stores", "reads", "copies", "exchanges")
    size, unit = table.scale([it[kind]["wire"] for kind in moved], table.BYTES)
    cut = [
        table.Column("moved by", "", list(moved), number=False),
        table.Column("payload", unit, table.fixed([it[k]["payload"] / size for k in moved])),
        table.Column("on the wire", unit, table.fixed([it[k]["wire"] / size for k in moved])),
    ]
    rate = it["accesses"] / it["cpu_s"] if it["cpu_s"] > 0 else 0.0
    foot = [
        f"Time {it['time_s'] / time:.4g} {time_unit}; {it['accesses']:,} accesses of lines, "
        f"{it['remote_transactions']:,} remote transactions.",
        f"All {it['instructions']:,} accesses of the file were replayed: {rate / 1e6:.2f} million "
        "accesses of lines per second of CPU time.",
    ]
    if it["host_copies"]:
        foot.append(f"{it['host_copies']:,} copies from or to the host were not replayed.")
    head = f"{name}, stores by {mechanism}; simulated on {machine}"
    table.print_table(head, cut, [0] * len(moved), [""] * len(moved), foot)
