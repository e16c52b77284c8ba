"""The entry point: Ctrl-C ends it in one line even while modules are loaded."""

from __future__ import annotations

import os
import signal
from types import FrameType

from interlace.base.interrupts import INTERRUPTED


def _end(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
    os.write(2, b"interlace: interrupted\n")
    os._exit(INTERRUPTED)


def main() -> None:
    """Load the command line, and run it."""
    early = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if early:
        signal.signal(signal.SIGINT, _end)
    from interlace.cli.main import main as command_line

    if early:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        command_line()
    except KeyboardInterrupt:  # before the command line answers Ctrl-C itself, or after
        _end(signal.SIGINT, None)
