"""Turns on the GPUs of this computer, so that commands do not disturb each other's timing.

The lock is in a folder that only its user may enter and that does not depend on TMPDIR. This is
the first of these that belongs to the user: XDG_RUNTIME_DIR, /run/user/UID, /tmp/interlace-UID or
~/.cache/interlace.
"""

from __future__ import annotations

import fcntl
import os
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

LOCK = "interlace-gpus.lock"
RUNTIME = Path("/run/user")
SHARED = Path("/tmp")
PATIENCE_S = 1.0  # time until a message names the command for which this one waits
_told = False


@contextmanager
def turn() -> Iterator[None]:
    """Wait until no other command of this user measures on the GPUs, and take the turn.

    The kernel gives the turn back when a process dies. If no lock can be made, the function does
    not wait.
    """
    with ExitStack() as held:
        with suppress(OSError):
            descriptor = _open_lock()
            held.callback(os.close, descriptor)
            _acquire(descriptor)
        yield


def _open_lock() -> int:
    """The lock's file, in the first folder that belongs to this user alone. Raises OSError."""
    for place, ours in _places():
        with suppress(OSError), ExitStack() as opened:
            if ours:
                place.mkdir(mode=0o700, parents=True, exist_ok=True)
            # Another user can put a link where only our folder may be.
            flags = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC | (os.O_NOFOLLOW if ours else 0)
            folder = os.open(place, flags)
            opened.callback(os.close, folder)
            if not _is_own(os.fstat(folder)):
                continue
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            descriptor = os.open(LOCK, flags, 0o600, dir_fd=folder)
            if _is_own(os.fstat(descriptor)):
                return descriptor
            os.close(descriptor)
    raise FileNotFoundError


def _places() -> Iterator[tuple[Path, bool]]:
    """Yield the folders that may hold the lock, each with whether this program makes it."""
    user = os.geteuid()
    stated = os.environ.get("XDG_RUNTIME_DIR", "")
    if stated.startswith("/"):
        yield Path(stated), False
    yield RUNTIME / str(user), False
    yield SHARED / f"interlace-{user}", True
    with suppress(RuntimeError):  # the system does not know this user's home
        yield Path.home() / ".cache" / "interlace", True


def _is_own(status: os.stat_result) -> bool:
    return status.st_uid == os.geteuid() and not stat.S_IMODE(status.st_mode) & 0o077


def _acquire(descriptor: int) -> None:
    """Take the lock, and write the process's number into its file for processes that wait."""
    global _told
    end = time.monotonic() + PATIENCE_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if time.monotonic() >= end:
                if not _told:
                    _told = True
                    _say_who(descriptor)
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                break
            time.sleep(0.02)
    with suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)


def _say_who(descriptor: int) -> None:
    number = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip()
    who = f"process {number}" if number.isdecimal() else "another command of yours"
    with suppress(OSError, AttributeError):
        print(
            f"interlace: {who} measures on the GPUs; waiting for it to end",
            file=sys.stderr,
            flush=True,
        )
