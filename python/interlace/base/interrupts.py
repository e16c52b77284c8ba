"""Remembers Ctrl-C.

Python raises KeyboardInterrupt at any point of the program. A destructor or the callback of a weak
reference drops the exception, and an import may turn it into an ImportError. This module therefore
also records the signal, so that no Ctrl-C gets lost.
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
    """Record Ctrl-C from now on, unless another handler handles or ignores it."""
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
    """Raise KeyboardInterrupt if Python may have dropped an earlier KeyboardInterrupt."""
    if _noted:
        raise KeyboardInterrupt
