"""Shows the progress of a command."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from interlace.base.activities import Activity, shown

FIRST_LINE_S = 30.0  # seconds until the first line, if standard error is not a terminal
LINES_S = 30.0


class Steps:
    """Counts finished steps, and shows them."""

    def __init__(self, activity: Activity, show: Callable[[], None]) -> None:
        self._activity, self._show = activity, show

    def __call__(self) -> None:
        """Count one more finished step."""
        self._activity.step()
        self._show()

    def expect(self, steps: int) -> None:
        """Set the expected total number of steps."""
        self._activity.steps = steps


def say(line: str) -> None:
    """Print a line to standard error. Do nothing if standard error is closed."""
    with contextlib.suppress(OSError):
        print(line, file=sys.stderr, flush=True)


@contextmanager
def progress(what: str, steps: int, unit: str = "runs") -> Iterator[Steps]:
    """Show a bar with the remaining time on standard error.

    If standard error is not a terminal, print lines instead of a bar. `interlace ps` also shows the
    progress. The caller must call the yielded function once for each finished step.
    """
    activity = Activity(what, steps=steps, unit=unit)
    with shown(lambda: activity), _printed(activity) as show:
        yield Steps(activity, show)


@contextmanager
def _printed(activity: Activity) -> Iterator[Callable[[], None]]:
    """Yield the function that prints the progress after a step."""
    if not sys.stderr.isatty():
        yield _Lines(activity)
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
        TextColumn(f"{activity.unit},"),
        TimeElapsedColumn(),
        TextColumn("gone,"),
        TimeRemainingColumn(),
        TextColumn("left"),
        console=Console(stderr=True),
        transient=True,
        speed_estimate_period=3600,
    )
    with bar:
        task = bar.add_task(activity.what, total=activity.steps)
        yield lambda: bar.update(task, completed=activity.done, total=activity.steps)


class _Lines:
    """Prints a line of progress from time to time while long work runs."""

    def __init__(self, activity: Activity) -> None:
        self._activity = activity
        self._begun = time.monotonic()
        self._next = FIRST_LINE_S

    def __call__(self) -> None:
        gone = time.monotonic() - self._begun
        done, steps = self._activity.done, self._activity.steps
        if gone < self._next or done >= steps:
            return
        self._next = gone + LINES_S
        left = gone / done * (steps - done)
        say(
            f"{self._activity.what}: {done} of {steps} {self._activity.unit}, {gone:.0f} s gone, "
            f"about {left:.0f} s left"
        )
