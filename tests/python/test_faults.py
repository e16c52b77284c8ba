"""Tests what happens if an operation on disk, memory or threads fails, or if the command is killed
at that operation.

The command must print one sentence or give its whole result. It must leave nothing incomplete or
open, and the same command must work afterwards. A preloaded library (tests/faults/faults.cpp) makes
operation number n fail. For each n, this process loads all modules and then forks a child.

`./check` tests a sample of the operations. With INTERLACE_TEST_FAULTS=all, it tests all operations.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import random
import re
import shutil
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from fault_commands import COMMANDS, call, forked, prepare, run_child
from interlace.base import activities

KINDS = ("write", "read", "open", "sync", "name", "size", "map", "thread", "memory")
ONCE, FROM_THEN_ON, KILLED = range(3)
# nanobind converts the arguments of a call in functions that may not throw. If an allocation fails
# in such a function, nanobind ends the process. The first CONVERSIONS allocations of a call are
# those of nanobind, so the test never makes them fail.
CONVERSIONS = 2
# Unless INTERLACE_TEST_FAULTS is `all`, the test lets only this number of operations fail for each
# command and kind of operation, in only one of the modes above. The mode depends on the command.
SAMPLE = 1
ALL = os.environ.get("INTERLACE_TEST_FAULTS") == "all"
SEED = 1

pytest.importorskip("interlace._core")
CHILD = "--child"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_operation_may_fail(command: str, faults_library: Path, tmp_path: Path) -> None:
    printed = run_child(__file__, [CHILD, command], faults_library, tmp_path)
    points = int(re.findall(r"^(\d+) faults", printed, re.MULTILINE)[-1])
    print(f"{command}: {points} faults")
    assert points > 0


# --- in a process with the library ----------------------------------------------------------------


class Faults:
    """Controls the preloaded library."""

    def __init__(self, path: str) -> None:
        self._library = ctypes.CDLL(path)
        self._library.faults_arm.argtypes = [ctypes.c_uint] * 2 + [ctypes.c_uint64] * 3
        self._library.faults_seen.restype = ctypes.c_uint64
        found = [
            tuple(int(end, 16) for end in line.split()[0].split("-"))
            for line in Path("/proc/self/maps").read_text().splitlines()
            if "/_core." in line
        ]
        self._module = min(found)[0], max(found)[1]

    def arm(self, kind: str, how: int = ONCE, at: int = 0) -> None:
        self._library.faults_arm(1 << KINDS.index(kind), how, at, *self._module)

    def disarm(self) -> None:
        self._library.faults_disarm()

    def seen(self) -> int:
        return int(self._library.faults_seen())


def _descriptors() -> dict[str, str]:
    gc.collect()
    found = {}
    for link in Path("/proc/self/fd").iterdir():
        # `iterdir` itself had a descriptor of this folder, which is closed by now. Its link no
        # longer exists.
        with contextlib.suppress(FileNotFoundError):
            found[link.name] = str(link.readlink())
    return found


def _work(faults: Faults, command: str, kind: str, how: int, at: int) -> int:
    with activities.waiting_for("nobody"):  # this starts a thread that lives as long as the process
        before = _descriptors(), threading.active_count()
    faults.arm(kind, how, at)
    code = call(command)
    faults.disarm()
    after = _descriptors(), threading.active_count()
    assert after == before, f"descriptors and threads were {before} and are {after}"
    return code


def _whole(folder: Path, name: str) -> bool:
    """Return whether a results file is complete."""
    from interlace.base.native import load_core
    from interlace.runtime import loading

    file = folder / name
    if name.endswith(".json"):
        return isinstance(json.loads(file.read_text()), dict)
    if name.endswith(".safetensors"):
        return len(loading.load(file, framework="numpy", verify=True)) == 2
    if name.endswith(".trace"):
        return bool(load_core().trace_statistics(str(file), lambda _: None)["gpus"])
    if name.endswith(".html"):
        return file.read_text().rstrip().endswith("</html>")
    return file.stat().st_size > 0


def _check(command: str, where: str, code: int, said: str, how: int, inputs: set[str]) -> None:
    here = Path()
    names = {path.name for path in here.iterdir()} - inputs
    if how == KILLED and code == -signal.SIGKILL:
        names = {name for name in names if not name.endswith(".interlace-part")}
    else:
        assert "Traceback" not in said, f"{where}: {said}"
        assert code in (0, 1, 2), f"{where}: exit code {code}: {said}"
        lines = [line for line in said.splitlines() if line.startswith("interlace: ")]
        assert code == 0 or lines, f"{where}: exit code {code} without a sentence: {said!r}"
    allowed = {
        "out.json",
        "out.html",
        "out.csv",
        "out.trace",
        "out.safetensors",
        "sweep.runs.jsonl",
    }
    assert names <= allowed, f"{where}: {sorted(names - allowed)} are left"
    for name in names - {"sweep.runs.jsonl"}:
        assert _whole(here, name), f"{where}: {name} is half a file"
    if code == 0 and command not in ("load",):
        assert names, f"{where}: no result"
    again, said = forked(lambda: call(command))
    assert again == 0, f"{where}: afterwards: {said}"
    left = {path.name for path in here.iterdir()} - inputs - allowed
    assert not left, f"{where}: afterwards {sorted(left)} are left"


def _modes(command: str, kind: str) -> tuple[int, ...]:
    every = (ONCE,) if kind == "memory" else (ONCE, FROM_THEN_ON, KILLED)
    turn = list(COMMANDS).index(command) + KINDS.index(kind)
    return every if ALL else (every[turn % len(every)],)


def _points(command: str, kind: str, how: int, count: int) -> Iterator[int]:
    every = range(1 + CONVERSIONS if kind == "memory" else 1, count + 1)
    generator = random.Random(f"{SEED} {command} {kind} {how}")
    yield from every if ALL else sorted(generator.sample(every, min(len(every), SAMPLE)))


def _main(command: str, path: str) -> None:
    inputs = prepare(command)

    def clean() -> None:
        for left in Path("../tmp").iterdir():  # files that a killed command left
            shutil.rmtree(left)
        for file in Path().iterdir():
            if file.name not in inputs:
                file.unlink()

    assert call(command) == 0  # this call loads all modules and starts the threads of the process
    faults = Faults(path)
    tried = 0
    for kind in KINDS:
        if kind == "memory" and command not in ("save", "load"):
            continue  # these commands call the compiled module more than once
        clean()

        def count(kind: str = kind) -> int:
            faults.arm(kind)
            code = call(command)
            faults.disarm()
            return code

        code, said = forked(count)
        assert code == 0, said
        seen = faults.seen()
        for how in _modes(command, kind):
            for at in _points(command, kind, how, seen):
                clean()
                where = f"{command}, {kind} {at}, {('once', 'from then on', 'killed')[how]}"
                code, said = forked(lambda: _work(faults, command, kind, how, at))  # noqa: B023
                _check(command, where, code, said, how, inputs)
                assert not list(Path("../tmp").iterdir()) or how == KILLED, where
                tried += 1
    print(f"{tried} faults", flush=True)


if __name__ == "__main__" and sys.argv[1:2] == [CHILD]:
    _main(sys.argv[2], sys.argv[3])
