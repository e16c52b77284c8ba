"""Measures random updates of tables in GPU memory and in host memory, by several methods.

The updates are those of HPCC's RandomAccess: 64-bit exclusive ors with a random stream. Two methods
apply the same stream, one after the other. The second method therefore undoes the updates of the
first. If the table then has its first content again, both methods are correct.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

import msgspec

from interlace.base.progress import progress
from interlace.base.turns import turn
from interlace.model.mechanisms import size_text
from interlace.model.results import BenchmarkFile
from interlace.model.run import core_errors
from interlace.nodes.nodes import CudaNode, measured_by

ELEMENT = 8  # bytes
LEAST_TABLE, MOST_TABLE = 1 << 20, 1 << 40
LINK_UPDATES = 1 << 24  # stores and atomics over the link are slow, so they make fewer updates


class UpdatesRow(msgspec.Struct):
    """The measurements of a table in the GPU's memory. Rates are updates per second."""

    table_bytes: int
    updates: int
    plain_s: list[float]  # seconds of each repeat by plain atomics
    binned_s: list[float]
    plain_per_s: float  # from the median time
    binned_per_s: float
    speedup: float
    # bins of one pass; 0 means that plain atomics serve the table, because they are faster
    bins: int
    windows_a_bin: int  # 1 means that there is one level of bins
    window_bytes: int  # bytes of the table that a thread block combines in shared memory
    passes: int  # passes over the updates of a round
    round_updates: int
    buffer_bytes: int
    look_ahead: int  # at most this many updates wait at a time
    direct: int  # updates that found no room in their bin
    memory_bytes_per_s: float  # bandwidth of the GPU's memory: the slower of reading and writing
    bytes_an_update: float | None  # bytes that bins must move at least for an update
    limit_per_s: float | None  # the rate that `bytes_an_update` allows
    of_limit: float | None
    group_per_s: float | None  # the rate of each stage alone
    append_per_s: float | None
    split_per_s: float | None
    combine_per_s: float | None
    wrong: int


class HostUpdatesRow(msgspec.Struct):
    """The measurements of a table in the host's memory. Rates are updates per second."""

    table_bytes: int
    updates: int
    link_updates: int
    sent_s: list[float]
    sent_per_s: float  # by bins over the link, from the median time
    stores_per_s: float  # by stores over the link
    atomics_per_s: float  # by atomics over the link
    host_per_s: float  # by the host alone, on all its cores
    copies_per_s: (
        float  # at most, if the table is copied to the GPU and back whenever the bins are full
    )
    over_stores: float
    over_best: float  # speedup over the fastest other method
    bins: int
    window_bytes: int
    pool_bytes: int
    threads: int
    send_per_s: float  # if the host drops all arriving updates
    unpack_per_s: float  # if the host applies updates that were sent before, and the GPU sends none
    busiest_share: float  # updates of the busiest thread over the mean of all threads
    link_per_s: float  # the rate that the link's bandwidth allows
    of_link: float
    wrong: int


class UpdatesResults(BenchmarkFile):
    """The content of a results file of `interlace bench updates`."""

    repeats: int
    rows: list[UpdatesRow]
    host_rows: list[HostUpdatesRow]


def _rate(updates: int, seconds: float) -> float | None:
    return updates / seconds if seconds > 0 else None


def row_of(size: int, found: dict[str, Any]) -> UpdatesRow:
    updates = int(found["updates"])
    plain, binned = (updates / median(found[key]) for key in ("plain_s", "binned_s"))
    least = float(found["bytes_an_update"]) or None
    limit = None if least is None else float(found["memory_bytes_per_s"]) / least
    kept = {key: found[key] for key in UpdatesRow.__struct_fields__ if key in found}
    return UpdatesRow(
        **{**kept, "bytes_an_update": least},
        table_bytes=size,
        plain_per_s=plain,
        binned_per_s=binned,
        speedup=binned / plain,
        limit_per_s=limit,
        of_limit=None if limit is None else binned / limit,
        group_per_s=_rate(updates, found["group_s"]),
        append_per_s=_rate(updates, found["append_s"]),
        split_per_s=_rate(updates, found["split_s"]),
        combine_per_s=_rate(updates, found["combine_s"]),
    )


def host_row_of(size: int, found: dict[str, Any]) -> HostUpdatesRow:
    updates, linked = int(found["updates"]), int(found["link_updates"])
    sent, host = updates / median(found["sent_s"]), updates / found["host_s"]
    stores, atomics = linked / found["stores_s"], linked / found["atomics_s"]
    copies = found["pool_bytes"] / ELEMENT / found["table_copy_s"]
    link = found["link_bytes_per_s"] / ELEMENT
    kept = {key: found[key] for key in HostUpdatesRow.__struct_fields__ if key in found}
    return HostUpdatesRow(
        **kept,
        table_bytes=size,
        sent_per_s=sent,
        stores_per_s=stores,
        atomics_per_s=atomics,
        host_per_s=host,
        copies_per_s=copies,
        send_per_s=updates / found["send_s"],
        unpack_per_s=found["unpacked"] / found["unpack_s"],
        over_stores=sent / stores,
        over_best=sent / max(stores, atomics, host, copies),
        link_per_s=link,
        of_link=sent / link,
    )


def measure(
    node: CudaNode, tables: Sequence[int], host_tables: Sequence[int], an_element: int,
    repeats: int,
) -> UpdatesResults:  # fmt: skip
    """Measure `an_element` updates for each element of every table."""
    rows, host_rows = [], []
    with progress(f"updates on {node.machine_name}", len(tables) + len(host_tables)) as tick:
        for size in tables:
            with turn(), core_errors(f"updates of {size_text(size)}"):
                found = node.cuda.measure_updates(size, size // ELEMENT * an_element, repeats)
            rows.append(row_of(size, found))
            tick()
        for size in host_tables:
            count = size // ELEMENT * an_element
            with turn(), core_errors(f"updates of {size_text(size)} of the host"):
                found = node.cuda.measure_host_updates(size, count, LINK_UPDATES, repeats)
            host_rows.append(host_row_of(size, found))
            tick()
    return UpdatesResults(
        **measured_by("updates", node),
        repeats=repeats,
        rows=rows,
        host_rows=host_rows,
    )
