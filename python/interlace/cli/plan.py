"""`interlace plan`: explains over which paths of a machine messages would go."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from interlace.base.errors import UserError
from interlace.base.files import check_writable, show_and_write
from interlace.cli.shared_options import json_option
from interlace.machine.reading import load_machine
from interlace.model import options
from interlace.model.results import json_text
from interlace.show.plan import print_plan
from interlace.study.plan import check_asked, make, messages_of, simulate, to_json
from interlace.study.topo import discover

MOST_CHUNKS = 1024


def plan_command(
    source: Annotated[
        str | None, typer.Argument(metavar="[SRC]", help="gpu0, gpu1, ... or host.")
    ] = None,
    destination: Annotated[
        str | None, typer.Argument(metavar="[DST]", help="gpu0, gpu1, ... or host.")
    ] = None,
    size: Annotated[
        str | None, typer.Argument(metavar="[SIZE]", help="Bytes, such as 4096, 64K or 256M.")
    ] = None,
    message: Annotated[
        list[str] | None,
        typer.Option("--message", metavar="SRC:DST:SIZE", help="Another message; repeatable."),
    ] = None,
    ring: Annotated[
        str | None,
        typer.Option("--ring", metavar="SIZE", help="Plan a message from each GPU to the next."),
    ] = None,
    all_to_all: Annotated[
        str | None,
        typer.Option(
            "--all-to-all", metavar="SIZE", help="Plan a message from each GPU to every other GPU."
        ),
    ] = None,
    machine: Annotated[
        str | None,
        typer.Option(
            "--machine",
            metavar="NAME",
            help="A described machine, by name or file.  [default: this machine]",
        ),
    ] = None,
    paths: Annotated[
        str | None,
        typer.Option(
            "--paths",
            metavar="LIST",
            help="The paths that messages may take, such as direct,gpu2,host.",
        ),
    ] = None,
    chunks: Annotated[
        str | None,
        typer.Option(
            "--chunks", metavar="N", help="Chunks per staged path.  [default: the fastest number]"
        ),
    ] = None,
    dealing: Annotated[
        str,
        typer.Option(
            "--dealing",
            metavar="HOW",
            help="How the chunks are distributed over the paths. by-share: each path carries one "
            "contiguous part. round-robin: the paths take turns.",
        ),
    ] = "by-share",
    staging: Annotated[
        str | None,
        typer.Option(
            "--staging",
            metavar="SIZE",
            help="Upper limit on the staging memory for one message.  [default: 64M]",
        ),
    ] = None,
    traffic: Annotated[
        list[str] | None,
        typer.Option(
            "--traffic",
            metavar="STOPS",
            help="Another transfer that is in flight, such as gpu1:host:gpu0; repeatable.",
        ),
    ] = None,
    simulated: Annotated[
        bool,
        typer.Option(
            "--simulate", help="Also simulate the plan, once with streams and once with graphs."
        ),
    ] = False,
    json_file: Annotated[
        Path | None,
        json_option("the plan as JSON"),
    ] = None,
) -> None:
    """Plan messages over all paths that help, and print why each path is used or unused."""
    if json_file is not None:
        check_writable(json_file, "--json")
    count = options.whole("--chunks", chunks, 1) or 0
    if count > MOST_CHUNKS:
        raise UserError(f"--chunks {count}: give a number of at most {MOST_CHUNKS}")
    single = (source, destination, size)
    check_asked(single, message or (), ring, all_to_all)
    staging_bytes = None if staging is None else options.byte_count("--staging", staging)
    described = (
        discover("interlace plan gpu0 gpu1 256M --machine").machine
        if machine is None
        else load_machine(machine)
    )
    messages = messages_of(described, single, message or (), ring, all_to_all)
    planned = make(
        described,
        messages,
        paths=paths,
        chunks=count,
        dealing=dealing,
        staging_bytes=staging_bytes,
        traffic=traffic or (),
    )
    if simulated:
        planned = simulate(planned)
    texts = {} if json_file is None else {json_file: lambda: json_text(to_json(planned))}
    show_and_write(lambda: print_plan(planned), texts)
