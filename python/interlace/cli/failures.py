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
        typer.echo(f"interlace: {failure}", err=True)
        raise typer.Exit(1) from None


def warn(sentence: str) -> None:
    """Say something on standard error."""
    typer.echo(f"interlace: {sentence}", err=True)
