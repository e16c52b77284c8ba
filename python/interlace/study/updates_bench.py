"""Measures random updates of tables in GPU memory and in host memory, by several methods.

The methods make the updates of HPCC's RandomAccess: 64-bit exclusive ors with a random stream. To
check two methods, the benchmark applies the stream by one method, and then the same stream by the
other method. The second run undoes the updates of the first run. If the table then has its first
content again, both methods are correct.
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

ELEMENT = 8  # the bytes of an element
LEAST_TABLE, MOST_TABLE = 1 << 20, 1 << 40
LINK_UPDATES = 1 << 24  # a small number, because stores and atomics over the link are slow


class UpdatesRow(msgspec.Struct):
    """The measurements of a table in the GPU's memory. Rates are updates per second."""

    table_bytes: int
    updates: int
    plain_s: list[float]  # the time of plain atomics in each repeat, in seconds
    binned_s: list[float]
    plain_per_s: float  # from the median of `plain_s`
    binned_per_s: float
    speedup: float
    # the number of bins in a pass; 0 means that plain atomics are faster and were used instead
    bins: int
    windows_a_bin: int  # 1 means that bins have one level
    window_bytes: int  # the bytes of the table that a thread block combines in shared memory
    passes: int  # the number of passes over the updates of a round
    round_updates: int
    buffer_bytes: int
    look_ahead: int  # the largest number of updates that wait at a time
    direct: int  # the number of updates that found no room in their bin
    memory_bytes_per_s: float  # the lower of the rates of the GPU's reads and writes
    bytes_an_update: float | None  # the smallest number of bytes that bins can move per update
    limit_per_s: float | None  # the rate of updates that `bytes_an_update` allows
    of_limit: float | None
    group_per_s: float | None  # this field and the next fields are the rates of single stages
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
    sent_per_s: float  # the rate of bins over the link, from the median of `sent_s`
    stores_per_s: float  # the rate of stores over the link
    atomics_per_s: float  # the rate of atomics over the link
    host_per_s: float  # the rate if all cores of the host make the updates, without the GPU
    copies_per_s: (
        float  # the rate if the whole table is copied to the GPU and back for each fill of the bins
    )
    over_stores: float
    over_best: float  # the speedup of bins over the fastest other method
    bins: int
    window_bytes: int
    pool_bytes: int
    threads: int
    send_per_s: float  # the rate if the host drops all updates that arrive
    unpack_per_s: float  # the rate if the host applies updates that have already arrived
    busiest_share: float  # the updates of the busiest thread divided by the mean over all threads
    link_per_s: float  # the rate that the bandwidth of the link allows
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
    """Measure every table with `an_element` updates per element."""
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
