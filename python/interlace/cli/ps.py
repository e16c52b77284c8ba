"""`interlace ps`: shows what this user's processes do, and what they wait for."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

from interlace.base.activities import ask_all, lines_of
from interlace.base.files import check_writable, show_and_write
from interlace.cli.shared_options import json_option


def ps_command(
    json_file: Annotated[Path | None, json_option("the answers as JSON")] = None,
) -> None:
    """Show what your processes on this computer do, and what they wait for.

    The list has commands of Interlace, programs under `interlace run`, and groups of regions. For
    each process, the list shows when its work began, how many steps are done, when the last step
    ended, and which process it waits for. Run the command in any terminal of the same user. A
    process that gets SIGQUIT (kill -QUIT, or Ctrl-backslash) prints its own part of the list and
    continues.
    """
    if json_file is not None:
        check_writable(json_file, "--json")
    answers = ask_all()
    texts = {}
    if json_file is not None:
        from interlace.model.results import json_text, provenance

        document = {"format": 1, **provenance(), "processes": answers}
        texts[json_file] = lambda: json_text(document)
    show_and_write(partial(_show, lines_of(answers)), texts)


def _show(lines: list[str]) -> None:
    for line in lines or ["None of your processes has anything to show."]:
        print(line)
