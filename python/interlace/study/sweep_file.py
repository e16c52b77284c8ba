"""The file that keeps the runs of a sweep.

Each run is one JSON object on one line of the file. One write appends the line. A hash of all
inputs identifies the run. A stopped sweep can therefore resume, and after a change of the sweep
file, only the new runs are made.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import msgspec

from interlace.base.errors import UserError
from interlace.base.files import sync_folder
from interlace.base.version import version
from interlace.machine.schema import Machine
from interlace.model.results import WireRow
from interlace.model.run import Case

KIND = "interlace sweep run"
BEGINNING = f'{{"kind":"{KIND}"'.encode()  # the first bytes of every line


Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class Run(msgspec.Struct, frozen=True):
    """The results of a run, and the key that identifies the run."""

    kind: str
    key: str
    iterations: Count
    time_s: Annotated[float, msgspec.Meta(ge=1e-12, le=1e9)]
    wire: WireRow
    accesses: Count
    remote_transactions: Count
    cpu_s: Annotated[float, msgspec.Meta(ge=0, le=1e12)]
    max_error: Annotated[float, msgspec.Meta(ge=0, le=1e30)]


def _line(run: Run) -> bytes:
    """Return the line of a run. Its last key, `sum`, is a checksum of all bytes before that key."""
    body = msgspec.json.encode(run)[:-1]
    return body + _ending(body) + b"\n"


def _ending(body: bytes) -> bytes:
    return f',"sum":"{hashlib.sha256(body).hexdigest()[:16]}"}}'.encode()


ENDING_BYTES = len(_ending(b""))


def _run_of(line: bytes) -> Run | None:
    """Return the run on a line, or None if the line is damaged or is not a run of a sweep."""
    body = line[:-ENDING_BYTES]
    if line != body + _ending(body):
        return None
    try:
        run = msgspec.json.decode(body + b"}", type=Run)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return run if run.kind == KIND else None


def run_key(build: str, machine: Machine, workload: str, inputs: dict[str, Any], case: Case) -> str:
    """Return the hash of everything that the figures of a run depend on.

    `build` is the hash of the compiled simulator. In `inputs`, the hash of a data file stands in
    place of the file's name. The title and the comments of the machine do not change the key.
    """
    described = msgspec.to_builtins(machine)
    for key in ("name", "title", "sources"):
        del described[key]
    content = {
        "build": build,
        "version": version(),
        "machine": described,
        "workload": workload,
        "inputs": inputs,
        "gpus": case.gpus,
        "mechanism": case.mechanism,
        "config": case.config.given(),
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


class SweepFile:
    """The open file of runs. Only one process at a time writes to the file."""

    def __init__(self, path: Path, handle: int) -> None:
        self.path = path
        self._handle = handle
        self.runs: dict[str, Run] = {}
        self.note: str | None = None  # a remark if a damaged last line was removed

    def add(self, run: Run) -> None:
        """Append a run in one write, and flush it to the disk."""
        line = _line(run)
        try:
            written = os.write(self._handle, line)
            os.fsync(self._handle)
        except OSError as error:
            raise _unwritable(self.path, error) from None
        if written != len(line):  # the disk is full; the next sweep removes the partial line
            raise UserError(f"{self.path} cannot be written: the disk is full")
        self.runs[run.key] = run

    def _read(self) -> None:
        """Read the runs. Raise UserError if the file is not a file of runs.

        Each line is on the disk before the next line begins. So a crash or a loss of power can
        damage only the last line. A damaged last line is removed, and its run is made again.
        """
        with self.path.open("rb") as file:
            data = file.read()
        begin = lines = 0
        while begin < len(data):
            end = data.find(b"\n", begin)
            run = _run_of(data[begin:end]) if end >= 0 else None
            if run is None:
                break
            self.runs[run.key] = run
            begin, lines = end + 1, lines + 1
        if begin == len(data):
            return
        rest = data[begin:].rstrip(b"\n\0")
        if b"\n" in rest or not BEGINNING.startswith(rest[: len(BEGINNING)]) or data == b"\n":
            raise UserError(
                f"{self.path}, line {lines + 1}: this is not a run of a sweep, or it is damaged; "
                "give another file with --runs, or remove the line"
            )
        os.truncate(self._handle, begin)
        self.note = f"The last line of {self.path} is damaged; its run is made again."


@contextlib.contextmanager
def opened(path: Path) -> Iterator[SweepFile]:
    """Open a file of runs, or create the file. Raise UserError if neither is possible."""
    new = not path.exists()
    try:
        handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except (OSError, ValueError) as error:
        raise _unwritable(path, error) from None
    try:
        _lock(path, handle)
        file = SweepFile(path, handle)
        try:
            try:
                file._read()
                if new:
                    sync_folder(path.resolve().parent)
            except OSError as error:
                raise _unwritable(path, error) from None
            yield file
        finally:
            if new and not os.fstat(handle).st_size:
                path.unlink(missing_ok=True)
    finally:
        os.close(handle)


def _lock(path: Path, handle: int) -> None:
    """Lock the file. Raise UserError if another sweep uses the file or has removed it."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(handle), path.stat()):
            return
    except (
        BlockingIOError,
        FileNotFoundError,
    ):  # another sweep can have removed the file, because a sweep that made no run removes its file
        pass
    except OSError as error:
        raise _unwritable(path, error) from None
    raise UserError(
        f"{path} is in use by another sweep; wait until that sweep ends, or give another file with "
        "--runs"
    )


def _unwritable(path: Path, error: OSError | ValueError) -> UserError:
    reason = getattr(error, "strerror", None) or error
    return UserError(f"{path} cannot be used for the runs: {reason}")
