"""The library that takes over a program's copies: its environment variables and its counts.

The library counts the copies that it took over or passed through in a file that all processes of
the program share (src/preload/counters.hpp). This module reads the file after the program's end.
"""

from __future__ import annotations

import mmap
import os
import re
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from interlace.base.errors import UserError
from interlace.base.installation import installed

FORMAT = 1  # of the JSON file
LIBRARY = "libinterlace_preload.so"


class Setting(NamedTuple):
    """An environment variable of the library, with its default value and its meaning."""

    standard: str
    meaning: str
    words: tuple[str, ...] = ()  # the valid values; empty: the value is a size


SETTINGS = {
    "INTERLACE_PRELOAD_THRESHOLD": Setting("2M", "copies of fewer bytes are never taken over"),
    "INTERLACE_PRELOAD_AFTER": Setting(
        "256M", "bytes that copies which could be taken over move before the engine starts"
    ),
    "INTERLACE_PRELOAD_START": Setting(
        "background",
        "copies wait for the engine's start or not, or it never starts",
        ("background", "wait", "never"),
    ),
}
COUNTERS = "INTERLACE_PRELOAD_COUNTERS"
LARGEST = 2**64


def check_environment(environment: Mapping[str, str]) -> None:
    """Raise UserError for a value that the library would refuse."""
    for name, setting in SETTINGS.items():
        value = environment.get(name, "")
        if not value:
            continue
        if setting.words:
            if value not in setting.words:
                *first, last = setting.words
                raise UserError(
                    f"{name}={value!r} is not a way to start; "
                    f"there are {', '.join(first)} and {last}"
                )
        else:
            found = re.fullmatch(r"(\d{1,20})([KMG]?)", value, re.ASCII)
            unit = {"": 0, "K": 10, "M": 20, "G": 30}
            if found is None or int(found[1]) << unit[found[2]] >= LARGEST:
                raise UserError(
                    f"{name}={value!r} is not a size; give bytes, such as 65536, 64K, 2M"
                )


def preload_library() -> Path:
    """The path of this installation's library."""
    file = installed(LIBRARY)
    if file is not None:
        if re.search(r"[\s:]", str(file)):
            raise UserError(
                f"{file} cannot be preloaded, since its path has a space or a colon; install "
                "Interlace to another place"
            )
        return file
    raise UserError(
        f"this installation has no {LIBRARY}, which takes over copies; it is for Linux on x86-64; "
        "install Interlace anew with ./quickstart"
    )


MAGIC = b"ILPRELD1"
SLOTS = 1024
NAMES_AT = 4096
SLOTS_AT = 8192
SLOT_BYTES = 4096
DIRECTIONS = 4
HEADER = struct.Struct("<8s4Q")  # magic, slots, loaded, saw_driver, claimed
SLOT = struct.Struct("<3Q")  # process, engine, started_ns
TIMES = struct.Struct(f"<{DIRECTIONS}Q")
NAME_BYTES = 64
NOTE_BYTES = 512
ENGINE = ("none", "starting", "ready", "useless")
TAKEN_OVER = 0  # index of this outcome


class Tally(NamedTuple):
    """The copies of one direction with the same outcome."""

    direction: str
    outcome: str
    copies: int
    bytes: int


class Gain(NamedTuple):
    """Predicted times of the copies that were taken over: with their plans, and as plain copies."""

    direction: str
    predicted_s: float
    direct_s: float


class Process(NamedTuple):
    """A process image that copied on GPUs."""

    process: int
    name: str
    engine: str
    started_s: float
    note: str
    tallies: list[Tally]
    gains: list[Gain]


