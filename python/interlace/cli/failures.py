"""Ends a command after a failed run, and prints a command's notes to standard error."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import typer

from interlace.base.printable import printable
from interlace.model.run import RunFailure


@contextlib.contextmanager
def failure_ends() -> Iterator[None]:
    """If a run fails, end the command with one sentence on standard error and exit code 1."""
    try:
        yield
    except RunFailure as failure:
        warn(str(failure))
        raise typer.Exit(1) from None


def warn(sentence: str) -> None:
    """Print a sentence to standard error. The work continues even if nothing can be printed."""
    say(f"interlace: {sentence}")


def say(line: str) -> None:
    """Print a line to standard error. Do nothing if standard error cannot be written."""
    with contextlib.suppress(OSError):
        typer.echo(printable(line), err=True)
