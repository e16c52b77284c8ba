"""`interlace build-workload`: compiles the header of your own workload."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from interlace.base.errors import UserError
from interlace.runtime.workload_build import build_library


def build_workload_command(
    header: Annotated[
        Path | None,
        typer.Argument(
            metavar="NAME.hpp", help="The header. It must end with the struct NAME_problem."
        ),
    ] = None,
    to: Annotated[
        Path | None,
        typer.Option(
            "--to", metavar="FOLDER", help="Folder for the library.  [default: the header's folder]"
        ),
    ] = None,
) -> None:
    """Compile a workload of your own for the reference node and the simulated node.

    The command writes _NAME.so. Put this file next to the Python file of the workload. The command
    needs g++, or the compiler that the variable CXX names. For GPUs, build with cmake: the function
    interlace_add_workload() also makes the library for GPUs.
    """
    if header is None:
        raise UserError("build-workload needs a header: name the file NAME.hpp")
    folder = header.parent if to is None else to
    if not folder.is_dir():
        raise UserError(f"--to {folder}: there is no such folder")
    typer.echo(f"wrote {build_library(header, folder)}")
