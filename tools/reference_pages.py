#!/usr/bin/env python3
"""Prints the reference of the command line or of the environment variables, in Markdown.

    .venv/bin/python tools/reference_pages.py command-line|environment

The program itself has the texts of both references. docs/conf.py puts them on their pages when the
site is built. They are not in any file of the repository.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

import typer

from interlace.base.native import load_core
from interlace.cli import main as cli
from interlace.runtime.environment import INTERNAL, variables


def _cell(text: str) -> str:
    """Return a text as a cell of a table. Options and variables are formatted as code."""
    text = " ".join(text.split())
    text = re.sub(r"([\\|<>*\[\]])", r"\\\1", text).replace("`", "")
    code = r"(?<![\w`/-])(--?[a-z][\w-]*|[A-Z]+(?:_[A-Z]+)+\b|\w[\w./-]*\.(?:toml|json|md))"
    return re.sub(code, r"`\1`", text)


def commands() -> Iterator[tuple[str, Any]]:
    """Yield each command that has no subcommands, with its words and its parser."""
    words = [(name,) for name in cli.commands()] + list(cli.VARIANTS)
    for name, *rest in sorted(words):
        variant = rest[0] if rest else None
        app: Any = typer.main.get_command(cli._app(name, variant))
        found = app.commands[name]
        below = getattr(found, "commands", None)
        for last, command in below.items() if below else [("", found)]:
            yield " ".join(["interlace", name, last]).strip(), command


def _rows(context: Any, kind: str) -> list[str]:
    rows = []
    for parameter in context.command.get_params(context):
        if parameter.param_type_name != kind:
            continue
        record = parameter.get_help_record(context)
        if record is not None:
            name = re.sub(r" <(str|list\[str\])>", "", record[0]).replace("|", "\\|")
            rows.append(f"| `{name}` | {_cell(record[1] or '')} |")
    return rows


def command_section(words: str, command: Any) -> list[str]:
    """Return the lines about a command: what it does, its usage, its arguments and options."""
    context = command.context_class(command, info_name=words)
    usage = " ".join([words, *command.collect_usage_pieces(context)])
    text = re.sub(r"^ +", "", command.help or "", flags=re.MULTILINE).strip()
    lines = [f"## `{words}`", "", *text.splitlines(), "", "```text", usage, "```", ""]
    for kind, title in (("argument", "argument"), ("option", "option")):
        if rows := _rows(context, kind):
            lines += [f"| {title} | meaning |", "|---|---|", *rows, ""]
    return lines


def command_line() -> str:
    """Return the lines about every command, with its arguments and options."""
    lines: list[str] = []
    for words, command in commands():
        lines += command_section(words, command)
    return "\n".join(lines)


def environment() -> str:
    """Return the lines about every environment variable that users may set."""
    known = variables(load_core())
    lines = ["| variable | used by | default | meaning |", "|---|---|---|---|"]
    for name, variable in known.items():
        default = "-" if variable.default is None else f"`{variable.default}`"
        cells = f"`{name}`", variable.used_by, default, _cell(variable.meaning)
        lines.append(f"| {' | '.join(cells)} |")
    lines.append("")
    names = ", ".join(f"`{name}`" for name in INTERNAL)
    lines += [f"Interlace sets {names} itself, for its preload library."]
    return "\n".join(lines)


PAGES: dict[str, Callable[[], str]] = {"command-line": command_line, "environment": environment}


def main() -> int:
    """Print the generated part of a page."""
    if len(sys.argv) != 2 or sys.argv[1] not in PAGES:
        print(__doc__, file=sys.stderr)
        return 2
    print(PAGES[sys.argv[1]]())
    return 0


if __name__ == "__main__":
    sys.exit(main())
