"""Prints measured updates as tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from interlace.base import table
from interlace.model.mechanisms import size_text
from interlace.study.updates_bench import HostUpdatesRow, UpdatesResults, UpdatesRow


def _giga(value: float | None) -> str:
    return table.UNKNOWN if value is None else f"{1e-9 * value:.2f}"


def _share(value: float | None) -> str:
    return table.UNKNOWN if value is None else f"{100 * value:.0f}"


def _windows(row: UpdatesRow) -> str:
    if row.bins == 0:
        return "none"
    return f"{row.bins}" if row.windows_a_bin == 1 else f"{row.bins} x {row.windows_a_bin}"


def print_updates(results: UpdatesResults) -> None:
    name = results.machine["name"]
    if results.rows:
        _print_gpu(
            results.rows, f"random 64-bit updates of a table in GPU memory; measured on {name}"
        )
    if results.rows and results.host_rows:
        print()
    if results.host_rows:
        _print_host(
            results.host_rows,
            (f"random 64-bit updates of a table in host memory; measured on {name}"),
        )


def _print_gpu(rows: Sequence[UpdatesRow], head: str) -> None:
    def rates(title: str, of: Callable[[UpdatesRow], float | None]) -> table.Column:
        return table.Column(title, "G/s", [_giga(of(row)) for row in rows])

    columns = [
        table.Column("table", "", [size_text(row.table_bytes) for row in rows]),
        rates("atomics", lambda row: row.plain_per_s),
        rates("bins", lambda row: row.binned_per_s),
        table.Column("speedup", "", [f"{row.speedup:.2f}" for row in rows]),
        rates("limit", lambda row: row.limit_per_s),
        table.Column("of limit", "%", [_share(row.of_limit) for row in rows]),
        rates("group", lambda row: row.group_per_s),
        rates("append", lambda row: row.append_per_s),
        rates("split", lambda row: row.split_per_s),
        rates("combine", lambda row: row.combine_per_s),
        table.Column("windows", "", [_windows(row) for row in rows]),
        table.Column("passes", "", [str(row.passes) if row.bins else "" for row in rows]),
        table.Column("buffers", "MiB", [f"{row.buffer_bytes / 2**20:.1f}" for row in rows]),
        table.Column("look-ahead", "M", [f"{1e-6 * row.look_ahead:.1f}" for row in rows]),
        table.Column("#wrong", "", [str(row.wrong) for row in rows]),
    ]
    foot = [
        "limit: the rate if bins use the memory's full bandwidth. Each level of bins writes and "
        "reads each update's record once, and each round reads and writes the table once.",
        "group, append, split, combine: the rate of each stage alone; append includes group.",
        "windows: the number of bins in a pass; with two levels of bins, also the number of "
        "windows in a bin.",
        "passes: how often the updates of a round are produced; each pass applies the updates of "
        "one slice of the table.",
        "look-ahead: the most updates that wait in bins, in millions. HPCC allows only 1024 for "
        "each process; this benchmark exceeds that limit. It keeps HPCC's rules about the number "
        "of updates (four for each element) and about errors.",
        _verdict([row.wrong for row in rows]),
    ]
    table.print_table(head, columns, [0] * len(rows), [""] * len(rows), foot)


def _print_host(rows: Sequence[HostUpdatesRow], head: str) -> None:
    def rates(title: str, of: Callable[[HostUpdatesRow], float]) -> table.Column:
        return table.Column(title, "G/s", [_giga(of(row)) for row in rows])

    columns = [
        table.Column("table", "", [size_text(row.table_bytes) for row in rows]),
        rates("bins", lambda row: row.sent_per_s),
        rates("stores", lambda row: row.stores_per_s),
        rates("atomics", lambda row: row.atomics_per_s),
        rates("host alone", lambda row: row.host_per_s),
        rates("copies", lambda row: row.copies_per_s),
        rates("send", lambda row: row.send_per_s),
        rates("unpack", lambda row: row.unpack_per_s),
        table.Column("over stores", "", [f"{row.over_stores:.1f}" for row in rows]),
        table.Column("over best", "", [f"{row.over_best:.2f}" for row in rows]),
        table.Column("of link", "%", [_share(row.of_link) for row in rows]),
        table.Column("threads", "", [str(row.threads) for row in rows]),
        table.Column("on the GPU", "MiB", [f"{row.pool_bytes / 2**20:.1f}" for row in rows]),
        table.Column("#wrong", "", [str(row.wrong) for row in rows]),
    ]
    foot = [
        "bins: kernels send full bins over the link, and threads of the host apply them.",
        "stores, atomics: each update crosses the link by itself.",
        "host alone: all cores apply updates; each core fetches 64 elements ahead.",
        "copies: the highest possible rate if the whole table is copied to the GPU and back "
        "whenever the bins are full.",
        "send: the rate if threads drop the updates that arrive. unpack: the rate if threads apply "
        "updates that have arrived and nothing is sent.",
        _verdict([row.wrong for row in rows]),
    ]
    table.print_table(head, columns, [0] * len(rows), [""] * len(rows), foot)


def _verdict(wrong: Sequence[int]) -> str:
    return f"{sum(wrong)} elements wrong." if any(wrong) else "All elements right."
