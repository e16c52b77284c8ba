"""The library that takes over a program's copies: its environment variables and its counts.

The library counts the copies that it takes over and the copies that it passes to the driver. All
processes of the program share a file with these counts (src/preload/counters.hpp). If requested,
the file also has the program's call sites and a list of the program's calls. This module reads the
file after the program has ended.
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

FORMAT = 2  # the format version of the JSON file
LIBRARY = "libinterlace_preload.so"


class Setting(NamedTuple):
    """An environment variable of the library, with its default value and its meaning."""

    standard: str
    meaning: str
    words: tuple[str, ...] = ()  # the valid values; if there are none, the value is a size


SETTINGS = {
    "INTERLACE_PRELOAD_THRESHOLD": Setting(
        "2M", "the library never takes over copies of fewer bytes"
    ),
    "INTERLACE_PRELOAD_AFTER": Setting(
        "256M",
        (
            "the engine starts once a process has copied this many bytes in copies that the "
            "engine could take over"
        ),
    ),
    "INTERLACE_PRELOAD_START": Setting(
        "background",
        "background: copies do not wait while the engine starts; wait: copies wait until the "
        "engine has started; never: the engine does not start",
        ("background", "wait", "never"),
    ),
    "INTERLACE_PRELOAD_BLOCKS": Setting(
        "auto",
        "the largest number of multiprocessors that the kernel for a batch of small blocks uses; "
        "0: no batch is taken over; auto: the smallest number that fills the link",
    ),
}
MOST_BLOCKS = 1024
COUNTERS = "INTERLACE_PRELOAD_COUNTERS"
LARGEST = 2**64


def check_environment(environment: Mapping[str, str]) -> None:
    """Raise UserError for a value that the library would refuse."""
    for name, setting in SETTINGS.items():
        value = environment.get(name, "")
        if not value:
            continue
        if name == "INTERLACE_PRELOAD_BLOCKS":
            number = re.fullmatch(r"\d{1,9}", value, re.ASCII)
            if value != "auto" and (number is None or int(value) > MOST_BLOCKS):
                raise UserError(
                    f"{name}={value!r} is not a number of multiprocessors; give 0 to "
                    f"{MOST_BLOCKS}, or auto"
                )
        elif setting.words:
            if value not in setting.words:
                *first, last = setting.words
                raise UserError(
                    f"{name}={value!r} is not a way to start; give {', '.join(first)} or {last}"
                )
        else:
            found = re.fullmatch(r"(\d{1,20})([KMG]?)", value, re.ASCII)
            unit = {"": 0, "K": 10, "M": 20, "G": 30}
            if found is None or int(found[1]) << unit[found[2]] >= LARGEST:
                raise UserError(
                    f"{name}={value!r} is not a size; give bytes, such as 65536, 64K, 2M"
                )


def preload_library() -> Path:
    """Return the path of this installation's library."""
    file = installed(LIBRARY)
    if file is not None:
        if re.search(r"[\s:]", str(file)):
            raise UserError(
                f"{file} cannot be preloaded, since its path has a space or a colon; install "
                "Interlace to another place"
            )
        return file
    raise UserError(
        f"this installation has no {LIBRARY}, the library that takes over copies; it exists for "
        "Linux on x86-64; "
        "install Interlace anew with ./quickstart"
    )


MAGIC = b"ILPRELD2"
SLOTS = 1024
SITES = 512  # the counters have room for this many call sites
CALLS = 65536  # the counters have room for this many calls
NAMES_AT = 4096
SLOTS_AT = 8192
SLOT_BYTES = 4096
DIRECTIONS = 4
# The magic number, `slots`, `loaded` and `saw_driver`; then the numbers of slots, sites and calls.
HEADER = struct.Struct("<8s8Q")
SLOT = struct.Struct("<3Q")  # process, engine, started_ns
TIMES = struct.Struct(f"<{DIRECTIONS}Q")
NAME_BYTES = 64
NOTE_BYTES = 512
ENGINE = ("none", "starting", "ready", "useless")
SITE = struct.Struct("<4I")  # named, slot, function, sampled
SITE_TALLY = struct.Struct("<3Q")  # copies, bytes, host_ns
SITE_SIZES = struct.Struct("<32Q")
SITE_TEXTS = (64, 128, 64, 128)  # module, symbol, outer module, outer symbol
SITE_BYTES = 1048
CALL = struct.Struct("<3Q3I4B")  # begin_ns, took_ns, bytes; pieces, slot, thread; function, ...


