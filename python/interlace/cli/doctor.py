"""`interlace doctor`: says which features work on this machine.

A bug report begins with the output of this command.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from interlace.base.files import check_writable, show_and_write
from interlace.show.doctor import print_findings
from interlace.study.doctor import ask_all, broken, findings, to_json


def doctor_command(
    json_file: Annotated[
        Path | None,
        typer.Option("--json", metavar="FILE", help="Write the findings as JSON."),
    ] = None,
) -> None:
    """Say which features of Interlace work on this machine, and why the other features do not.

    The command needs no GPU, and ends after 15 seconds even if a driver hangs. The exit code is 1
    if a feature is broken. A feature is broken if it is installed but does not work. A feature that
    is not installed is missing, not broken.
    """
    if json_file is not None:
        check_writable(json_file, "--json")
    answers = ask_all()
    found = findings(answers)
    texts = {}
    if json_file is not None:
        from interlace.model.results import json_text, provenance

        texts[json_file] = lambda: json_text({**to_json(answers, found), **provenance()})
    show_and_write(partial(print_findings, found), texts)
    if broken(found):
        raise typer.Exit(1)
