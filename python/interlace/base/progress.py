"""The progress of a command."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

FIRST_LINE_S = 30.0  # if there is no terminal
LINES_S = 30.0


class Steps:
    """Counts finished steps. Long work prints a line from time to time."""

    def __init__(self, what: str, steps: int, unit: str) -> None:
        self._what, self._steps, self._unit = what, steps, unit
        self._done = 0
        self._begun = time.monotonic()
        self._next = FIRST_LINE_S

    def __call__(self) -> None:
        """Count one more finished step."""
        self._done += 1
        gone = time.monotonic() - self._begun
        if gone < self._next or self._done >= self._steps:
            return
        self._next = gone + LINES_S
        left = gone / self._done * (self._steps - self._done)
        say(
            f"{self._what}: {self._done} of {self._steps} {self._unit}, {gone:.0f} s gone, about "
            f"{left:.0f} s left"
        )

    def expect(self, steps: int) -> None:
        """Set the expected total number of steps."""
        self._steps = steps


def say(line: str) -> None:
    """Print a line to standard error. Fails silently if standard error is closed."""
    with contextlib.suppress(OSError):
        print(line, file=sys.stderr, flush=True)


@contextmanager
def progress(what: str, steps: int, unit: str = "runs") -> Iterator[Steps]:
    """Show a bar with the time left on standard error, or lines if that is not a terminal.

    The caller must call the yielded function once for each finished step.
    """
    if not sys.stderr.isatty():
        yield Steps(what, steps, unit)
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TextColumn(f"{unit},"),
        TimeElapsedColumn(),
        TextColumn("gone,"),
        TimeRemainingColumn(),
        TextColumn("left"),
        console=Console(stderr=True),
        transient=True,
        speed_estimate_period=3600,
    )
    with bar:
        task = bar.add_task(what, total=steps)

        class Shown(Steps):
            def __init__(self) -> None:
                pass

            def __call__(self) -> None:
                bar.advance(task)

            def expect(self, steps: int) -> None:
                bar.update(task, total=steps)

        yield Shown()
