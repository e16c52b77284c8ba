"""Turns on the GPUs: commands of one user wait for each other, and for nobody that is gone."""

import errno
import fcntl
import multiprocessing
import os
import signal
import tempfile
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest

from interlace.base.turns import turn

SECONDS = 30
FORK = multiprocessing.get_context("fork")


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def _hold(has_it: Event, may_end: Event) -> None:
    with turn():
        has_it.set()
        may_end.wait(SECONDS)


def _started(may_end: Event) -> "multiprocessing.process.BaseProcess":
    has_it = FORK.Event()
    process = FORK.Process(target=_hold, args=(has_it, may_end))
    process.start()
    assert has_it.wait(SECONDS)
    return process


def test_a_second_process_waits_for_the_first() -> None:
    first_may_end, second_may_end = FORK.Event(), FORK.Event()
    first = _started(first_may_end)
    second_has_it = FORK.Event()
    second = FORK.Process(target=_hold, args=(second_has_it, second_may_end))
    second.start()
    assert not second_has_it.wait(0.2)
    first_may_end.set()
    assert second_has_it.wait(SECONDS)
    second_may_end.set()
    first.join(SECONDS)
    second.join(SECONDS)
    assert (first.exitcode, second.exitcode) == (0, 0)


def test_a_process_that_died_holds_nobody_up() -> None:
    process = _started(FORK.Event())
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join(SECONDS)
    with turn():
        pass


def test_without_a_place_for_the_lock_nobody_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "absent"))
    entered = []
    with turn():
        entered.append(1)
        with turn():
            entered.append(2)
            assert list(tmp_path.iterdir()) == []
    assert entered == [1, 2]


def test_where_files_cannot_be_locked_nobody_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(*_: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", no_locks)
    descriptors = Path("/proc/self/fd")
    before = len(list(descriptors.iterdir()))
    entered = []
    with turn():
        entered.append(1)
        with turn():
            entered.append(2)
    assert entered == [1, 2]
    assert [file.name for file in tmp_path.iterdir()] == [f"interlace-gpus-{os.getuid()}.lock"]
    assert len(list(descriptors.iterdir())) == before
    with pytest.raises(OSError, match="of what is timed"), turn():
        raise OSError("of what is timed")
