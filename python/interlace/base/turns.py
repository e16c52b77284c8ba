"""Turns on the GPUs of this computer: what is timed by one command does not disturb another's."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path


@contextmanager
def turn() -> Iterator[None]:
    """Wait until no other command of this user times anything on the GPUs, and be the one.

    The kernel gives the turn back when a process dies. Where no lock can be had nobody waits.
    """
    with ExitStack() as held:
        with suppress(OSError):
            file = Path(tempfile.gettempdir()) / f"interlace-gpus-{os.getuid()}.lock"
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            descriptor = os.open(file, flags, 0o600)
            held.callback(os.close, descriptor)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
