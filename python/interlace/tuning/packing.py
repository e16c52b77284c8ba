"""The configurations of partitioned arrays that a search tries.

The mechanism `packed` has five parameters. A grid of all their values would be too large, so the
search begins at one configuration and follows one parameter at a time. The first configuration
comes from the number of updates that the workload's kernels make in an epoch. The reference node
counts these updates.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from interlace.base.native import load_core
from interlace.model.mechanism_table import PACKED
from interlace.model.mechanisms import COMBINING_OFF, COMBINING_ON, CONTROLS, PACKING
from interlace.model.run import Case
from interlace.workloads import Workload

PACKET_BYTES = tuple(1 << k for k in range(7, 13))  # 128 to 4096
USUAL_PACKET = 512
# With fewer packets in a queue, many of the packets are not full, because the last packet of a warp
# usually is not full.
LEAST_PACKETS = 32
# An update of 4 bytes takes 8 bytes in a packet, because the element's place has 4 bytes. For
# larger values, this factor is smaller.
MOST_BYTES_OF_A_BYTE = 2
LEAST_QUEUE, MOST_QUEUE = 4 << 10, 1 << 30
QUEUE_STEPS = 2  # the search tries queues that are up to 2**2 times larger or smaller
UNPACK_BLOCKS = tuple(1 << k for k in range(5, 11))  # 32 to 1024
WARPS_OF_A_BLOCK = 8
MOST_BINS = 30  # the largest number of packets that a warp fills at a time
WINDOWS = (1, 2, 4)
# The packets of a block with 8 warps take at most this many bytes of shared memory. Such a block
# fits on every GPU.
MOST_PACKING_BYTES = 64 << 10


class Rates(NamedTuple):
    """The reference node's counts for the epoch in which a workload makes the most updates."""

    pair_bytes: float  # bytes of the values that a device sends to another device, on average


def rates_of(workload: Workload, gpus: int) -> Rates:
    """Count the updates of a workload. This runs an iteration on the reference node."""
    counted = workload.count(load_core(), Case(gpus, PACKED), 1)
    return Rates(max(counted.sent_bytes, default=0.0) / (gpus * (gpus - 1)))


def _power_from(least: float, tried: Sequence[int]) -> int:
    """Return the first value that is at least `least`, or the last value."""
    return next((value for value in tried if value >= least), tried[-1])


def first_choice(rates: Rates, gpus: int) -> dict[str, int]:
    """Return the configuration of `packed` at which the search begins."""
    needed = MOST_BYTES_OF_A_BYTE * rates.pair_bytes
    fitting = [size for size in PACKET_BYTES if size <= USUAL_PACKET]
    packet = max((size for size in fitting if size * LEAST_PACKETS <= needed), default=fitting[0])
    queue = _power_from(needed, [LEAST_QUEUE << k for k in range(19)])
    packets = min(needed, queue) / packet * (gpus - 1)
    return {
        "packet_bytes": packet,
        "queue_bytes": queue,
        "update_windows": 1,
        "combining": COMBINING_ON,
        "unpack_blocks": _power_from(packets / WARPS_OF_A_BLOCK, UNPACK_BLOCKS),
    }


def packing_axes(start: dict[str, int], gpus: int, windows: int) -> list[tuple[str, list[int]]]:
    """Return the values to try for each parameter of `packed`, with a number of windows.

    The list is empty if the packets of so many windows do not fit in shared memory.
    """
    queue = start["queue_bytes"]
    queues = [queue << k >> QUEUE_STEPS for k in range(2 * QUEUE_STEPS + 1)]
    bins = gpus * windows
    most_packet = MOST_PACKING_BYTES // (WARPS_OF_A_BLOCK * bins)
    if bins > MOST_BINS or most_packet < PACKET_BYTES[0]:
        return []
    tried: dict[str, list[int]] = {
        "packet_bytes": [size for size in PACKET_BYTES if size <= most_packet],
        "queue_bytes": [size for size in queues if LEAST_QUEUE <= size <= MOST_QUEUE],
        "update_windows": [windows],
        "combining": [COMBINING_OFF, COMBINING_ON],
        "unpack_blocks": list(UNPACK_BLOCKS),
    }
    return [(name, tried[name]) for name in PACKING]


def update_space(workload: Workload, gpus: int, mechanisms: Sequence[str]) -> Any:
    """Return the candidates for a workload that updates partitioned arrays."""
    core = load_core()
    families = []
    for name in mechanisms:
        if name != PACKED:
            families.append(core.TuneFamily(name, [], name in CONTROLS))
            continue
        start = first_choice(rates_of(workload, gpus), gpus)
        for windows in WINDOWS:
            axes = packing_axes(start, gpus, windows)
            if axes:
                first = [min(start[axis], tried[-1]) for axis, tried in axes]
                first[PACKING.index("update_windows")] = windows
                families.append(core.TuneFamily(name, axes, False, first))
    return core.TuneSpace(families)
