"""Sweep files. A sweep file names a machine with axes, a workload, mechanisms and numbers of GPUs.

The whole file is read and checked before the first run. The check also makes and validates the
machine of every point.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from interlace.base import toml_files
from interlace.base.errors import UserError, unknown
from interlace.machine.reading import load_machine
from interlace.machine.schema import Machine
from interlace.machine.variants import changed
from interlace.model.mechanisms import Tuning
from interlace.model.options import agent_threads, chunk_sizes, mechanism_names, whole_numbers
from interlace.nodes.nodes import SimulatedNode
from interlace.workloads import WORKLOADS, Inputs, check_workload, inputs_of, options_of_all

FORMAT = 1
MAX_RUNS = 100_000
MAX_KEYS = 16  # the largest number of keys on all axes together

KEYS = (
    "format", "title", "machine", "workload", "gpus", "mechanisms", "split", "chunks", "threads",
    "options", "axes", "zip",
)  # fmt: skip

Value = int | float | str | bool
Point = dict[str, Value]  # maps each key of the axes to its value


class Axes(NamedTuple):
    """Keys of the machine that change together: each step gives all of them new values."""

    keys: tuple[str, ...]
    values: tuple[tuple[Value, ...], ...]  # one entry for each step: the values of all keys


@dataclass(frozen=True)
class DesignSpace:
    """The contents of a sweep file."""

    file: Path
    title: str
    base: Machine
    workload: str
    inputs: Inputs
    gpus: tuple[int, ...]  # numbers of GPUs in ascending order, without 1
    mechanisms: tuple[str, ...]
    tuning: Tuning
    axes: tuple[Axes, ...]
    machines: tuple[Machine, ...]  # one machine for each point

    @property
    def keys(self) -> list[str]:
        """Return the keys of all axes."""
        return [key for axis in self.axes for key in axis.keys]

    def points(self) -> list[Point]:
        """Return every combination of steps. The last axis changes fastest."""
        return _points(self.axes)


def _points(axes: Sequence[Axes]) -> list[Point]:
    return [
        {
            key: value
            for axis, step in zip(axes, steps, strict=True)
            for key, value in zip(axis.keys, step, strict=True)
        }
        for steps in itertools.product(*(axis.values for axis in axes))
    ]


def load_design_space(file: Path) -> DesignSpace:
    """Read and check a sweep file. A UserError names the file and the key."""
    return parse_design_space(toml_files.read_text(file, "sweep"), file)


def parse_design_space(text: str, file: Path) -> DesignSpace:
    """Parse the text of a sweep file. Paths in the text are relative to the folder of `file`."""
    where = str(file)
    document = toml_files.parse(text, where, "sweep", FORMAT)
    _check_words(document, where)
    for key in document:
        if key not in KEYS:
            raise UserError(f"{where}: {unknown('key', key, KEYS)}")
    for key in ("machine", "workload"):
        if key not in document:
            raise UserError(f"{where}: {key} is missing")
    title = _string(document, "title", where) if "title" in document else ""
    try:
        base = load_machine(_machine(_string(document, "machine", where), file))
    except UserError as error:
        raise UserError(f"{where}: machine: {error}") from None
    name = _string(document, "workload", where)
    try:
        check_workload(name)
    except UserError as error:
        raise UserError(f"{where}: workload: {error}") from None
    given = _given(document.get("options", {}), file)
    try:
        inputs = inputs_of(name, given)
    except UserError as error:
        raise UserError(f"{where}: options: {error}") from None
    tuning = Tuning(
        _listed(document, "split", where, int, lambda o, t: tuple(whole_numbers(o, t, "ranges")))
        or SimulatedNode.default_ranges,
        _listed(document, "chunks", where, str, chunk_sizes) or SimulatedNode.default_chunks,
        _listed(document, "threads", where, int, agent_threads) or SimulatedNode.default_threads,
    )
    mechanisms = _listed(
        document, "mechanisms", where, str, lambda o, t: mechanism_names(o, t, simulated=True)
    )
    gpus = _listed(document, "gpus", where, int, lambda o, t: tuple(whole_numbers(o, t, "GPUs")))
    axes = _axes(document, where)
    machines = _machines(base, axes, where)
    counts = gpus or (min(machine.gpu.count for machine in machines),)
    for point, machine in zip(_points(axes), machines, strict=True):
        if counts[-1] > machine.gpu.count:
            has = "1 GPU" if machine.gpu.count == 1 else f"{machine.gpu.count} GPUs"
            raise UserError(
                f"{where}: gpus: {counts[-1]}{at_point(point)}: the machine has only {has}"
            )
    space = DesignSpace(
        file, title, base, name, inputs, tuple(n for n in counts if n != 1),
        mechanisms or WORKLOADS[name].defaults(inputs), tuning, axes, machines,
    )  # fmt: skip
    least = len(machines) * (1 + len(space.gpus) * len(space.mechanisms))
    if least > MAX_RUNS:
        raise UserError(
            f"{where}: this sweep has at least {least:,} runs, but at most {MAX_RUNS:,} are "
            "allowed; leave out values"
        )
    return space


def _machine(named: str, file: Path) -> str:
    """Return the name of a machine, or the path of its file.

    A path is relative to the folder of the sweep file.
    """
    return str(file.parent / named) if named.endswith(".toml") or "/" in named else named


# --- values ---------------------------------------------------------------------------------------

MOST_IN_KEY, MOST_IN_TEXT, MOST_SHOWN = 100, 1000, 40  # limits on numbers of characters


def _check_words(value: Any, where: str) -> None:
    """Refuse keys and strings that are too long or not printable.

    Error messages show keys and strings on one line, so these must be short and printable.
    """
    if isinstance(value, list):
        for one in value:
            _check_words(one, where)
    elif isinstance(value, dict):
        for key, inner in value.items():
            _check_word(key, MOST_IN_KEY, "key", where)
            _check_words(inner, where)
    elif isinstance(value, str):
        _check_word(value, MOST_IN_TEXT, "string", where)


def _cut(text: str) -> str:
    return text if len(text) <= MOST_SHOWN else text[: MOST_SHOWN - 3] + "..."


def _check_word(word: str, most: int, what: str, where: str) -> None:
    if not word or len(word) > most or not word.isprintable():
        raise UserError(
            f"{where}: {_cut(word)!r} is not a {what} of a sweep; give 1 to {most} printable "
            "characters"
        )


_KINDS = {int: "a whole number", float: "a number", str: "a string", bool: "true or false"}


def _is(value: Any, kind: type) -> bool:
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


def _string(document: Mapping[str, Any], key: str, where: str) -> str:
    value = document[key]
    if not isinstance(value, str):
        raise UserError(f"{where}: {key} must be a string")
    return value


def _listed(
    document: Mapping[str, Any], key: str, where: str, kind: type, read: Any
) -> tuple[Any, ...]:
    """Return a list of the file. The list must obey the rules of its command-line option."""
    if key not in document:
        return ()
    value = document[key]
    if not isinstance(value, list) or not value or not all(_is(one, kind) for one in value):
        what = "whole numbers" if kind is int else "strings"
        raise UserError(f"{where}: {key} must be a list of {what} with at least one entry")
    try:
        found: tuple[Any, ...] = read(key, ",".join(map(str, value)))
    except UserError as error:
        raise UserError(f"{where}: {error}") from None
    return found


def _given(options: Any, file: Path) -> dict[str, Any]:
    """Return the workload's options. The keys are the names of the fields of the workload's inputs.

    The file has other keys: the names of the options on the command line.
    """
    where = f"{file}: options"
    if not isinstance(options, dict):
        raise UserError(f"{where} must be a table, [options]")
    taken = options_of_all()
    names = {name.rstrip("_").replace("_", "-"): name for name in taken}
    given: dict[str, Any] = {}
    for key, value in options.items():
        if key not in names:
            raise UserError(f"{where}: {unknown('option', key, tuple(names))}")
        kind = taken[names[key]].kind
        if kind is Path:
            given[names[key]] = file.parent / _string(options, key, where)
        elif not _is(value, kind):
            raise UserError(f"{where}.{key} must be {_KINDS[kind]}, not {value!r}")
        elif kind is float and not math.isfinite(value):
            raise UserError(f"{where}.{key} is {value}; it must be finite")
        else:
            given[names[key]] = kind(value)
    return {key: value for key, value in given.items() if value is not False}


# --- axes -----------------------------------------------------------------------------------------


def _axes(document: Mapping[str, Any], where: str) -> tuple[Axes, ...]:
    groups: list[tuple[str, Any]] = []
    alone = document.get("axes", {})
    if not isinstance(alone, dict):
        raise UserError(f"{where}: axes must be a table that begins with [axes]")
    groups += [("axes", {key: values}) for key, values in _flat(alone)]
    together = document.get("zip", [])
    if not isinstance(together, list) or not all(isinstance(one, dict) for one in together):
        raise UserError(f"{where}: zip must be tables that begin with [[zip]]")
    groups += [(f"zip {index + 1}", dict(_flat(one))) for index, one in enumerate(together)]
    found: list[Axes] = []
    seen: dict[str, str] = {}
    for name, group in groups:
        if not group:
            raise UserError(f"{where}: {name} is empty; name a key of the machine")
        for key, values in group.items():
            _check_word(key, MOST_IN_KEY, "key", where)
            _check_values(values, f"{where}: {name}: {key}")
            if key in seen:
                raise UserError(f"{where}: {name}: {key} is already an axis of {seen[key]}")
            seen[key] = name
        lengths = {key: len(values) for key, values in group.items()}
        if len(set(lengths.values())) > 1:
            counts = ", ".join(f"{key} has {count}" for key, count in lengths.items())
            raise UserError(
                f"{where}: {name}: these keys change together, so each needs the same number of "
                f"values: {counts}"
            )
        steps = tuple(zip(*group.values(), strict=True))
        # Refuse values that are equal. 100 equals 100.0, but 1 does not equal true.
        alike = [tuple((isinstance(value, bool), value) for value in step) for step in steps]
        twice, count = Counter(alike).most_common(1)[0]
        if count > 1:
            shown = ", ".join(str(value) for _, value in twice)
            raise UserError(f"{where}: {name}: {', '.join(group)} has {shown} twice")
        found.append(Axes(tuple(group), steps))
    if len(seen) > MAX_KEYS:
        raise UserError(
            f"{where}: the axes have {len(seen)} keys, but at most {MAX_KEYS} are allowed; leave "
            "out keys"
        )
    if not found:
        raise UserError(f"{where}: there is no axis; list the values of a key in the table [axes]")
    if math.prod(len(axis.values) for axis in found) > MAX_RUNS:
        raise UserError(f"{where}: the axes have over {MAX_RUNS:,} points; leave out values")
    return tuple(found)


def _flat(table: Mapping[str, Any], path: str = "") -> list[tuple[str, Any]]:
    """Return the values of a table by dotted key. In the file, keys may be quoted."""
    found: list[tuple[str, Any]] = []
    for key, value in table.items():
        inner = f"{path}.{key}" if path else key
        found += _flat(value, inner) if isinstance(value, dict) and value else [(inner, value)]
    return found


def _check_values(values: Any, where: str) -> None:
    if not isinstance(values, list):
        raise UserError(f"{where} must be a list of values")
    if not values:
        raise UserError(f"{where} has no values; give at least one")
    for value in values:
        if not isinstance(value, int | float | str):
            raise UserError(f"{where}: {value!r} is not a value of a key; give numbers or strings")
        if isinstance(value, float) and not math.isfinite(value):
            raise UserError(f"{where}: {value} is not a value of a key; it must be finite")


def _machines(base: Machine, axes: Sequence[Axes], where: str) -> tuple[Machine, ...]:
    """Return the machine of each point."""
    return tuple(changed(base, point, f"{where}{at_point(point)}") for point in _points(axes))


def at_point(point: Mapping[str, Value]) -> str:
    """Return a point of the design space as text, for an error message."""
    shown = ", ".join(f"{key} = {_cut(str(value))}" for key, value in point.items())
    return f", at {shown}" if shown else ""


# --- what a run depends on ------------------------------------------------------------------------


def options_text(inputs: Inputs) -> dict[str, Any]:
    """Return the given options in the form in which the results file has them."""
    given = {name: getattr(inputs, name) for name in inputs.given()}
    return {key: str(v) if isinstance(v, Path) else v for key, v in given.items()}