class Tally(NamedTuple):
    """The copies of one direction that had the same outcome."""

    direction: str
    outcome: str
    copies: int
    bytes: int


class Gain(NamedTuple):
    """The predicted time of the copies that were taken over.

    `direct_s` is the predicted time of these copies if they were plain copies.
    """

    direction: str
    predicted_s: float
    direct_s: float


class SiteTally(NamedTuple):
    """The copies of one call site that have one direction and one kind of host memory."""

    direction: str
    memory: str
    copies: int
    bytes: int
    host_s: float  # the time that the host spent in the function of the driver


class Site(NamedTuple):
    """A place in the program that copies.

    If the library recorded only some of the calls, the counts are estimates.
    """

    process: int
    function: str  # the driver's function that was called
    module: str  # the library (or the program) that calls the driver or the CUDA runtime
    symbol: str
    outer_module: str  # the library (or the program) that calls `module`
    outer_symbol: str
    sampled: int  # the number of calls that the library recorded
    taken_over_bytes: int
    sizes: dict[
        int, int
    ]  # maps a size, rounded down to a power of two, to the number of copies of that size
    tallies: list[SiteTally]


class Call(NamedTuple):
    """A call of the driver, for a timeline."""

    begin_s: float  # the start of the call, on the computer's monotonic clock
    took_s: float
    bytes: int
    pieces: int
    slot: int
    thread: int
    function: str
    direction: str
    outcome: str


class Process(NamedTuple):
    """A program that ran in a process and copied on GPUs. An exec begins another program."""

    process: int
    name: str
    engine: str
    started_s: float
    note: str
    tallies: list[Tally]
    gains: list[Gain]
    batches: int = 0  # the number of batches that were taken over


class Counted(NamedTuple):
    """Everything that the library counted."""

    loaded: int
    saw_driver: int
    claimed: int
    taken_over: list[str]  # the names of the outcomes in which Interlace took over the copy
    processes: list[Process]
    sites: list[Site] = []  # noqa: RUF012 - nothing changes it
    lost_sites: int = 0  # the number of call sites that found no room in the file
    calls: list[Call] = []  # noqa: RUF012
    lost_calls: int = 0

    def tallies(self) -> list[Tally]:
        """Return the tallies, summed over all processes, in a fixed order."""
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


def make_counters(file: Path, *, sites: int = 0, calls: int = 0) -> None:
    """Make the file of counters, and reserve disk space for all its bytes.

    The program maps the file. Without the reservation, a full disk would cause a SIGBUS, which
    kills the program. Raises OSError.
    """
    with file.open("wb") as out:
        out.write(HEADER.pack(MAGIC, SLOTS, 0, 0, 0, sites, 0, calls, 0))
        out.flush()
        size = SLOTS_AT + SLOTS * SLOT_BYTES + sites * SITE_BYTES + calls * CALL.size
        os.posix_fallocate(out.fileno(), 0, size)


class _Names(NamedTuple):
    """The names of directions, outcomes, memories and functions. The file has their indices."""

    directions: list[str]
    taken_over: list[str]
    passed: list[str]
    memories: list[str]
    functions: list[str]

    @property
    def outcomes(self) -> list[str]:
        return self.taken_over + self.passed


def read_counters(file: Path) -> Counted:
    """Read the counters that the library wrote into the file."""
    with file.open("rb") as source:
        view = mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_READ)
    with view:
        header = HEADER.unpack_from(view, 0)
        _, slots, loaded, saw_driver, claimed, sites, site_number, calls, call_number = header
        names = _names(view[NAMES_AT:SLOTS_AT])
        processes = [
            _process(view, SLOTS_AT + index * SLOT_BYTES, names)
            for index in range(min(claimed, slots))
        ]
        at = SLOTS_AT + slots * SLOT_BYTES
        found = [
            site
            for index in range(sites)
            if (site := _site(view, at + index * SITE_BYTES, names, processes)) is not None
        ]
        at += sites * SITE_BYTES
        seen = [
            call
            for index in range(min(call_number, calls))
            if (call := _call(view, at + index * CALL.size, names)) is not None
        ]
    return Counted(
        loaded,
        saw_driver,
        claimed,
        names.taken_over,
        processes,
        found,
        max(0, site_number - max(0, sites - 1)),
        seen,
        max(0, call_number - calls),
    )


