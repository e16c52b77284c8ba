"""Turns on the GPUs of this computer: what is timed by one command does not disturb another's."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def turn() -> Iterator[None]:
    """Wait until no other command of this user times anything on the GPUs, and be the one.

    The kernel gives the turn back when a process dies. Where no lock can be had nobody waits.
    """
    import fcntl  # not where Python runs without POSIX

    file = Path(tempfile.gettempdir()) / f"interlace-gpus-{os.getuid()}.lock"
    try:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError:
        yield
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
