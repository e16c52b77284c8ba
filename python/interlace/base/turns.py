"""Lets commands take turns on this computer's GPUs, so that they do not disturb each other's
timing.

The lock is a file in the first folder that only this user may enter (user_folder.py).
"""

from __future__ import annotations

import fcntl
import os
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

from interlace.base import activities
from interlace.base.user_folder import is_own, own_folders

LOCK = "interlace-gpus.lock"
# After this many seconds of waiting, a message names the command that has the turn.
PATIENCE_S = 1.0
_told = False


@contextmanager
def turn() -> Iterator[None]:
    """Wait until no other command of this user measures on the GPUs, and take the turn.

    If a process dies while it has the turn, the operating system releases the turn. If the lock
    cannot be made, the function does not wait.
    """
    with ExitStack() as held:
        with suppress(OSError):
            descriptor = _open_lock()
            held.callback(os.close, descriptor)
            _acquire(descriptor)
        yield


def _open_lock() -> int:
    """Open the file of the lock, in the first folder that belongs to this user alone.

    Raise OSError if the file cannot be opened.
    """
    for folder in own_folders():
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        with suppress(OSError):
            descriptor = os.open(LOCK, flags, 0o600, dir_fd=folder)
            if is_own(os.fstat(descriptor)):
                return descriptor
            os.close(descriptor)
    raise FileNotFoundError


def _acquire(descriptor: int) -> None:
    """Take the lock, and write the number of this process into the lock's file.

    A process that waits for the lock reads the number.
    """
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
                with activities.waiting_for(_who(descriptor)):
                    fcntl.flock(descriptor, fcntl.LOCK_EX)
                break
            time.sleep(0.02)
    with suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)


def _who(descriptor: int) -> str:
    number = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip()
    return f"process {number}" if number.isdecimal() else "another command of yours"


def _say_who(descriptor: int) -> None:
    with suppress(OSError, AttributeError):
        print(
            f"interlace: {_who(descriptor)} measures on the GPUs; waiting for it to end",
            file=sys.stderr,
            flush=True,
        )
