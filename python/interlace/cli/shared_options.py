"""Options and arguments that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
import typer

from interlace.base.cores import allowed_cores
from interlace.base.errors import UserError
from interlace.model.options import whole
from interlace.model.results import json_text
from interlace.workloads import WORKLOADS, check_workload

Results = TypeVar("Results", bound=msgspec.Struct)


def list_option(name: str, what: str, default: str) -> Any:
    """Return an option that takes a list, such as 2,4,8."""
    text = f"{what}  [default: {default}]"
    return typer.Option(name, metavar="LIST", help=text, show_default=False)


def count_option(name: str, what: str, default: int, *short: str) -> Any:
    """Return an option that takes one whole number."""
    return typer.Option(name, *short, metavar="N", help=f"{what}  [default: {default}]")


def json_option(what: str) -> Any:
    """Return an option --json. Its help says that the option writes `what` to a file."""
    return typer.Option("--json", metavar="FILE", help=f"Write {what}; - is standard output.")


WorkloadName = Annotated[
    str | None, typer.Argument(metavar="WORKLOAD", help=f"One of: {', '.join(WORKLOADS)}.")
]
SimulatedMachine = Annotated[
    str | None,
    typer.Option(
        "--machine",
        "-m",
        metavar="NAME|FILE",
        help="Simulate this machine: a shipped machine or a .toml file.  [default: the real GPUs]",
    ),
]
Jobs = Annotated[
    str | None,
    typer.Option(
        "--jobs",
        "-j",
        metavar="N",
        help=(
            "Cores for simulations. Each simulation uses one core, or several cores if there are "
            "fewer simulations than cores.  [default: all]"
        ),
    ),
]


def profile_option(who: str) -> Any:
    """Return the option --out for the file of a profile.

    `who` names the programs that look for the profile in the user's folder.
    """
    return typer.Option(
        "--out",
        "-o",
        metavar="FILE",
        help="Write the profile here.  [default: a file in the user's folder, where "
        f"{who} look for it]",
    )


ResultsFile = Annotated[Path | None, json_option("all results")]
ChartsFile = Annotated[
    Path | None, typer.Option("--html", metavar="FILE", help="Write a page with charts.")
]


def result_texts(
    results: Results,
    json_file: Path | None,
    html_file: Path | None,
    page: Callable[[Results], str],
) -> dict[Path, Callable[[], str]]:
    """Return, for each file that the options name, the function that makes the file's text."""
    texts: dict[Path, Callable[[], str]] = {}
    if json_file is not None:
        texts[json_file] = partial(json_text, results)
    if html_file is not None:
        texts[html_file] = partial(page, results)
    return texts


def known_workload(command: str, name: str | None) -> str:
    """Return `name` if it is a workload. Raise UserError if it is missing or unknown."""
    if name is None:
        raise UserError(
            f"{command} needs the name of a workload; give one of {', '.join(WORKLOADS)}"
        )
    check_workload(name)
    return name


def refuse_measuring_options(given: Mapping[str, str | None]) -> None:
    """Raise UserError if the user gave an option that is only for runs on real GPUs."""
    for option, value in given.items():
        if value is not None:
            raise UserError(
                f"{option} is for real GPUs; a simulated run always takes the same time, so leave "
                f"out either {option} or --machine"
            )


def simulations_at_a_time(jobs: str | None) -> int:
    return whole("--jobs", jobs, 1) or allowed_cores()
