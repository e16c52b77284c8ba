"""Finds a machine and the routes between its devices.

The machine is either described by a file, or it is this computer. The driver reports the devices
and links of this computer, and the links can be measured.
"""

from __future__ import annotations

import datetime
import itertools
import platform
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from interlace.base.errors import UserError
from interlace.base.native import load_core, load_cuda
from interlace.machine.compiled import from_core, to_core
from interlace.machine.devices import Connection, connections, device_names, gpu_names
from interlace.machine.reading import load_machine, read_machine
from interlace.machine.schema import KEYS, Machine
from interlace.machine.shipped import shipped_machines
from interlace.model.results import provenance


class Route(NamedTuple):
    """The route between two devices, with its rates."""

    start: str
    end: str
    word: str
    hops: list[Connection]
    gb_per_s: float
    latency_ns: float
    text: str


class Topology(NamedTuple):
    """The contents of a drawing of the topology: machine, routes, and remarks of discovery."""

    machine: Machine
    routes: dict[tuple[str, str], Route]
    discovery: Any | None = None  # the findings of discovery, as a struct of the compiled module
    text: str = ""  # the text of the machine's file, if the machine is described


def cpp_header(machine: Machine, function: str, made_by: str) -> str:
    """Return a C++ header with a function that returns the machine.

    `made_by` is the command that made the header. The header contains it as a comment.
    """
    core = load_core()
    text: str = core.machine_header(to_core(machine, core), function, made_by)
    return text


# --- finding --------------------------------------------------------------------------------------


def _word(machine: Machine, start: str, end: str, hops: Sequence[Connection]) -> str:
    """Return the kind of a route, with the words of `nvidia-smi topo -m`."""
    protocols = [machine.protocol[hop.link.protocol].kind for hop in hops]
    if all(kind.startswith("nvlink") for kind in protocols):
        return f"NV{min(hop.link.width for hop in hops)}"
    between = {end for hop in hops for end in (hop.a, hop.b)} - {start, end}
    if "host" in (start, end) or "host" in between:
        return "PHB"
    return ("PCI", "PIX", "PXB")[min(len(between), 2)]


def _routes(machine: Machine, core: Any) -> dict[tuple[str, str], Route]:
    """Return the best route between any two devices (GPUs and the host)."""
    made = to_core(machine, core)
    links = connections(machine)
    gpus = gpu_names(machine)
    host = core.Endpoint(core.EndpointKind.host, 0)
    ends = {name: core.Endpoint(core.EndpointKind.gpu, at) for at, name in enumerate(gpus)}
    ends["host"] = host
    delays = {switch.name: switch.latency_ns for switch in machine.switch}
    found: dict[tuple[str, str], Route] = {}
    for start, end in itertools.permutations(ends, 2):
        way = core.route(made, ends[start], ends[end])
        if way is None:
            continue
        hops = [links[index] for index, _ in way]
        names = [start]
        for index, forward in way:
            names.append(links[index].b if forward else links[index].a)
        text = start + "".join(
            f" -{hop.link.protocol}-> {name}" for hop, name in zip(hops, names[1:], strict=True)
        )
        latency = sum(hop.link.latency_ns for hop in hops)
        latency += sum(delays.get(name, 0) for name in names[1:-1])
        rate = min(hop.link.bandwidth_GB_per_s for hop in hops)
        word = _word(machine, start, end, hops)
        found[start, end] = Route(start, end, word, hops, rate, latency, text)
    return found


def describe(name_or_path: str) -> Topology:
    """Return the topology of a described machine."""
    machine, text = read_machine(name_or_path)
    return Topology(machine, _routes(machine, load_core()), text=text)


def discover(command: str = "interlace topo") -> Topology:
    """Return the topology of this computer. Raise UserError if the computer has no usable GPU.

    The error message suggests `command`, with a described machine.
    """
    core = load_core()
    known = {name: load_machine(name) for name in shipped_machines()}
    try:
        found = core.discover_machine([to_core(machine, core) for machine in known.values()])
    except UserError as error:
        names = shipped_machines()
        example = "4x-volta-nvlink2" if "4x-volta-nvlink2" in names else (names or ["FILE"])[0]
        raise UserError(
            f"{error}; name a described machine instead, for example: {command} {example}"
        ) from error
    template = found.template_name
    source = load_machine(template, sources=True) if template in known else None
    machine = from_core(
        found.found,
        core,
        "the driver's report does not describe a valid machine",
        _sources(found, source),
    )
    return Topology(machine, _routes(machine, core), found)


def host_link_bytes_per_s() -> float | None:
    """Return the rate of the fastest link between this computer's host and a GPU, or None if it is
    unknown.
    """
    try:
        routes = discover().routes.values()
    except UserError:
        return None
    rates = [route.gb_per_s for route in routes if "host" in (route.start, route.end)]
    return max(rates) * 1e9 if rates else None


