"""How a command ends where a run fails, and what it says besides its results."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import typer

from interlace.model.run import RunFailure


@contextlib.contextmanager
def failure_ends() -> Iterator[None]:
    """A run that goes wrong ends the command: one sentence on standard error, exit code 1."""
    try:
        yield
    except RunFailure as failure:
        warn(str(failure))
        raise typer.Exit(1) from None


def warn(sentence: str) -> None:
    """Say something on standard error; where nobody can be told, the work goes on."""
    say(f"interlace: {sentence}")


def say(line: str) -> None:
    """Print a line to standard error, if it takes one."""
    with contextlib.suppress(OSError):
        typer.echo(line, err=True)
