"""Lists the devices of a machine, and the single links between them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from interlace.machine.schema import KEYS, Link, Machine

MAX_GPUS = next(int(key.most) for key in KEYS if key.full == "gpu.count")
_DIGITS = frozenset("0123456789")


class Connection(NamedTuple):
    """A link between two devices, after groups such as gpu* have been expanded."""

    a: str
    b: str
    link: Link


def gpu_names(machine: Machine) -> list[str]:
    """Return the names of the machine's GPUs: gpu0, gpu1 and so on."""
    return [f"gpu{index}" for index in range(machine.gpu.count)]


def device_names(machine: Machine) -> list[str]:
    """Return all possible ends of a link: the GPUs, the switches and the host."""
    return [*gpu_names(machine), *(switch.name for switch in machine.switch), "host"]


def _is_number(text: str) -> bool:
    return bool(text) and _DIGITS.issuperset(text)


def group(end: str, devices: Sequence[str]) -> list[str]:
    """Return the devices that an end of a link names, or nothing if there is no such device."""
    if end in devices:
        return [end]
    if end.endswith("*"):
        stem = end[:-1]
        return [
            name
            for name in devices
            if name.startswith(stem) and _is_number(name.removeprefix(stem))
        ]
    before, dash, last = end.rpartition("-")
    first = before[len(before.rstrip("0123456789")) :]
    if dash and _is_number(first) and _is_number(last) and max(len(first), len(last)) <= 4:
        stem = before.removesuffix(first)
        names = [f"{stem}{index}" for index in range(int(first), int(last) + 1)]
        return names if all(name in devices for name in names) else []
    return []


def connections(machine: Machine) -> list[Connection]:
    """Return the single links of a machine, in the order of the file."""
    devices = device_names(machine)
    return [Connection(a, b, link) for link in machine.link for a, b in pairs(link, devices)]


def pairs(link: Link, devices: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the pairs of devices that a link joins.

    If both ends are the same group, each pair occurs once.
    """
    left, right = (group(end, devices) for end in link.ends)
    if link.ends[0] == link.ends[1]:
        return itertools.combinations(left, 2)
    return ((a, b) for a, b in itertools.product(left, right) if a != b)


def reachable(start: str, neighbours: dict[str, set[str]]) -> set[str]:
    """Return the devices that `start` can reach. GPUs do not forward messages."""
    seen = {start}
    frontier = [start]
    while frontier:
        at = frontier.pop()
        if at != start and at.startswith("gpu"):
            continue
        new = neighbours.get(at, set()) - seen
        seen |= new
        frontier.extend(new)
    return seen
