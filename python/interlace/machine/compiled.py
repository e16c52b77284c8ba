"""Converts between machines and the C++ structs of the compiled module."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import UNSET

from interlace.machine.devices import connections
from interlace.machine.keys import Key
from interlace.machine.schema import FORMAT, KEYS, Machine, Protocol
from interlace.machine.validation import NO_SOURCES, machine_of

# The keys of the tables that belong to the machine's own C++ struct. Links, switches and protocols
# have structs of their own.
_OF_MACHINE = [
    key
    for key in KEYS
    if key.stored and key.table.partition(".")[0] not in ("protocol", "switch", "link")
]


def _keys(table: str) -> Iterator[Key]:
    return (key for key in KEYS if key.stored and key.table == table)


def _copy(owner: Any, table: str, made: Any) -> None:
    """Copy the keys of a table from `owner` into `made`, the C++ struct of the table."""
    for key in _keys(table):
        value = getattr(owner, key.name)
        if value is not UNSET:
            made[key.name] = value


def to_core(machine: Machine, core: Any) -> Any:
    """Return the C++ struct of a machine. `core` is the extension module."""
    made = core.Machine()
    made.name = machine.name
    for key in _OF_MACHINE:
        value: Any = machine
        for part in key.full.split("."):
            value = getattr(value, part)
            if value is UNSET:
                break
        else:
            made[key.full] = value

    switches = []
    for switch in machine.switch:
        between = core.Switch()
        _copy(switch, "switch", between)
        switches.append(between)
    made.switches = switches

    names = [switch.name for switch in machine.switch]
    protocols = {name: _protocol(core, one) for name, one in machine.protocol.items()}
    links = []
    for a, b, link in connections(machine):
        edge = core.Link()
        edge.a, edge.b = _endpoint(core, a, names), _endpoint(core, b, names)
        _copy(link, "link", edge)
        edge.packets = protocols[link.protocol]
        links.append(edge)
    made.links = links
    return made


def _protocol(core: Any, protocol: Protocol) -> Any:
    made = core.Protocol()
    _copy(protocol, "protocol", made)
    return made


def _endpoint(core: Any, name: str, switches: Sequence[str]) -> Any:
    if name == "host":
        return core.Endpoint(core.EndpointKind.host, 0)
    if name in switches:
        return core.Endpoint(core.EndpointKind.network_switch, switches.index(name))
    return core.Endpoint(core.EndpointKind.gpu, int(name.removeprefix("gpu")))


def from_core(made: Any, core: Any, where: str, sources: Any = NO_SOURCES) -> Machine:
    """Return the description of a C++ machine that `discover` found.

    The description has a separate entry for each link. Raises UserError if the struct has a value
    that a file may not have. `where` names the origin of the machine in the message.
    """
    document: dict[str, Any] = {"format": FORMAT}
    for key in _OF_MACHINE:
        value = made[key.full]
        if value is None:
            continue
        table = document
        for part in key.table.split(".") if key.table else ():
            table = table.setdefault(part, {})
        table[key.name] = value

    document["switch"] = [_given(switch, "switch") for switch in made.switches]
    names = [switch["name"] for switch in document["switch"]]
    document["protocol"] = {}
    document["link"] = []
    for link in made.links:
        described = _given(link, "link")
        described["ends"] = [_end_name(core, end, names) for end in (link.a, link.b)]
        document["link"].append(described)
        document["protocol"].setdefault(described["protocol"], _given(link.packets, "protocol"))
    return machine_of(document, made.name, where, sources)


def _given(made: Any, table: str) -> dict[str, Any]:
    """Return the values that `made`, the C++ struct of the table, has for the table's keys.

    The dict leaves out unset values.
    """
    values = {key.name: made[key.name] for key in _keys(table)}
    return {name: value for name, value in values.items() if value is not None}


def _end_name(core: Any, end: Any, switches: Sequence[str]) -> str:
    if end.kind == core.EndpointKind.gpu:
        return f"gpu{end.index}"
    return switches[end.index] if end.kind == core.EndpointKind.network_switch else "host"