def _sources(found: Any, source: Machine | None) -> dict[str, str]:
    """Return the comments of a discovered machine's file: where each figure comes from."""
    driver = f"NVIDIA driver {found.driver_version}" if found.driver_version else "the CUDA driver"
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    head = (
        f"Discovered on {platform.node() or 'this node'} on {today}, {driver}, "
        f'CUDA {found.cuda_version or "unknown"}. "queried" figures come from the driver. Comments '
        "on all other figures name the description from which the figure comes."
    )
    sources = {"": " ".join([head, *found.remarks])}
    taken = f"taken from {found.template_name}" if source else "assumed"

    def inherited(key: str) -> str:
        if source is None:
            return "assumed: no description has this figure"
        note = source.sources.get(key, "")
        return f"{taken}: {note}" if note else taken

    for key in (one.full for one in KEYS if one.table.partition(".")[0] == "gpu"):
        sources[key] = f"queried: {driver}" if key in found.queried else inherited(key)
    sources["host.model"] = "queried: /proc/cpuinfo"
    for key in ("host.memory_GB_per_s", "host.copy_write_GB_per_s"):
        sources[key] = inherited(key)
    for protocol in {link["protocol"] for link in found.found.links}:
        for key in (one.name for one in KEYS if one.table == "protocol" and one.name != "kind"):
            at = f"protocol.{protocol}.{key}"
            known = source is not None and at in source.sources
            sources[at] = inherited(at) if known else "assumed: the usual value for such links"
    for index, _ in enumerate(found.found.switches):
        sources[f"switch.{index}.latency_ns"] = f"{taken}, or assumed if it has no such switch"
    for index, rate in enumerate(found.link_rates):
        at = f"link.{index}"
        sources[f"{at}.width"] = f"queried: {driver}"
        sources[f"{at}.bandwidth_GB_per_s"] = rate
        sources[f"{at}.latency_ns"] = f"{taken}, or assumed if it has no such link"
        for key in ("copy_GB_per_s", "copy_both_GB_per_s"):
            sources[f"{at}.{key}"] = f"{taken}, in proportion to the bandwidth"
        sources[f"{at}.queue_KiB"] = "assumed: at least twice bandwidth x latency"
    return sources


# --- measuring ------------------------------------------------------------------------------------


def measure_links() -> list[dict[str, Any]]:
    """Measure the rates at which copy engines copy between any two devices."""
    try:
        cuda = load_cuda()
    except UserError as error:
        raise UserError(f"--measure cannot measure here: {error}") from None
    try:
        return list(cuda.measure_links())
    except RuntimeError as error:
        raise UserError(f"the links cannot be measured: {error}") from error


def device_name(name: Any) -> str:
    """Return the name of a device: for example, "gpu0" for the number 0, and "host" for "host"."""
    return f"gpu{name}" if isinstance(name, int) else str(name)


def relation_of(topology: Topology, row: str, column: str) -> str:
    """Return the word in a cell of the matrix.

    For two GPUs of a discovered machine, the word comes from the driver.
    """
    if row == column:
        return "X"
    if topology.discovery is not None and row != "host" and column != "host":
        at, to = (int(name.removeprefix("gpu")) for name in (row, column))
        return str(topology.discovery.relations[at][to])
    route = topology.routes.get((row, column))
    return route.word if route else "-"


def matrix_names(topology: Topology) -> list[str]:
    names = gpu_names(topology.machine)
    if any((name, "host") in topology.routes for name in names):
        names.append("host")
    return names


# --- JSON -----------------------------------------------------------------------------------------


def to_json(topology: Topology, measured: Sequence[dict[str, Any]] | None) -> dict[str, Any]:
    """Return the topology as data for JSON."""
    machine = topology.machine
    found = topology.discovery
    description = msgspec.to_builtins(machine)
    del description["sources"]
    devices: list[dict[str, Any]] = []
    for index, name in enumerate(gpu_names(machine)):
        device: dict[str, Any] = {"name": name, "model": machine.gpu.model}
        if found is not None:
            real = found.devices[index]
            device |= {
                "bus_id": real.bus_id,
                "memory_bytes": real.memory_bytes,
                "pcie_generation": real.pcie_generation or None,
                "pcie_width": real.pcie_width or None,
                "numa_node": real.numa_node if real.numa_node >= 0 else None,
                "nvlinks": real.nvlinks,
            }
        devices.append(device)
    names = matrix_names(topology)
    return {
        **provenance(),
        "driver": found.driver_version if found is not None else None,
        "discovered": found is not None,
        "machine": description,
        "devices": devices,
        "all_devices": device_names(machine),
        "matrix": {row: {to: relation_of(topology, row, to) for to in names} for row in names},
        "links": [
            {
                "a": a,
                "b": b,
                "protocol": link.protocol,
                "width": link.width,
                "gb_per_s": link.bandwidth_GB_per_s,
                "latency_ns": link.latency_ns,
            }
            for a, b, link in connections(machine)
        ],
        "routes": [
            {
                "from": route.start,
                "to": route.end,
                "kind": route.word,
                "gb_per_s": route.gb_per_s,
                "latency_ns": route.latency_ns,
                "text": route.text,
            }
            for route in topology.routes.values()
        ],
        "measured": list(measured) if measured is not None else None,
        "taken_from": found.template_name or None if found is not None else None,
        "remarks": list(found.remarks) if found is not None else [],
    }
