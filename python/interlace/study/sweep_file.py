"""The file of a sweep's runs: one JSON object in a line, appended in one write.

A hash of all inputs identifies a run. A stopped sweep therefore resumes where it stopped, and a
changed sweep computes only the changed runs.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from interlace.base.errors import UserError
from interlace.base.version import version
from interlace.machine.schema import Machine
from interlace.model.results import WireRow
from interlace.model.run import Case

KIND = "interlace sweep run"
BEGINNING = f'{{"kind":"{KIND}"'.encode()  # of every line


class Run(msgspec.Struct, frozen=True):
    """A run's results, and the key that identifies it."""

    kind: str
    key: str
    iterations: int
    time_s: float
    wire: WireRow
    accesses: int
    remote_transactions: int
    cpu_s: float
    max_error: float


def run_key(build: str, machine: Machine, workload: str, inputs: dict[str, Any], case: Case) -> str:
    """The hash of everything that a run's figures depend on.

    `build` is the hash of the compiled simulator. `inputs` has a data file's hash instead of its
    name. The machine's title and comments do not count.
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
    """The open file; only one process writes it at a time."""

    def __init__(self, path: Path, handle: int) -> None:
        self.path = path
        self._handle = handle
        self.runs: dict[str, Run] = {}

    def add(self, run: Run) -> None:
        """Append a run in one write, and flush it to the disk."""
        line = msgspec.json.encode(run) + b"\n"
        try:
            written = os.write(self._handle, line)
            os.fsync(self._handle)
        except OSError as error:
            raise _unwritable(self.path, error) from None
        if written != len(line):  # the next start removes the partial line
            raise UserError(f"{self.path} cannot be written: the disk is full")
        self.runs[run.key] = run

    def _read(self) -> None:
        with self.path.open("rb") as file:
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        for number, line in enumerate(whole.splitlines(), start=1):
            try:
                run = msgspec.json.decode(line, type=Run)
            except (msgspec.DecodeError, UnicodeDecodeError):
                run = None
            if run is None or run.kind != KIND:
                raise UserError(
                    f"{self.path}, line {number}: this is no run of a sweep; give another file "
                    "with --runs, or remove the line"
                )
            self.runs[run.key] = run
        if rest := data[len(whole) :]:  # a crash interrupted the last write
            if not BEGINNING.startswith(rest[: len(BEGINNING)]):
                raise UserError(
                    f"{self.path}: its last line is no run of a sweep; give another file with "
                    "--runs"
                )
            os.truncate(self._handle, len(whole))


@contextlib.contextmanager
def opened(path: Path) -> Iterator[SweepFile]:
    """Open a file of runs, or create it. Raises UserError if neither is possible."""
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
            except OSError as error:
                raise _unwritable(path, error) from None
            yield file
        finally:
            if new and not os.fstat(handle).st_size:
                path.unlink(missing_ok=True)
    finally:
        os.close(handle)


def _lock(path: Path, handle: int) -> None:
    """Raise UserError unless only this sweep uses the file and the file still has its name."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(handle), path.stat()):
            return
    except (BlockingIOError, FileNotFoundError):  # the other sweep removes a file without runs
        pass
    except OSError as error:
        raise _unwritable(path, error) from None
    raise UserError(
        f"{path} is in use by another sweep; wait for it, or give another file with --runs"
    )


def _unwritable(path: Path, error: OSError | ValueError) -> UserError:
    reason = getattr(error, "strerror", None) or error
    return UserError(f"{path} cannot be used for the runs: {reason}")
