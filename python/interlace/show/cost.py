"""Prints the storage of simulated hardware as a table, with the papers' figures."""

from __future__ import annotations

from collections.abc import Sequence

from interlace.base.table import Column, print_table
from interlace.study.cost import Cost, Part


def _kib(bits: int) -> str:
    return f"{bits / 8 / 1024:,.3f}"


def print_cost(cost: Cost) -> None:
    rows: Sequence[Part] = cost.parts
    structures = list(dict.fromkeys(row.structure for row in rows))
    totals = {name: sum(r.bits for r in rows if r.structure == name) for name in structures}
    share = {name: sum(r.of_caches for r in rows if r.structure == name) for name in structures}
    foot = [
        f"{name}: {_kib(totals[name])} KiB, {share[name]:.3%} of the caches' data"
        for name in structures
        if name not in ("L1", "L2")
    ]
    foot += ["", "Published:"]
    foot += [f"  {one['published']} ({one['source']}): {one['note']}" for one in cost.published]
    if cost.needs:
        foot += ["", "Needs of the schemes (DualOpt, Table 3):"]
        foot += [
            f"  {one['scheme']}: runs unchanged programs: {one['programs_as_they_are']}; "
            f"transfers: {one['transfers']}; needs no replicas: {one['no_replicas']}; simple "
            f"hardware: {one['simple_hardware']}"
            for one in cost.needs
        ]
    print_table(
        f"Storage of one GPU of {cost.machine}, for {cost.gpus} GPUs",
        [
            Column("structure", "", [row.structure for row in rows], number=False),
            Column("what", "", [row.what for row in rows], number=False),
            Column("count", "", [str(row.count) for row in rows]),
            Column("each", "bits", [str(row.bits_each) for row in rows]),
            Column("all", "KiB", [_kib(row.bits) for row in rows]),
            Column("of caches", "%", [f"{100 * row.of_caches:.4f}" for row in rows]),
        ],
        [structures.index(row.structure) for row in rows],
        ["" for _ in rows],
        foot,
    )
