"""`interlace config`: lists environment variables, and the flags that C programs need."""

from __future__ import annotations

import os
from functools import partial
from typing import Annotated

import typer

from interlace.base.errors import UserError
from interlace.base.files import check_writable, show_and_write
from interlace.base.native import load_core
from interlace.cli.failures import warn
from interlace.cli.shared_options import ResultsFile
from interlace.model.results import json_text, provenance
from interlace.runtime.environment import (
    FORMAT,
    Settings,
    cmake_prefix,
    compiler_words,
    settings_of,
    unknown_names,
    variables,
)
from interlace.show.environment import print_variables


def config_command(
    json_file: ResultsFile = None,
    cflags: Annotated[
        bool, typer.Option("--cflags", help="Print the compiler flags for Interlace's headers.")
    ] = False,
    libs: Annotated[
        bool, typer.Option("--libs", help="Print the linker flags for libinterlace.so.")
    ] = False,
    kernel_libs: Annotated[
        bool,
        typer.Option(
            "--kernel-libs", help="Print the linker flags for programs with kernels of your own."
        ),
    ] = False,
    cuda_libs: Annotated[
        bool,
        typer.Option(
            "--cuda-libs", help="Print the nvcc flags for programs with kernels of your own."
        ),
    ] = False,
    prefix: Annotated[
        bool, typer.Option("--prefix", help="Print the folder for CMAKE_PREFIX_PATH.")
    ] = False,
) -> None:
    """List all environment variables with their values, defaults and meanings.

    An invalid value ends the command with exit code 2. A variable with an unknown name causes a
    warning.
    """
    if cflags or libs or kernel_libs or cuda_libs or prefix:
        if json_file is not None:
            raise UserError("--json writes the list of variables; leave it out here")
        if prefix and (cflags or libs or kernel_libs or cuda_libs):
            raise UserError("--prefix prints a folder for cmake; give it without other options")
        typer.echo(
            cmake_prefix()
            if prefix
            else compiler_words(flags=cflags, libraries=libs, kernels=kernel_libs, gpus=cuda_libs)
        )
        return
    if json_file is not None:
        check_writable(json_file, "--json")
    known = variables(load_core())
    for sentence in unknown_names(known, os.environ):
        warn(sentence)
    found = settings_of(known, os.environ)
    made = Settings(format=FORMAT, **provenance(), variables=found)
    texts = {} if json_file is None else {json_file: partial(json_text, made)}
    show_and_write(partial(print_variables, found), texts)
