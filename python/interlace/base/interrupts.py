"""Remembers Ctrl-C.

Python can raise KeyboardInterrupt at any point of the program. If this point is in a destructor or
in the callback of a weak reference, Python drops the exception. An import can replace the exception
by an ImportError. This module therefore also records the signal, so that no Ctrl-C gets lost.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

INTERRUPTED = 130  # the exit code after Ctrl-C: 128 + SIGINT

_noted = False


def _note(number: int, frame: FrameType | None) -> None:
    global _noted
    _noted = True
    signal.default_int_handler(number, frame)


@contextmanager
def noted() -> Iterator[None]:
    """Record each Ctrl-C while the block runs, unless the program handles or ignores SIGINT."""
    global _noted
    _noted = False
    ours = (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )
    if not ours:
        yield
        return
    reported = sys.unraisablehook

    def report(dropped: sys.UnraisableHookArgs) -> None:
        if not issubclass(dropped.exc_type, KeyboardInterrupt):
            reported(dropped)

    sys.unraisablehook = report
    signal.signal(signal.SIGINT, _note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.unraisablehook = reported


def seen() -> bool:
    """Return whether Ctrl-C was pressed."""
    return _noted


def check() -> None:
    """Raise KeyboardInterrupt if Ctrl-C was pressed. Python may have dropped the exception that it
    raised.
    """
    if _noted:
        raise KeyboardInterrupt