class Counted(NamedTuple):
    """Everything that the library counted."""

    loaded: int
    saw_driver: int
    claimed: int
    taken_over: str  # the name of the outcome TAKEN_OVER
    processes: list[Process]

    def tallies(self) -> list[Tally]:
        """Return the tallies over all processes, in a fixed order."""
        sums: dict[tuple[str, str], tuple[int, int]] = {}
        for process in self.processes:
            for one in process.tallies:
                copies, size = sums.get((one.direction, one.outcome), (0, 0))
                sums[one.direction, one.outcome] = (copies + one.copies, size + one.bytes)
        return [Tally(*key, *value) for key, value in sums.items()]

    def gains(self) -> list[Gain]:
        sums: dict[str, tuple[float, float]] = {}
        for process in self.processes:
            for one in process.gains:
                predicted, direct = sums.get(one.direction, (0.0, 0.0))
                sums[one.direction] = (predicted + one.predicted_s, direct + one.direct_s)
        return [Gain(key, *value) for key, value in sums.items()]


def make_counters(file: Path) -> None:
    """Make the file of counters, with disk space for all its bytes. Raises OSError.

    The program maps the file. If a page had no space on the disk yet and the disk filled up later,
    SIGBUS would kill the program.
    """
    with file.open("wb") as out:
        out.write(HEADER.pack(MAGIC, SLOTS, 0, 0, 0))
        out.flush()
        os.posix_fallocate(out.fileno(), 0, SLOTS_AT + SLOTS * SLOT_BYTES)


def read_counters(file: Path) -> Counted:
    """Read the counters that the library wrote into the file."""
    with file.open("rb") as source:
        view = mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_READ)
    with view:
        _, slots, loaded, saw_driver, claimed = HEADER.unpack_from(view, 0)
        directions, outcomes = _names(view[NAMES_AT:SLOTS_AT])
        processes = [
            _process(view, SLOTS_AT + index * SLOT_BYTES, directions, outcomes)
            for index in range(min(claimed, slots))
        ]
    return Counted(loaded, saw_driver, claimed, outcomes[TAKEN_OVER], processes)


def _names(page: bytes) -> tuple[list[str], list[str]]:
    text = page.partition(b"\0")[0].decode()
    if not text:  # no process loaded the library
        return [], [""]
    directions, outcomes = text.split("\n\n")
    return directions.splitlines(), outcomes.splitlines()


def _process(
    view: mmap.mmap, at: int, directions: Sequence[str], outcomes: Sequence[str]
) -> Process:
    process, engine, started_ns = SLOT.unpack_from(view, at)
    at += SLOT.size
    predicted = TIMES.unpack_from(view, at)
    direct = TIMES.unpack_from(view, at + TIMES.size)
    at += 2 * TIMES.size
    pair = struct.Struct("<2Q")
    tallies = []
    for direction in directions:
        for outcome in outcomes:
            copies, size = pair.unpack_from(view, at)
            at += pair.size
            if copies:
                tallies.append(Tally(direction, outcome, copies, size))
    gains = [
        Gain(name, one / 1e9, other / 1e9)
        for name, one, other in zip(directions, predicted, direct, strict=True)
        if other
    ]

    def text(offset: int, size: int) -> str:
        return view[offset : offset + size].partition(b"\0")[0].decode(errors="replace")

    return Process(
        process,
        text(at, NAME_BYTES),
        ENGINE[engine],
        started_ns / 1e9,
        text(at + NAME_BYTES, NOTE_BYTES),
        tallies,
        gains,
    )


def to_json(counted: Counted, words: Sequence[str], code: int, elapsed_s: float) -> dict[str, Any]:
    """The counters in the form of JSON data."""
    from interlace.model.results import provenance

    def tallies(of: Sequence[Tally]) -> list[dict[str, Any]]:
        return [one._asdict() for one in of]

    return {
        "format": FORMAT,
        **provenance(),
        "program": list(words),
        "exit_code": code,
        "elapsed_s": elapsed_s,
        "loaded": counted.loaded,
        "saw_driver": counted.saw_driver,
        "copying_processes": counted.claimed,
        "taken_over": counted.taken_over,
        "copies": tallies(counted.tallies()),
        "gains": [gain._asdict() for gain in counted.gains()],
        "processes": [
            {
                **process._asdict(),
                "tallies": tallies(process.tallies),
                "gains": [gain._asdict() for gain in process.gains],
            }
            for process in counted.processes
        ],
    }
