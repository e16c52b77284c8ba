"""`interlace run`: runs an unchanged program.

The program's copies take several paths if this is faster. `interlace run` waits for the program to
end. The dynamic linker loads libinterlace_preload.so before the program's own libraries.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from interlace.base.files import check_outputs, write_all
from interlace.cli.failures import warn
from interlace.cli.shared_options import json_option
from interlace.model.results import json_text
from interlace.runtime.preload import CALLS, SITES, check_environment, preload_library, to_json
from interlace.runtime.program import find_program, run_counted
from interlace.show.call_sites import lines_of_sites
from interlace.show.preload import lines_of, warnings


def run_command(
    program: Annotated[
        list[str],
        typer.Argument(
            metavar="-- PROGRAM [ARGUMENT]...",
            help="The program and its arguments, after two hyphens.",
        ),
    ],
    json_file: Annotated[
        Path | None,
        json_option("the numbers of copies and bytes as JSON"),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print only warnings at the end.")] = False,
    report: Annotated[
        bool,
        typer.Option(
            "--report",
            help=(
                "List the places in the program that copy, the time that is lost at each place, "
                "and what to change there."
            ),
        ),
    ] = False,
    timeline_file: Annotated[
        Path | None,
        typer.Option(
            "--timeline",
            metavar="FILE",
            help="Write a timeline of the calls that copy; open it in ui.perfetto.dev.",
        ),
    ] = None,
) -> int:
    """Run an unchanged program, and send its CUDA copies over several paths if that is faster.

    At the end, a report on standard error lists the copies that Interlace took over, the copies
    that it passed to the driver, and the estimated time saved. The command ends with the program's
    exit code. Four variables control the copies. Their defaults are in parentheses.
    INTERLACE_PRELOAD_THRESHOLD (2M) is the size of the smallest copy or batch that Interlace takes
    over. Interlace's copy engine starts after INTERLACE_PRELOAD_AFTER (256M) bytes of copies.
    INTERLACE_PRELOAD_START (background) says whether copies wait until the copy engine has started;
    the other values are wait and never. INTERLACE_PRELOAD_BLOCKS (auto) limits the number of
    multiprocessors that a batch of blocks uses.
    """
    check_outputs({"--json": json_file, "--timeline": timeline_file})
    check_environment(os.environ)
    preloaded = preload_library()
    file, code, refused = find_program(program[0], os.environ)
    if file is None:
        warn(refused)
        return code
    ended = run_counted(
        file,
        program,
        preloaded,
        sites=SITES if report else 0,
        calls=CALLS if timeline_file is not None else 0,
    )
    if ended.counted is None:
        warn(ended.failed)
        return ended.code
    said = warnings(ended.counted, program[0])
    if not said and not quiet:
        said = lines_of(ended.counted)
        if report:
            from interlace.study.topo import host_link_bytes_per_s

            said += lines_of_sites(ended.counted, host_link_bytes_per_s())
    for line in said:
        warn(line)
    texts: dict[Path, str] = {}
    if json_file is not None:
        document = to_json(ended.counted, program, ended.code, ended.elapsed_s)
        texts[json_file] = json_text(document)
    if timeline_file is not None:
        from interlace.show.timeline import program_trace

        texts[timeline_file] = program_trace(ended.counted, program)
        if ended.counted.lost_calls:
            warn(f"note: the timeline lacks the last {ended.counted.lost_calls} calls")
    if texts:
        write_all(texts)
    return ended.code
