"""Tests that the commands of a user take turns on the GPUs.

No command may wait for a command that has ended.
"""

import errno
import fcntl
import multiprocessing
import os
import signal
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest

from interlace.base import turns, user_folder
from interlace.base.turns import turn

SECONDS = 30
FORK = multiprocessing.get_context("fork")


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(user_folder, "RUNTIME", tmp_path / "run")
    monkeypatch.setattr(user_folder, "SHARED", tmp_path / "shared")
    monkeypatch.setattr(turns, "_told", False)
    tmp_path.chmod(0o700)


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
    monkeypatch.setattr(user_folder, "_places", lambda: iter([(tmp_path / "absent", False)]))
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
    assert [file.name for file in tmp_path.iterdir()] == [turns.LOCK]
    assert len(list(descriptors.iterdir())) == before
    with pytest.raises(OSError, match="of what is timed"), turn():
        raise OSError("of what is timed")


def test_who_waits_is_told_for_whom(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    may_end = FORK.Event()
    first = _started(may_end)
    monkeypatch.setattr(turns, "PATIENCE_S", 0.05)
    say = turns._say_who

    def said(descriptor: int) -> None:
        say(descriptor)
        may_end.set()

    monkeypatch.setattr(turns, "_say_who", said)
    with turn():
        pass
    first.join(SECONDS)
    assert capsys.readouterr().err == (
        f"interlace: process {first.pid} measures on the GPUs; waiting for it to end\n"
    )


def _place() -> Path:
    descriptor = turns._open_lock()
    try:
        return Path(f"/proc/self/fd/{descriptor}").readlink().parent
    finally:
        os.close(descriptor)


def test_the_lock_is_where_only_its_user_can_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _place() == tmp_path
    # quickstart and check set this variable, too.
    monkeypatch.setenv("TMPDIR", str(tmp_path / "other"))
    assert _place() == tmp_path
    tmp_path.chmod(0o755)
    ours = tmp_path / "shared" / f"interlace-{os.geteuid()}"
    assert _place() == ours
    assert ours.stat().st_mode & 0o777 == 0o700
    ours.chmod(0o770)
    home = tmp_path / "home" / ".cache" / "interlace"
    assert _place() == home
    (ours / turns.LOCK).unlink()
    ours.rmdir()
    ours.symlink_to(home)  # a link of another user could lead anywhere
    (home / turns.LOCK).unlink()
    assert _place() == home
    assert not (ours / turns.LOCK).is_symlink()
    runtime = tmp_path / "run" / str(os.geteuid())
    runtime.mkdir(parents=True, mode=0o700)
    assert _place() == runtime
    (runtime / turns.LOCK).unlink()
    (runtime / turns.LOCK).symlink_to(tmp_path / "victim")
    assert _place() == home
    assert not (tmp_path / "victim").exists()
