"""`interlace run`: a program as it is, with its copies taken over where several paths are faster.

The program runs in the foreground with libinterlace_preload.so ahead of its libraries. What the
library took over and what it passed through is in a file of counters that all processes of the
program share (src/preload/counters.hpp); it is read when the program has ended.
"""

from __future__ import annotations

import mmap
import os
import re
import shutil
import signal
import stat
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, NamedTuple

import typer

from interlace.base.errors import UserError
from interlace.base.files import check_writable, write_all
from interlace.base.installation import installed
from interlace.model.results import json_text
from interlace.show.table import BYTES, SECONDS, fixed, scale

FORMAT = 1  # of the JSON file
LIBRARY = "libinterlace_preload.so"
NOT_EXECUTABLE = 126  # as shells have it
NOT_FOUND = 127

# --- the environment of the library ---------------------------------------------------------------


class Setting(NamedTuple):
    """An environment variable of the library: its value where it is not set, and its meaning."""

    standard: str
    meaning: str
    words: tuple[str, ...] = ()  # the values that there are; none: a size


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
    """Raise UserError for a value that the library would not understand."""
    for name, setting in SETTINGS.items():
        value = environment.get(name, "")
        if not value:
            continue
        if setting.words:
            if value not in setting.words:
                *first, last = setting.words
                raise UserError(
                    f"{name}={value!r} is no way to start; there are {', '.join(first)} and {last}"
                )
        else:
            found = re.fullmatch(r"(\d{1,20})([KMG]?)", value, re.ASCII)
            unit = {"": 0, "K": 10, "M": 20, "G": 30}
            if found is None or int(found[1]) << unit[found[2]] >= LARGEST:
                raise UserError(f"{name}={value!r} is no size; give bytes, such as 65536, 64K, 2M")


def preload_library() -> Path:
    """The library of this installation."""
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


# --- the counters ---------------------------------------------------------------------------------

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
TAKEN_OVER = 0  # of the outcomes


class Tally(NamedTuple):
    """Copies of one direction that ended alike."""

    direction: str
    outcome: str
    copies: int
    bytes: int


class Gain(NamedTuple):
    """What copies that were taken over take by the planner's prediction, and as plain copies."""

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
    """All that the library counted."""

    loaded: int
    saw_driver: int
    claimed: int
    taken_over: str  # the name of that outcome
    processes: list[Process]

    def tallies(self) -> list[Tally]:
        """Of all processes together, in a fixed order."""
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
    with file.open("wb") as out:
        out.write(HEADER.pack(MAGIC, SLOTS, 0, 0, 0))
        out.truncate(SLOTS_AT + SLOTS * SLOT_BYTES)


def read_counters(file: Path) -> Counted:
    """What the library left in the file."""
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
    if not text:  # nobody loaded the library
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


# --- what is said of them -------------------------------------------------------------------------


def _plural(count: int, word: str, words: str | None = None) -> str:
    return f"{count} {word if count == 1 else words or word + 's'}"


def _quantity(value: float, units: Sequence[tuple[float, str]]) -> str:
    size, name = scale([value], units)
    return f"{fixed([value / size])[0]} {name}"


def warnings(counted: Counted, program: str) -> list[str]:
    """Why nothing was taken over, where there is more to say than the table does."""
    if counted.loaded == 0:
        return [
            f"warning: the library was never called: {program} is statically linked, or runs with "
            "other rights, or drops LD_PRELOAD"
        ]
    if counted.saw_driver == 0 and counted.claimed == 0:
        return [f"warning: {program} never looked for a CUDA driver, so there was nothing to do"]
    if not any(process.tallies for process in counted.processes):
        return ["warning: no CUDA copy was seen"]
    return []


def table(counted: Counted) -> list[str]:
    """The lines for people: what was taken over, what not and why, and what that gained."""
    rows: list[tuple[str, int, int]] = []
    tallies = counted.tallies()
    taken = [one for one in tallies if one.outcome == counted.taken_over]
    passed: dict[str, tuple[int, int]] = {}
    for one in tallies:
        if one.outcome != counted.taken_over:
            copies, size = passed.get(one.outcome, (0, 0))
            passed[one.outcome] = (copies + one.copies, size + one.bytes)
    rows.append(("taken over", sum(o.copies for o in taken), sum(o.bytes for o in taken)))
    rows += [(f"  {one.direction}", one.copies, one.bytes) for one in taken]
    rows.append(
        (
            "passed through",
            sum(copies for copies, _ in passed.values()),
            sum(size for _, size in passed.values()),
        )
    )
    ordered = sorted(passed.items(), key=lambda item: (-item[1][1], -item[1][0], item[0]))
    rows += [(f"  {reason}", *sums) for reason, sums in ordered]
    unit, name = scale([size for _, _, size in rows], BYTES)
    sizes = fixed([size / unit for _, _, size in rows])
    labels = max(len(row[0]) for row in rows)
    counts = max(len("copies"), *(len(str(row[1])) for row in rows))
    width = max(len(name), *map(len, sizes))
    lines = [f"{'':{labels}}  {'copies':>{counts}}  {name:>{width}}"]
    lines += [
        f"{label:{labels}}  {copies:>{counts}}  {size:>{width}}"
        for (label, copies, _), size in zip(rows, sizes, strict=True)
    ]
    gains = counted.gains()
    predicted = sum(gain.predicted_s for gain in gains)
    direct = sum(gain.direct_s for gain in gains)
    if predicted > 0:
        lines.append(
            f"predicted for what was taken over: {_quantity(predicted, SECONDS)} of copying, "
            f"{_quantity(direct, SECONDS)} as plain copies; {direct / predicted:.2f} x"
        )
    started = [process.started_s for process in counted.processes if process.engine == "ready"]
    if started:
        lines.append(
            f"the engine started in {_plural(len(started), 'process', 'processes')}, in "
            f"{_quantity(max(started), SECONDS)}"
        )
    notes = dict.fromkeys(process.note for process in counted.processes if process.note)
    return [*lines, *(f"note: {note}" for note in notes)]


