"""The options of workloads. All commands that run workloads have the same options."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from interlace.model.options import number, whole
from interlace.workloads import WORKLOADS, options_of_all
from interlace.workloads.options import Taken, option_of

# Commands receive a function of this type instead of the values of the options. The function
# returns the values that the user gave, by field name. It raises UserError if a value is not a
# number.
ReadInputs = Callable[[], Mapping[str, Any]]


def _parameter(name: str, taken: Taken) -> inspect.Parameter:
    first = next(iter(taken.by.values()))
    words = [word for word in (option_of(name), first.short) if word is not None]
    flag = taken.kind is bool
    says = typer.Option(
        *words, help=taken.help(len(WORKLOADS)), metavar=None if flag else first.metavar
    )
    kind: Any = bool if flag else (Path if taken.kind is Path else str) | None
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=False if flag else None,
        annotation=Annotated[kind, says],
    )


def _read(values: Mapping[str, Any]) -> dict[str, Any]:
    readers: dict[type, Callable[[str, Any], Any]] = {int: whole, float: number}
    taken = options_of_all()
    given = {}
    for name, value in values.items():
        if value is None or value is False:
            continue
        read = readers.get(taken[name].kind)
        given[name] = value if read is None else read(option_of(name), value)
    return given


def takes_inputs(command: Callable[..., None]) -> Callable[..., None]:
    """Replace a command's parameter `inputs` by the options of all workloads.

    The command receives a ReadInputs and calls it later, so the command can check its other options
    first.
    """
    options = {name: _parameter(name, taken) for name, taken in options_of_all().items()}
    hints = get_type_hints(command, include_extras=True)

    @functools.wraps(command)
    def call(**given: Any) -> None:
        values = {name: given.pop(name) for name in options}
        command(inputs=functools.partial(_read, values), **given)

    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        if name == "inputs":
            parameters += options.values()
        else:
            parameters.append(
                parameter.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY)
            )
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {it.name: it.annotation for it in parameters}
    return call
