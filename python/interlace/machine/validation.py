"""Checks a whole machine: each single key, keys that depend on each other, and links."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import UNSET

from interlace.base.errors import UserError
from interlace.machine.devices import device_names, gpu_names, group, pairs, reachable
from interlace.machine.keys import Rule
from interlace.machine.problems import Problem, give_one_of, keys_of, number_text, problems_of
from interlace.machine.schema import RULES, Link, Machine, Protocol

MAX_SWITCHES = 64
NO_SOURCES: Mapping[str, str] = {}


def document_of(machine: Machine) -> dict[str, Any]:
    """Return the keys of the machine's file with their values, including default values."""
    document: dict[str, Any] = msgspec.to_builtins(machine)
    del document["name"], document["sources"]
    return document


def machine_of(
    document: Mapping[str, Any], name: str, where: str, sources: Mapping[str, str] = NO_SOURCES
) -> Machine:
    """Return the machine in a document.

    This function checks each key by itself. It does not check the rules that concern several keys;
    `problems_between` checks these rules.

    Raises UserError with the first problem. `where` names the origin of the document in messages.
    """
    for problem in problems_of(document):
        raise UserError(f"{where}: {problem.sentence}")
    # Lists become tuples. Whole numbers become floats if the key's type is a number.
    return msgspec.convert({**document, "name": name, "sources": dict(sources)}, Machine)


def validate(machine: Machine) -> list[Problem]:
    """Return the problems of a machine. The list is empty if the machine is valid."""
    return list(problems_of(document_of(machine))) or list(problems_between(machine))


def problems_between(machine: Machine) -> Iterator[Problem]:
    """Yield the problems that concern several keys. The caller must have checked single keys."""
    found = False
    for problem in itertools.chain(_broken_rules(machine), _problems_of_tables(machine)):
        found = True
        yield problem
    if not found:
        yield from _problems_of_links(machine)


# --- rules ----------------------------------------------------------------------------------------


class _Value:
    """The value of a key: in the key's unit, in the C++ struct's unit, and as text."""

    def __init__(self, owner: Any, full: str, name: str) -> None:
        table, _, last = full.rpartition(".")
        for part in table.split(".")[1:]:
            owner = UNSET if owner is UNSET else getattr(owner, part)
        self.value: Any = UNSET if owner is UNSET else getattr(owner, last)
        self.name = name
        self.unit = keys_of(table)[last].in_struct

    @property
    def is_given(self) -> bool:
        return self.value is not UNSET

    @property
    def in_struct(self) -> float:
        """Return the value in the unit of the C++ struct. Rules compare values in such units."""
        return float(self.value * self.unit)

    @property
    def text(self) -> str:
        return number_text(self.value)


def _broken_rules(machine: Machine) -> Iterator[Problem]:
    for rule in RULES:
        table = rule.key.partition(".")[0]
        if table == "link":
            for index, link in enumerate(machine.link):
                yield from _broken_rule(rule, link, f"link {index + 1}: ", names_are_full=False)
        else:
            yield from _broken_rule(rule, getattr(machine, table), "", names_are_full=True)


def _broken_rule(rule: Rule, owner: Any, prefix: str, *, names_are_full: bool) -> Iterator[Problem]:
    keys = (rule.key, *rule.others)
    if rule.kind == "needs":
        there = [getattr(owner, name.partition(".")[2]) is not UNSET for name in keys]
        if there[0] and not all(there):
            yield Problem(f"{rule.others[0]} is missing; {rule.key} needs it", keys)
        return
    names = keys if names_are_full else tuple(name.rpartition(".")[2] for name in keys)
    values = [_Value(owner, full, name) for full, name in zip(keys, names, strict=True)]
    if all(value.is_given for value in values):
        sentence = _broken(rule, values[0], values[1:])
        if sentence:
            yield Problem(f"{prefix}{values[0].name} is {values[0].text}; {sentence}", keys)


def _is_power_of_two(value: float) -> bool:
    return value >= 1 and math.frexp(value)[0] == 0.5


def _broken(rule: Rule, key: _Value, others: list[_Value]) -> str:
    """Return the words of a message about a broken rule, or nothing if the rule holds."""
    value = key.in_struct
    product = math.prod(other.in_struct for other in others)
    which = f"{others[0].name}, which is {others[0].text}" if others else ""
    if rule.kind == "power_of_two":
        return "" if _is_power_of_two(value) else "it must be a power of two"
    if rule.kind == "power_of_two_of":
        holds = value % product == 0 and _is_power_of_two(value / product)
        return "" if holds else f"it must be a power of two times {which}"
    if rule.kind == "same":
        return "" if value == product else f"it must be {which}"
    if rule.kind == "divides":
        return "" if product % value == 0 else f"it must divide {which}"
    if rule.kind == "multiple":
        names = " x ".join(other.name for other in others)
        least = number_text(product / key.unit)
        return "" if value % product == 0 else f"it must be a multiple of {names}, which is {least}"
    if rule.kind == "at_most":
        if value <= rule.times * product:
            return ""
        if rule.times == 1:
            return f"it must be at most {which}"
        most = number_text(rule.times * product / key.unit)
        return f"it must be at most {most}, because {others[0].name} is {others[0].text}"
    if rule.kind == "less":
        return "" if value < product else f"it must be less than {which}"
    assert rule.kind == "at_least_together"
    least_sum = sum(other.in_struct for other in others)
    if value >= least_sum:
        return ""
    terms = " and ".join(f"{other.name} is {other.text}" for other in others)
    return f"it must be at least {number_text(least_sum / key.unit)}, because {terms}"


