"""`interlace topo`: draws, measures and saves a described machine or this computer."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from interlace.base.errors import UserError
from interlace.base.files import STDOUT, check_outputs, show_and_write
from interlace.cli.shared_options import json_option
from interlace.machine.writing import machine_text
from interlace.model.results import json_text
from interlace.show.topo import draw
from interlace.study.topo import cpp_header, describe, discover, measure_links, to_json


def topo_command(
    machine: Annotated[
        str | None,
        typer.Argument(help="A described machine, by name or file.  [default: this machine]"),
    ] = None,
    measure: Annotated[
        bool,
        typer.Option("--measure", help="Measure how fast the links of this machine are."),
    ] = False,
    save: Annotated[
        Path | None, typer.Option("--save", metavar="FILE", help="Write the description as TOML.")
    ] = None,
    header: Annotated[
        Path | None,
        typer.Option(
            "--header",
            metavar="FILE.hpp",
            help=(
                "Write a C++ header with a function that returns the machine. The function has the "
                "name of the header without .hpp."
            ),
        ),
    ] = None,
    json_file: Annotated[
        Path | None,
        json_option("the output as JSON"),
    ] = None,
) -> None:
    """Draw a described machine. Without a name, discover and draw this computer."""
    if measure and machine is not None:
        raise UserError("--measure measures this computer; leave out the machine's name")
    if header is not None and not re.fullmatch(r"[a-z_]\w*\.hpp", header.name, re.ASCII):
        raise UserError(
            f"--header {header}: the file's name also names a C++ function; give NAME.hpp with a "
            "NAME of lower-case letters, digits and _"
        )
    check_outputs({"--save": save, "--header": header, "--json": json_file})
    described = None if machine is None else Path(machine)
    # --save may name the file from which the machine was read
    check_outputs({"--header": header, "--json": json_file}, {"MACHINE": described})
    topology = discover() if machine is None else describe(machine)
    measured = measure_links() if measure else None
    texts: dict[Path, Callable[[], str]] = {}
    if save is not None:
        texts[save] = lambda: topology.text or machine_text(topology.machine)
    if header is not None:
        made_by = f"topo {machine or ''}".rstrip() + f" --header {header.name}"
        texts[header] = lambda: cpp_header(topology.machine, header.stem, made_by)
    if json_file is not None:
        texts[json_file] = lambda: json_text(to_json(topology, measured))
    show_and_write(lambda: draw(topology, measured, Console(highlight=False)), texts)
    for path in texts:
        if path != STDOUT:
            typer.echo(f"wrote {path}", err=STDOUT in texts)