def to_json(counted: Counted, words: Sequence[str], code: int, elapsed_s: float) -> dict[str, Any]:
    """The same as data."""
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


# --- the program ----------------------------------------------------------------------------------

PASSED_ON = ("SIGHUP", "SIGTERM", "SIGUSR1", "SIGUSR2", "SIGCONT", "SIGWINCH")
FROM_TERMINAL = ("SIGINT", "SIGQUIT")  # the terminal sends them to the program itself


class _Signals:
    """Signals to this process are the program's, as long as it runs; what is ignored stays so."""

    def __init__(self) -> None:
        self.child: subprocess.Popen[bytes] | None = None
        self.early: list[int] = []  # before there was a program
        self.before: dict[int, Any] = {}

    def __enter__(self) -> _Signals:
        for name in (*PASSED_ON, *FROM_TERMINAL):
            number = getattr(signal, name)
            if signal.getsignal(number) is not signal.SIG_IGN:
                handler = self._pass_on if name in PASSED_ON else self._leave
                self.before[number] = signal.signal(number, handler)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)

    def begin(self, child: subprocess.Popen[bytes]) -> None:
        self.child = child
        for number in self.early:
            self._pass_on(number, None)

    def _pass_on(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        if self.child is None:
            self.early.append(number)
        else:
            with suppress(ProcessLookupError):
                self.child.send_signal(number)

    def _leave(self, number: int, frame: FrameType | None) -> None:
        pass


def find_program(name: str, environment: Mapping[str, str]) -> tuple[Path | None, int, str]:
    """The file that a shell would execute; else its exit code and the reason."""
    if "/" in name:
        candidates = [Path(name)]
    else:
        folders = environment.get("PATH", os.defpath).split(os.pathsep)
        candidates = [Path(folder or ".") / name for folder in folders]
    refused = ""
    for file in candidates:
        try:
            mode = file.stat().st_mode
        except OSError as error:
            if isinstance(error, PermissionError):
                refused = refused or f"{file}: Permission denied"
            continue
        if stat.S_ISDIR(mode):
            if "/" in name:
                refused = f"{file} is a directory, not a program"
        elif os.access(file, os.X_OK):
            return file, 0, ""
        else:
            refused = refused or f"{file} may not be executed; chmod +x makes it executable"
    if refused:
        return None, NOT_EXECUTABLE, refused
    if "/" in name:
        return None, NOT_FOUND, f"there is no program {name}"
    return None, NOT_FOUND, f"there is no program {name!r} in PATH"


def run_program(
    file: Path, words: Sequence[str], environment: Mapping[str, str]
) -> tuple[int, str | None]:
    """Run it to its end; its exit code as shells have it, and the reason where it did not start."""
    with _Signals() as signals:
        try:
            child = subprocess.Popen(words, executable=str(file), env=environment, close_fds=False)
        except OSError as error:
            return NOT_EXECUTABLE, f"{file} cannot be executed: {error.strerror}"
        signals.begin(child)
        code = child.wait()
    return (128 - code if code < 0 else code), None


def run_command(
    program: Annotated[
        list[str],
        typer.Argument(metavar="-- PROGRAM [ARGUMENT]...", help="What to run, behind two hyphens."),
    ],
    json_file: Annotated[
        Path | None,
        typer.Option("--json", metavar="FILE", help="Write what was counted as JSON."),
    ] = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Say nothing at the end but warnings.")
    ] = False,
) -> int:
    """Run a program as it is, and take over its CUDA copies where several paths are faster.

    What was taken over, passed through and gained is printed to standard error at its end; the
    exit code is the program's. INTERLACE_PRELOAD_THRESHOLD (2M), INTERLACE_PRELOAD_AFTER (256M) and
    INTERLACE_PRELOAD_START (background, wait, never) say from which size on copies are taken over,
    after how many bytes, and whether copies wait until that can be.
    """
    if json_file is not None:
        check_writable(json_file, "--json")
    check_environment(os.environ)
    preloaded = preload_library()
    file, code, refused = find_program(program[0], os.environ)
    if file is None:
        typer.echo(f"interlace: {refused}", err=True)
        return code
    folder = Path(tempfile.mkdtemp(prefix="interlace-run-"))
    try:
        counters = folder / "counters"
        make_counters(counters)
        others = os.environ.get("LD_PRELOAD", "")
        environment = {
            **os.environ,
            COUNTERS: str(counters),
            "LD_PRELOAD": f"{preloaded}:{others}" if others else str(preloaded),
        }
        sys.stdout.flush()
        began = time.monotonic()
        code, failed = run_program(file, program, environment)
        elapsed_s = time.monotonic() - began
        if failed is not None:
            typer.echo(f"interlace: {failed}", err=True)
            return code
        counted = read_counters(counters)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    said = warnings(counted, program[0])
    if not said and not quiet:
        said = table(counted)
    for line in said:
        typer.echo(f"interlace: {line}", err=True)
    if json_file is not None:
        write_all({json_file: json_text(to_json(counted, program, code, elapsed_s))})
    return code