# --- protocols and switches -----------------------------------------------------------------------


def _problems_of_tables(machine: Machine) -> Iterator[Problem]:
    for name, protocol in machine.protocol.items():
        yield from _problems_of_protocol(name, protocol)
    names: set[str] = set()
    if len(machine.switch) > MAX_SWITCHES:
        yield Problem(
            f"switch: there are {len(machine.switch)} switches, but at most {MAX_SWITCHES} are "
            "allowed"
        )
    for switch in machine.switch:
        if switch.name == "host" or switch.name.rstrip("0123456789") == "gpu":
            yield Problem(
                f'switch: the name "{switch.name}" is reserved for GPUs and the host; give '
                "another name"
            )
        elif switch.name in names:
            yield Problem(f'switch: two switches have the name "{switch.name}"')
        names.add(switch.name)


def _problems_of_protocol(name: str, protocol: Protocol) -> Iterator[Problem]:
    where = f"protocol.{name}"
    is_pcie = protocol.kind.startswith("pcie")
    for key in keys_of("protocol").values():
        given = getattr(protocol, key.name) is not UNSET
        keys = (key.full, "protocol.kind")
        if is_pcie and key.need == "pcie" and not given:
            sentence = f"{where}.{key.name} is missing; the kind {protocol.kind} needs it"
            yield Problem(sentence, keys)
        not_its = ("nvlink_only",) if is_pcie else ("pcie", "pcie_only")
        if given and key.need in not_its:
            yield Problem(
                f"{where}.{key.name} has no meaning for {protocol.kind}; leave it out", keys
            )
    payload = protocol.max_payload_bytes
    keys = ("protocol.max_payload_bytes", "protocol.kind")
    if not is_pcie and (payload > 256 or payload % 16):
        yield Problem(
            f"{where}.max_payload_bytes is {payload}; it must be a multiple of 16 from 16 to 256, "
            "because packets of NVLink have these sizes",
            keys,
        )
    if is_pcie and payload & (payload - 1):
        yield Problem(
            f"{where}.max_payload_bytes is {payload}; it must be a power of two, because packets "
            "of PCIe have these sizes",
            keys,
        )


# --- links ----------------------------------------------------------------------------------------


def _problems_of_links(machine: Machine) -> Iterator[Problem]:
    devices = device_names(machine)
    sound = True
    for index, link in enumerate(machine.link):
        where = f"link {index + 1}"
        for end in link.ends:
            if not group(end, devices):
                sound = False
                yield Problem(f'{where}: ends: "{end}" does not exist; {give_one_of(devices)}')
        if link.ends[0] == link.ends[1] and len(group(link.ends[0], devices)) == 1:
            sound = False
            yield Problem(
                f'{where}: ends: both ends are "{link.ends[0]}"; name two different devices'
            )
        if link.protocol not in machine.protocol:
            yield Problem(
                f'{where}: protocol: "{link.protocol}" is not described; '
                f"{give_one_of(sorted(machine.protocol))}"
            )
    if not sound:
        return
    seen: dict[tuple[frozenset[str], str], Link] = {}
    neighbours: dict[str, set[str]] = {}
    for index, link in enumerate(machine.link):
        for a, b in pairs(link, devices):
            key = (frozenset((a, b)), link.protocol)
            if key in seen:
                first = seen[key].ends
                yield Problem(
                    f"link {index + 1}: {a} and {b} already have a {link.protocol} link "
                    f'("{first[0]}" to "{first[1]}"); state the width and bandwidth of '
                    "that link instead"
                )
                return
            seen[key] = link
            neighbours.setdefault(a, set()).add(b)
            neighbours.setdefault(b, set()).add(a)
    for one, other in itertools.combinations(gpu_names(machine), 2):
        if other not in reachable(one, neighbours):
            yield Problem(
                f"link: no path from {one} to {other}; GPUs do not forward data, so join the two "
                "GPUs by a link, by switches or by the host"
            )
            return
    for switch in machine.switch:
        if switch.name not in neighbours:
            yield Problem(f'switch: "{switch.name}" has no link; add a link or remove the switch')
