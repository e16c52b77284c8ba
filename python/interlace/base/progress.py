"""How far a command is."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager


class Steps:
    """Counts the steps that are done; where there is no terminal, for nobody."""

    def __call__(self) -> None:
        """One more is done."""

    def expect(self, steps: int) -> None:
        """As many there will be in all, as far as is known now."""


@contextmanager
def progress(what: str, steps: int, unit: str = "runs") -> Iterator[Steps]:
    """A bar with the time left on standard error, if that is a terminal; calls advance it."""
    if not sys.stderr.isatty():
        yield Steps()
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
            def __call__(self) -> None:
                bar.advance(task)

            def expect(self, steps: int) -> None:
                bar.update(task, total=steps)

        yield Shown()
