"""Options of workloads. An option is declared once, as the type of a field of a workload's inputs.

The types determine the options of the command line, the tables [options] of sweep files, and the
help:

    class MyInputs(Inputs):
        seed: Seed = None  # an option of several workloads
        size: Annotated[Size, Default(32)] = None  # a shared option with this workload's default
        angle: Annotated[float | None, Option("A", "degrees of the first turn", 45)] = None
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, NamedTuple, get_args, get_origin, get_type_hints

from interlace.base.errors import UserError


class Option(NamedTuple):
    """An option of a workload: the word for its value in the help, and its help text."""

    metavar: str
    help: str  # the help text, without the names of the workloads that have the option
    default: object = None  # None means that the help mentions no default
    short: str | None = None


class Default(NamedTuple):
    """The default of one workload for an option that several workloads take."""

    value: object


Data = Annotated[Path | None, Option("FILE", "the input")]
Seed = Annotated[int | None, Option("N", "the seed of generated data", 1)]
Size = Annotated[int | None, Option("N", "pixels or points on a side")]
Kernel = Annotated[
    str | None,
    Option(
        "NAME",
        "the kernel; all kernels of a workload do the same work, but they differ in which "
        "values they store to adjacent addresses",
    ),
]
Subscribe = Annotated[
    str | None,
    Option(
        "all|needed",
        "send each value to all GPUs, or only to the GPUs that read it; with needed, a store goes "
        "to the readers of its value, and a copy moves one range with all values that a GPU reads",
        "all",
    ),
]
Iterations = Annotated[
    int | None, Option("N", "number of iterations; with -t, the largest number", 10, short="-n")
]
Tolerance = Annotated[
    float | None,
    Option(
        "T",
        "iterate until the residual is at most T; the residual is the sum of all changes, or the "
        "root of the sum of their squares",
        short="-t",
    ),
]


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """The options of a workload's data and of its run. None means that an option was not given.

    Each field is an option of the same name. Each workload declares its own inputs in a subclass.
    """

    iterations: Iterations = None
    tolerance: Tolerance = None

    def given(self) -> list[str]:
        """Return the names of the fields that have a value."""
        return [one.name for one in fields(self) if getattr(self, one.name) is not None]

    def files(self) -> dict[str, Path]:
        """Return the files that the user gave, by option."""
        values = {option_of(name): getattr(self, name) for name in self.given()}
        return {option: value for option, value in values.items() if isinstance(value, Path)}

    def refuse(self, names: Iterable[str], reason: str) -> None:
        """Raise UserError with the reason if one of these fields has a value."""
        for name in names:
            if getattr(self, name) is not None:
                raise UserError(f"{option_of(name)} {reason}")


def option_of(name: str) -> str:
    """Return the name of a field's option, such as --half-bandwidth."""
    return "--" + name.rstrip("_").replace("_", "-")


class Declared(NamedTuple):
    """A field of a workload's inputs, as the class of the inputs declares it."""

    kind: type  # int, float, str, bool or Path
    option: Option


def declared(inputs: type[Inputs]) -> dict[str, Declared]:
    """Return the declared fields of a workload's inputs, by name."""
    hints = get_type_hints(inputs, include_extras=True)
    found = {}
    for one in fields(inputs):
        hint = hints[one.name]
        assert get_origin(hint) is Annotated, f"{inputs.__name__}.{one.name} is not an option"
        values, *says = get_args(hint)
        kind = next(kind for kind in get_args(values) if kind is not type(None))
        option = [it for it in says if isinstance(it, Option)][-1]
        for default in says:
            if isinstance(default, Default):
                option = option._replace(default=default.value)
        found[one.name] = Declared(kind, option)
    return found


class Taken(NamedTuple):
    """An option, with its declaration in each workload that takes it."""

    kind: type
    by: dict[str, Option]  # maps a workload's name to its declaration of the option

    def help(self, workloads: int) -> str:
        """Return the help text. `workloads` is the number of all workloads."""
        ways: dict[str, list[str]] = {}
        for name, option in self.by.items():
            ways.setdefault(option.help, []).append(name)
        if len(ways) == 1 and len(self.by) == workloads:
            text = next(iter(ways))
            said = text[0].upper() + text[1:] + self._defaults(self.by)
        else:
            said = "; ".join(
                f"{', '.join(names)}: {says}{self._defaults(names)}" for says, names in ways.items()
            )
        return said if said.endswith("]") else f"{said}."

    def _defaults(self, names: Iterable[str]) -> str:
        ways: dict[str, list[str]] = {}
        for name in names:
            if self.by[name].default is not None:
                ways.setdefault(str(self.by[name].default), []).append(name)
        if not ways:
            return ""
        if len(ways) == 1:
            return f".  [default: {next(iter(ways))}]"
        texts = (f"{', '.join(of)} {default}" for default, of in ways.items())
        return f".  [default: {'; '.join(texts)}]"


def options(takers: Mapping[str, type[Inputs]]) -> dict[str, Taken]:
    """Return every option by field name. `takers` maps a workload's name to its inputs."""
    found: dict[str, Taken] = {}
    for workload, inputs in takers.items():
        for name, (kind, option) in declared(inputs).items():
            taken = found.setdefault(name, Taken(kind, {}))
            assert taken.kind is kind, (
                f"{workload}: {option_of(name)} has another type in another workload"
            )
            taken.by[workload] = option
    return found
