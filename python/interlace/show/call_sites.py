"""The report of `interlace run --report`.

The report says where a program copies, how much time the copies lose, and what to change.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from interlace.base.table import BYTES, SECONDS, fixed, scale
from interlace.runtime.preload import Counted, Site, SiteTally

MOST = 20  # the report lists at most this many call sites
SMALL = 64 << 10  # a copy of fewer bytes cannot fill a link by itself
WORTH = 1e-4  # the report leaves out losses of fewer seconds than this
LOCKED, PAGEABLE = "page-locked", "pageable"
WAITING = frozenset(
    {
        "cuMemcpy",
        "cuMemcpyHtoD",
        "cuMemcpyDtoH",
    }  # these functions return only after the copy has ended
)
BATCH = "cuMemcpyBatchAsync"


class Loss(NamedTuple):
    """A loss of time, and how to avoid it.

    The loss is the time that the host spends in copies minus the time that the link needs.
    """

    seconds: float
    why: str
    change: str


def quantity(value: float, units: Sequence[tuple[float, str]]) -> str:
    """Return the value with its unit: the largest unit in which the value is at least 1."""
    size, name = scale([value], units)
    return f"{fixed([value / size])[0]} {name}"


def size_text(size: int) -> str:
    """Return a number of bytes in KiB, MiB or GiB. Programs usually choose multiples of these
    units.
    """
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size / unit:.3g} {name}"
    return f"{size} B"


def loss_of(site: Site, tally: SiteTally, bytes_per_s: float | None) -> Loss | None:
    """Return the time that these copies of a call site lose.

    Return None if the rate of the link is unknown.
    """
    if bytes_per_s is None or tally.direction not in ("host to GPU", "GPU to host"):
        return None
    lost = tally.host_s - tally.bytes / bytes_per_s
    if lost < WORTH:
        return None
    small = tally.bytes / tally.copies < SMALL
    if tally.memory == PAGEABLE and small and tally.direction == "GPU to host":
        return Loss(
            lost,
            "to waiting for earlier work of the stream, as copies to pageable memory do",
            "read results less often, or copy them into page-locked memory and wait for an event "
            "later",
        )
    if tally.memory == PAGEABLE:
        return Loss(
            lost,
            "to pageable memory, which the driver copies twice while the caller waits",
            "page-lock the host's memory: pin_memory=True, cudaHostAlloc or cudaHostRegister",
        )
    if tally.memory == LOCKED and small:
        if site.function == BATCH:
            return Loss(
                lost,
                "to small pieces, because the driver prepares each piece separately",
                "nothing if interlace takes over the batch; otherwise see the reasons above",
            )
        return Loss(
            lost,
            "to small pieces, each with a call of the driver",
            f"combine neighbouring pieces, or give all pieces to one call of {BATCH} or "
            "interlace.copy_blocks",
        )
    if tally.memory == LOCKED and site.function in WAITING:
        return Loss(
            lost,
            "to calls that wait for their copy",
            "copy asynchronously on a stream (non_blocking=True), and wait for an event later",
        )
    return None


def _sizes(site: Site) -> str:
    """Return, as text, the shares of a call site's copies by size, in powers of two."""
    copies = sum(site.sizes.values())
    parts = [
        f"{size_text(size)} {100 * count / copies:.0f} %"
        for size, count in sorted(site.sizes.items())
        if 100 * count >= copies
    ]
    return ", ".join(parts)


def _name(site: Site) -> str:
    if not site.module:
        return "elsewhere"
    name = f"{site.module} {site.symbol}"
    if site.outer_module:
        name += f", from {site.outer_module} {site.outer_symbol}"
    return name


def lines_of_sites(counted: Counted, bytes_per_s: float | None) -> list[str]:
    """Return lines about the call sites, sorted by bytes.

    For each call site, the lines show its copies, the time that they lose, and what to change.
    """
    if not counted.sites:
        return []
    rows = sorted(counted.sites, key=lambda site: -sum(one.bytes for one in site.tallies))
    lines = ["call sites, the most bytes first:"]
    for number, site in enumerate(rows[:MOST], start=1):
        lines.append(f"{number:3}. {_name(site)}")
        moved = sum(one.bytes for one in site.tallies)
        for one in site.tallies:
            host = "" if one.memory.startswith("neither") else f", {one.memory} host memory"
            lines.append(
                f"     {site.function}, {one.direction}: {one.copies} copies, "
                f"{quantity(one.bytes, BYTES)}{host}, {quantity(one.host_s, SECONDS)} in calls"
            )
            loss = loss_of(site, one, bytes_per_s)
            if loss is not None:
                lines.append(f"     lost: {quantity(loss.seconds, SECONDS)} {loss.why}")
                lines.append(f"     change: {loss.change}")
        lines.append(f"     sizes from: {_sizes(site)}")
        if site.taken_over_bytes:
            lines.append(f"     taken over: {100 * site.taken_over_bytes / moved:.0f} %")
    if len(rows) > MOST:
        rest = sum(one.bytes for site in rows[MOST:] for one in site.tallies)
        lines.append(f"     and {len(rows) - MOST} more call sites with {quantity(rest, BYTES)}")
    if counted.lost_sites:
        lines.append(
            f"     {counted.lost_sites} more call sites share the entry 'elsewhere', because the "
            "list of call sites is full"
        )
    if bytes_per_s is None:
        lines.append(
            "     losses are unknown, because this machine does not report the rate of its link"
        )
    else:
        lines.append(
            f"     lost: the host's time in calls, minus the time that a link of "
            f"{bytes_per_s / 1e9:.1f} GB/s needs"
        )
    return lines
