"""The inside of a simulated run: traffic between GPUs, use of links, and activity of GPUs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec


class Pair(msgspec.Struct, frozen=True):
    """All messages from one GPU to another GPU. The simulator routes a message as a whole."""

    source: int = msgspec.field(name="from")
    to: int
    messages: int
    packets: int
    payload_bytes: int
    protocol_bytes: int
    mean_latency_s: float  # from the request for the first link to the delivery
    max_latency_s: float


class LinkUse(msgspec.Struct, frozen=True):
    """One direction of a link that carried traffic.

    It has the fraction of each time bin for which this direction was busy.
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

    `issue` is a fraction of the GPU's issue slots, and `memory` is a fraction of the rate of its
    memory. All other values are fractions of the run's time.
    """

    kernel: float
    copy: float
    idle: float
    idle_while_others_compute: float
    issue: float
    memory: float


class Inside(msgspec.Struct, frozen=True):
    """The observations of a whole run: the traffic of each pair of GPUs, the use of each link, and
    the activity of each GPU. A time bin has `bin_s` seconds.
    """

    time_s: float
    bin_s: float
    pairs: list[Pair]
    links: list[LinkUse]
    gpus: list[Activity]


def inside_of(observed: dict[str, Any]) -> Inside:
    """Convert the observations that a compiled module made during a run.

    Fractions are rounded to a few significant digits.
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
    """Return a value for each pair of GPUs, as [from][to]. None stands for no messages."""
    count = len(inside.gpus)
    found: list[list[float | None]] = [[None] * count for _ in range(count)]
    for pair in inside.pairs:
        found[pair.source][pair.to] = value(pair)
    return found
