"""Makes machines with some keys changed, for sweeps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from interlace.base.errors import UserError
from interlace.machine.problems import Problem, did_you_mean, give_one_of
from interlace.machine.schema import Machine
from interlace.machine.validation import document_of, machine_of, problems_between


def changed(machine: Machine, values: Mapping[str, Any], where: str) -> Machine:
    """Return the machine with changed keys. `where` names the origin of the keys in messages.

    A key is a key of machine files, such as gpu.l2.size_KiB or protocol.nvlink2.max_payload_bytes.
    link.latency_ns changes all links. link.PROTOCOL.latency_ns changes only the links with this
    protocol. switch.NAME.latency_ns changes one switch.
    """
    document = document_of(machine)
    for key, value in values.items():
        targets, last = _targets(document, key, where)
        for target in targets:
            target[last] = value
    made = machine_of(document, machine.name, where, machine.sources)
    problems = list(problems_between(made))
    if problems:
        raise UserError(f"{where}: {problems[0].sentence}{_together(problems, values)}")
    return made


def _targets(document: dict[str, Any], key: str, where: str) -> tuple[list[dict[str, Any]], str]:
    """Return the tables that have a key, and the last part of the key."""
    table, *parts = key.split(".")
    if table not in ("gpu", "host", "protocol", "link", "switch") or not parts or "" in parts:
        raise UserError(
            f"{where}: {key} is not a key of a machine; such keys are gpu.l2.size_KiB, "
            "link.nvlink2.bandwidth_GB_per_s or switch.latency_ns"
        )
    *inner, last = parts
    if table in ("link", "switch"):
        chosen = document[table]
        name = "protocol" if table == "link" else "name"
        if inner:
            chosen = [one for one in chosen if [one[name]] == inner]
        if not chosen:
            names = list(dict.fromkeys(str(one[name]) for one in document[table]))
            raise UserError(
                f"{where}: {key}: there is no {table} {'.'.join(inner)}; {give_one_of(names)}"
            )
        return chosen, last
    at = document[table]
    path = table
    for part in inner:
        if not isinstance(at.get(part), dict):
            hint = did_you_mean(part, [k for k, v in at.items() if isinstance(v, dict)])
            raise UserError(f"{where}: {key}: there is no table {path}.{part}{hint}")
        at = at[part]
        path = f"{path}.{part}"
    return [at], last


def _together(problems: Sequence[Problem], values: Mapping[str, Any]) -> str:
    """Return a hint that names the keys that must change together with a key in `values`.

    The text is empty if the first problem concerns only keys in `values`, or no key in `values`. If
    other problems concern the same key of `values`, the hint also names the keys of these problems.
    """
    given = {_in_list(key): key for key in values}
    cause = next((key for key in problems[0].keys if key in given), None)
    if cause is None or set(problems[0].keys) <= given.keys():
        return ""
    keys = dict.fromkeys(key for one in problems if cause in one.keys for key in one.keys)
    others = [_as_given(key, given[cause]) for key in keys if key not in given]
    listed = [given[key] for key in keys if key in given] + others
    together = f"{', '.join(listed[:-1])} and {listed[-1]}"
    return f"; change {together} together; a sweep must list them under one [[zip]]"


def _in_list(key: str) -> str:
    """Return the key's name in schema.py, such as link.latency_ns for link.nvlink2.latency_ns."""
    table, *_, last = key.split(".")
    return f"{table}.{last}" if table in ("link", "switch", "protocol") else key


def _as_given(key: str, like: str) -> str:
    """Return a key of schema.py in the form of the user's key, such as link.nvlink2.width."""
    table = like.partition(".")[0]
    if table not in ("link", "switch", "protocol") or not key.startswith(f"{table}."):
        return key
    return f"{like.rpartition('.')[0]}.{key.rpartition('.')[2]}"
