"""How stores reach the other GPUs: the mechanisms, and the configurations that are worth a try."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

MECHANISMS = (
    "bulk-copy",
    "split",
    "inline",
    "polling",
    "device-launch",
    "copy-engine",
    "proact-hardware",
    "serial-copy",
    "infinite-bandwidth",
)
BASELINE = "bulk-copy"
BOUND = "infinite-bandwidth"
SERIAL = "serial-copy"  # the bulk copies of the PROACT paper; no way that anybody should choose
SIMULATED = ("device-launch", "proact-hardware", SERIAL, BOUND)  # what the real node refuses
DEFAULTS = tuple(name for name in MECHANISMS if name != SERIAL)  # of a study
# Behind a mechanism that tracks chunks: everything is done but for the transfers. It says what
# tracking and starting transfers cost, and nothing about what could be reached.
WITHOUT_TRANSFERS = "-without-transfers"

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30

# The real node refuses to wait for more than 256 chunks of a part. The chunks at its ends are
# smaller than the others, which makes a few more of them.
MOST_WAITS = 250


def size_text(size: int) -> str:
    """A number of bytes in the largest binary unit that leaves it whole."""
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} B"


def _short(size: int) -> str:
    """As size_text, without a space and the end of the unit: 256K."""
    return size_text(size).replace(" ", "").removesuffix("B").removesuffix("i")


class Config(NamedTuple):
    """How a mechanism moves data; None: not something that it has."""

    ranges: int | None = None  # of `split`
    chunk_bytes: int | None = None  # of what tracks chunks
    agent_threads: int | None = None  # of `polling`, and of each kernel of `device-launch`

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Config:
        """The configuration that a row states among other things."""
        return cls(*(fields.get(name) for name in cls._fields))

    def given(self) -> dict[str, int]:
        """What the mechanism has, by name."""
        return {name: value for name, value in self._asdict().items() if value is not None}

    def arguments(self) -> tuple[int, int, int]:
        """As compiled modules take it; what a mechanism does not have must still be valid."""
        return self.ranges or 1, self.chunk_bytes or MIB, self.agent_threads or 32

    def words(self, *, short: bool = False) -> str:
        """For people; nothing where there is nothing to say."""
        found = []
        if self.ranges is not None:
            found.append(f"{self.ranges} ranges")
        if self.chunk_bytes is not None:
            found.append(_short(self.chunk_bytes) if short else size_text(self.chunk_bytes))
        if self.agent_threads is not None:
            threads = _short(self.agent_threads) if short else f"{self.agent_threads} threads"
            found.append(threads)
        return ", ".join(found)


def label(mechanism: str, config: Config, *, short: bool = False) -> str:
    """A mechanism with its configuration."""
    words = config.words(short=short)
    return f"{mechanism} ({words})" if words else mechanism


@dataclass(frozen=True)
class Tuning:
    """What to try of each mechanism; all ascending."""

    ranges: tuple[int, ...]
    chunks: tuple[int, ...]
    threads: tuple[int, ...]
    # Of `copy-engine`, which pays for each wait: it tries the others only if there are no such.
    least_copied: int = 256 * KIB
    most_waits: int | None = MOST_WAITS

    def configs(self, mechanism: str, part_bytes: int) -> list[Config]:
        """The configurations to try where the largest part of a device has so many bytes."""
        if mechanism == "split":
            return [Config(ranges=ranges) for ranges in self.ranges]
        if mechanism in ("polling", "device-launch"):
            return [
                Config(chunk_bytes=chunk, agent_threads=threads)
                for chunk in _different(self.chunks, part_bytes)
                for threads in self.threads
            ]
        if mechanism == "proact-hardware":
            return [Config(chunk_bytes=chunk) for chunk in _different(self.chunks, part_bytes)]
        if mechanism == "copy-engine":
            chunks = _different(self._copied(part_bytes), part_bytes)
            return [Config(chunk_bytes=chunk) for chunk in chunks]
        return [Config()]

    def _copied(self, part_bytes: int) -> Sequence[int]:
        least = self.least_copied
        if self.most_waits is not None:
            least = max(least, -(-part_bytes // self.most_waits))
        return [chunk for chunk in self.chunks if chunk >= least] or self.chunks[-1:]


def _different(chunks: Sequence[int], part_bytes: int) -> list[int]:
    """The chunks below a part, and one of those that hold all of it."""
    below = [chunk for chunk in chunks if chunk < part_bytes]
    return [*below, *chunks[len(below) : len(below) + 1]]
