"""`interlace cost`: prints how much storage in a GPU the simulated hardware would need."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from interlace.base.errors import UserError
from interlace.base.files import check_writable, show_and_write
from interlace.cli.shared_options import json_option
from interlace.machine.reading import load_machine
from interlace.model.options import whole
from interlace.model.results import json_text
from interlace.show.cost import print_cost
from interlace.study.cost import cost_of


def cost_command(
    machine: Annotated[
        str | None, typer.Argument(metavar="MACHINE", help="A described machine: its name or file.")
    ] = None,
    gpus: Annotated[
        str | None,
        typer.Option(
            "--gpus",
            "-g",
            metavar="N",
            help="Number of GPUs that exchange data.  [default: all]",
        ),
    ] = None,
    json_file: Annotated[
        Path | None,
        json_option("the output as JSON"),
    ] = None,
) -> None:
    """Print how much storage in a GPU the queues of the simulated mechanisms need.

    The table compares this storage with the GPU's caches.
    """
    if machine is None:
        raise UserError("cost needs a machine; give the name of a shipped machine, or a .toml file")
    asked = whole("--gpus", gpus, 2)
    if json_file is not None:
        check_writable(json_file, "--json")
    described = load_machine(machine)
    cost = cost_of(described, described.gpu.count if asked is None else asked)
    texts = {} if json_file is None else {json_file: lambda: json_text(cost)}
    show_and_write(lambda: print_cost(cost), texts)
