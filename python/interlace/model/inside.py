"""What happens inside a simulated run: traffic between GPUs, use of links, and activity of GPUs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec


class Pair(msgspec.Struct, frozen=True):
    """All messages from one GPU to another. A message is a unit that the simulator routes as a
    whole.
    """

    source: int = msgspec.field(name="from")
    to: int
    messages: int
    packets: int
    payload_bytes: int
    protocol_bytes: int
    mean_latency_s: float  # from the request for the first link to the delivery
    max_latency_s: float


class LinkUse(msgspec.Struct, frozen=True):
    """One direction of a link with traffic. It has the fraction of each time bin in which it was
    busy.
    """

    source: str = msgspec.field(name="from")
    to: str
    protocol: str
    wire_bytes: int
    busy: float
    by_bin: list[float]

    @property
    def name(self) -> str:
        """Return the names of both ends."""
        return f"{self.source} -> {self.to}"


class Activity(msgspec.Struct, frozen=True):
    """The activity of a GPU.

    The values are the used fractions of the time, of its issue slots and of its memory bandwidth.
    """

    kernel: float
    copy: float
    idle: float
    idle_while_others_compute: float
    issue: float
    memory: float


class Inside(msgspec.Struct, frozen=True):
    """The inside of a whole run: its pairs of GPUs, its links by time bin, and its GPUs."""

    time_s: float
    bin_s: float
    pairs: list[Pair]
    links: list[LinkUse]
    gpus: list[Activity]


def inside_of(observed: dict[str, Any]) -> Inside:
    """Convert the result of a compiled module.

    Shares are rounded to their significant digits.
    """
    links = [
        {
            **link,
            "busy": round(link["busy"], 6),
            "by_bin": [round(part, 4) for part in link["by_bin"]],
        }
        for link in observed["links"]
    ]
    gpus = [{key: round(part, 6) for key, part in gpu.items()} for gpu in observed["gpus"]]
    return msgspec.convert({**observed, "links": links, "gpus": gpus}, Inside)


def matrix(inside: Inside, value: Callable[[Pair], float]) -> list[list[float | None]]:
    """Return a value for each pair of GPUs, as [from][to]. None means that the pair sent
    nothing.
    """
    count = len(inside.gpus)
    found: list[list[float | None]] = [[None] * count for _ in range(count)]
    for pair in inside.pairs:
        found[pair.source][pair.to] = value(pair)
    return found
