"""Ctrl-C, remembered.

Python raises KeyboardInterrupt wherever it happens to be. In a destructor or in the callback of a
weak reference it is dropped, and in an import it may come out as an ImportError; so that a Ctrl-C
counts in any case, the signal is noted as well.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_noted = False


def _note(number: int, frame: FrameType | None) -> None:
    global _noted
    _noted = True
    signal.default_int_handler(number, frame)


@contextmanager
def noted() -> Iterator[None]:
    """Notes Ctrl-C from here on; leaves it alone where somebody else answers or ignores it."""
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
    """Whether there was a Ctrl-C."""
    return _noted


def check() -> None:
    """Raises the KeyboardInterrupt that may have been dropped."""
    if _noted:
        raise KeyboardInterrupt