def _names(page: bytes) -> _Names:
    text = page.partition(b"\0")[0].decode()
    if not text:  # no process loaded the library
        return _Names([], [], [], [], [])
    return _Names(*(group.splitlines() for group in text.split("\n\n")))


def _text(view: mmap.mmap, at: int, size: int) -> str:
    return view[at : at + size].partition(b"\0")[0].decode(errors="replace")


def _site(view: mmap.mmap, at: int, names: _Names, processes: Sequence[Process]) -> Site | None:
    named, slot, function, sampled = SITE.unpack_from(view, at)
    if sampled == 0:
        return None
    at += SITE.size
    tallies = []
    for direction in names.directions:
        for memory in names.memories:
            copies, size, host_ns = SITE_TALLY.unpack_from(view, at)
            at += SITE_TALLY.size
            if copies:
                tallies.append(SiteTally(direction, memory, copies, size, host_ns / 1e9))
    (taken_over,) = struct.unpack_from("<Q", view, at)
    at += 8
    sizes = SITE_SIZES.unpack_from(view, at)
    at += SITE_SIZES.size
    texts = []
    for size in SITE_TEXTS:
        texts.append(_text(view, at, size) if named else "")
        at += size
    module, symbol, outer_module, outer_symbol = texts
    return Site(
        process=processes[slot].process if named and slot < len(processes) else 0,
        function=names.functions[function] if named else "",
        module=module,
        symbol=symbol,
        outer_module=outer_module,
        outer_symbol=outer_symbol,
        sampled=sampled,
        taken_over_bytes=taken_over,
        sizes={1 << power: copies for power, copies in enumerate(sizes) if copies},
        tallies=tallies,
    )


def _call(view: mmap.mmap, at: int, names: _Names) -> Call | None:
    begin, took, size, pieces, slot, thread, function, direction, outcome, complete = (
        CALL.unpack_from(view, at)
    )
    if not complete:
        return None
    return Call(
        begin / 1e9,
        took / 1e9,
        size,
        pieces,
        slot,
        thread,
        names.functions[function],
        names.directions[direction],
        names.outcomes[outcome],
    )


def _process(view: mmap.mmap, at: int, names: _Names) -> Process:
    process, engine, started_ns = SLOT.unpack_from(view, at)
    at += SLOT.size
    predicted = TIMES.unpack_from(view, at)
    direct = TIMES.unpack_from(view, at + TIMES.size)
    at += 2 * TIMES.size
    pair = struct.Struct("<2Q")
    tallies = []
    for direction in names.directions:
        for outcome in names.outcomes:
            copies, size = pair.unpack_from(view, at)
            at += pair.size
            if copies:
                tallies.append(Tally(direction, outcome, copies, size))
    gains = [
        Gain(name, one / 1e9, other / 1e9)
        for name, one, other in zip(names.directions, predicted, direct, strict=True)
        if other
    ]
    (batches,) = struct.unpack_from("<Q", view, at)
    at += 8
    return Process(
        process,
        _text(view, at, NAME_BYTES),
        ENGINE[engine],
        started_ns / 1e9,
        _text(view, at + NAME_BYTES, NOTE_BYTES),
        tallies,
        gains,
        batches,
    )


def to_json(counted: Counted, words: Sequence[str], code: int, elapsed_s: float) -> dict[str, Any]:
    """Return the counters as data for JSON."""
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
        "batches": sum(process.batches for process in counted.processes),
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
        "sites": [
            {**site._asdict(), "tallies": [one._asdict() for one in site.tallies]}
            for site in counted.sites
        ],
        "sites_without_room": counted.lost_sites,
    }
