"""`interlace topo`: draws a described machine or the one it runs on, measures it, saves it."""

from __future__ import annotations

import datetime
import importlib
import itertools
import math
import platform
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from interlace.base.errors import UserError
from interlace.base.files import check_outputs, show_and_write
from interlace.machine.compiled import from_core, to_core
from interlace.machine.devices import Connection, connections, device_names, gpu_names
from interlace.machine.reading import load_machine, read_machine
from interlace.machine.schema import KEYS, Machine
from interlace.machine.shipped import shipped_machines
from interlace.machine.writing import machine_text
from interlace.model.results import json_text, provenance

WORDS = {
    "X": "the device itself",
    "NV": "this many bonded NVLinks, direct or through an NVLink switch",
    "PIX": "PCIe through one switch",
    "PXB": "PCIe through several switches, not through the host",
    "PHB": "PCIe through the host, or a PCIe link to it",
    "NODE": "PCIe through two host bridges of one NUMA node",
    "SYS": "PCIe and the link between two processors",
    "PCI": "a PCIe link between the two",
    "PCIE": "PCIe, in a way that the driver does not tell",
}


class Route(NamedTuple):
    """The way between two devices, and what it is worth."""

    start: str
    end: str
    word: str
    hops: list[Connection]
    gb_per_s: float
    latency_ns: float
    text: str


class Topology(NamedTuple):
    """What is drawn: a machine with its routes, and what discovery said."""

    machine: Machine
    routes: dict[tuple[str, str], Route]
    discovery: Any | None = None  # of the extension module
    text: str = ""  # of a described machine's file


def _core() -> Any:
    """The extension module."""
    try:
        return importlib.import_module("interlace._core")
    except ImportError as error:  # a checkout that is not built
        raise UserError(
            f"the compiled part of Interlace is missing ({error}); run ./quickstart once"
        ) from error


# --- finding --------------------------------------------------------------------------------------


def _word(machine: Machine, start: str, end: str, hops: Sequence[Connection]) -> str:
    """The kind of a way in the words of `nvidia-smi topo -m`."""
    protocols = [machine.protocol[hop.link.protocol].kind for hop in hops]
    if all(kind.startswith("nvlink") for kind in protocols):
        return f"NV{min(hop.link.width for hop in hops)}"
    between = {end for hop in hops for end in (hop.a, hop.b)} - {start, end}
    if "host" in (start, end) or "host" in between:
        return "PHB"
    return ("PCI", "PIX", "PXB")[min(len(between), 2)]


def _routes(machine: Machine, core: Any) -> dict[tuple[str, str], Route]:
    """The best way between every two of the GPUs and the host."""
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
    """The topology of a described machine."""
    machine, text = read_machine(name_or_path)
    return Topology(machine, _routes(machine, _core()), text=text)


def discover(command: str = "interlace topo") -> Topology:
    """The topology of the machine that this runs on; UserError where there is no GPU to use.

    `command`: what takes the name of a described machine instead.
    """
    core = _core()
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
        found.found, core, "what the driver says makes no machine", _sources(found, source)
    )
    return Topology(machine, _routes(machine, core), found)


def _sources(found: Any, source: Machine | None) -> dict[str, str]:
    """Where every figure of a discovered machine is from: the comments of its file."""
    driver = f"NVIDIA driver {found.driver_version}" if found.driver_version else "the CUDA driver"
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    head = (
        f"Discovered on {platform.node() or 'this node'} on {today}, {driver}, "
        f'CUDA {found.cuda_version or "unknown"}. "queried" figures are the driver\'s; the others '
        "say which description they are taken from."
    )
    sources = {"": " ".join([head, *found.remarks])}
    taken = f"taken from {found.template_name}" if source else "assumed"

    def inherited(key: str) -> str:
        if source is None:
            return "assumed: no description knows this"
        note = source.sources.get(key, "")
        return f"{taken}: {note}" if note else taken

    for key in (one.full for one in KEYS if one.table.partition(".")[0] == "gpu"):
        sources[key] = f"queried: {driver}" if key in found.queried else inherited(key)
    sources["host.model"] = "queried: /proc/cpuinfo"
    for key in ("host.memory_GB_per_s", "host.copy_write_GB_per_s"):
        sources[key] = inherited(key)
    for protocol in {link["protocol"] for link in found.found.links}:
        for key in (
            "max_payload_bytes",
            "packet_overhead_bytes",
            "read_request_bytes",
            "completion_overhead_bytes",
        ):
            at = f"protocol.{protocol}.{key}"
            known = source is not None and at in source.sources
            sources[at] = inherited(at) if known else "assumed: the usual value of such links"
    for index, _ in enumerate(found.found.switches):
        sources[f"switch.{index}.latency_ns"] = f"{taken}, or assumed where it has no such switch"
    for index, rate in enumerate(found.link_rates):
        at = f"link.{index}"
        sources[f"{at}.width"] = f"queried: {driver}"
        sources[f"{at}.bandwidth_GB_per_s"] = rate
        sources[f"{at}.latency_ns"] = f"{taken}, or assumed where it has no such link"
        for key in ("copy_GB_per_s", "copy_both_GB_per_s"):
            sources[f"{at}.{key}"] = f"{taken}, in proportion to the bandwidth"
        sources[f"{at}.queue_KiB"] = "assumed: at least twice bandwidth x latency"
    return sources


# --- measuring ------------------------------------------------------------------------------------


def _measure() -> list[dict[str, Any]]:
    """What the copy engines reach between every two devices."""
    try:
        cuda = importlib.import_module("interlace._cuda")
    except ImportError as error:
        raise UserError(
            "--measure needs the CUDA part of Interlace, which is not built; "
            "run ./quickstart on a machine with an NVIDIA driver"
        ) from error
    try:
        return list(cuda.measure_links())
    except RuntimeError as error:
        raise UserError(f"the links cannot be measured: {error}") from error


def _device(name: Any) -> str:
    """A device as measurements name it: 0, "gpu0" or "host"."""
    return f"gpu{name}" if isinstance(name, int) else str(name)


# --- drawing --------------------------------------------------------------------------------------


def _number(value: float) -> str:
    """Three digits, or all of those before the point."""
    if value == 0 or not math.isfinite(value):
        return "-" if not math.isfinite(value) else "0"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    text = f"{value:.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _table(*columns: str) -> Table:
    """A table without frames, which pipes and narrow terminals leave readable."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False, show_edge=False)
    for at, column in enumerate(columns):
        table.add_column(column, justify="left" if at == 0 else "right", no_wrap=at > 0)
    return table


def _matrix(title: str, rows: Sequence[str], columns: Sequence[str], cell: Any) -> Text:
    """Short words in rows and columns; plain text, as sixteen columns leave no room for frames."""
    table = [[cell(row, column) for column in columns] for row in rows]
    heads = [name.removeprefix("gpu") if len(columns) > 9 else name for name in columns]
    widths = [max(len(head), *(len(line[at]) for line in table)) for at, head in enumerate(heads)]
    left = max(len(name) for name in rows)
    lines = ["", title]
    for name, line in [("", heads), *zip(rows, table, strict=True)]:
        words = "".join(f" {word:>{width}}" for word, width in zip(line, widths, strict=True))
        lines.append(f"{name:<{left}}{words}")
    return Text("\n".join(lines), no_wrap=True, overflow="ignore")


def _legend(words: set[str]) -> str:
    shown = {"NV" if word.startswith("NV") else word for word in words}
    lines = [
        f"  {(key + '#' if key == 'NV' else key):<4} {text}"
        for key, text in WORDS.items()
        if key in shown
    ]
    return "\n".join(lines)


def _draw_devices(console: Console, topology: Topology) -> None:
    machine = topology.machine
    gpu = machine.gpu
    if topology.discovery is not None:
        table = _table("device", "bus id", "memory GiB", "PCIe", "NUMA", "NVLinks")
        for index, device in enumerate(topology.discovery.devices):
            known = device.pcie_generation and device.pcie_width
            table.add_row(
                f"gpu{index}",
                device.bus_id,
                _number(device.memory_bytes / (1 << 30)),
                f"{device.pcie_generation} x{device.pcie_width}" if known else "-",
                str(device.numa_node) if device.numa_node >= 0 else "-",
                str(device.nvlinks),
            )
        console.print()
        console.print(table)
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_header=False)
    table.add_row(
        "GPUs",
        f"{gpu.count} x {gpu.model}: {gpu.compute_units} units at {_number(gpu.clock_MHz)} MHz, "
        f"{_number(gpu.dram.capacity_GiB)} GiB at {_number(gpu.dram.bandwidth_GB_per_s)} GB/s, "
        f"{_number(gpu.l2.size_KiB / 1024)} MiB L2, {gpu.copy.engines} copy engines",
    )
    host = machine.host
    table.add_row("host", f"{host.model}: memory at {_number(host.memory_GB_per_s)} GB/s")
    if machine.switch:
        table.add_row("switches", _switches(machine))
    console.print()
    console.print(table)


def _switches(machine: Machine) -> str:
    """plx0, plx1, plx2 at 150 ns as "plx0-2 (150 ns)"."""
    families: dict[tuple[str, float], list[str]] = {}
    for switch in machine.switch:
        stem = switch.name.rstrip("0123456789")
        families.setdefault((stem, switch.latency_ns), []).append(switch.name)
    return ", ".join(
        f"{names[0]}{'-' + names[-1].removeprefix(stem) if len(names) > 1 else ''} "
        f"({_number(latency)} ns)"
        for (stem, latency), names in families.items()
    )


def _draw_links(console: Console, machine: Machine) -> None:
    table = _table("links", "count", "protocol", "width", "GB/s each way", "latency ns")
    counts = Counter(id(connection.link) for connection in connections(machine))
    merged: dict[tuple[Any, ...], list[int | str]] = {}
    for link in machine.link:
        kinds = tuple(end.rstrip("0123456789-*") for end in link.ends)
        key = (kinds, link.protocol, link.width, link.bandwidth_GB_per_s, link.latency_ns)
        entry = merged.setdefault(key, [0, f"{link.ends[0]} - {link.ends[1]}"])
        if entry[0]:
            entry[1] = f"{kinds[0]} - {kinds[1]}"
        entry[0] = int(entry[0]) + counts[id(link)]
    for (_, protocol, width, rate, latency), (count, ends) in merged.items():
        table.add_row(str(ends), str(count), protocol, str(width), _number(rate), _number(latency))
    console.print()
    console.print(table)


def _relation(topology: Topology, row: str, column: str) -> str:
    """The word of a matrix cell; the driver's own for GPUs of a discovered machine."""
    if row == column:
        return "X"
    if topology.discovery is not None and row != "host" and column != "host":
        at, to = (int(name.removeprefix("gpu")) for name in (row, column))
        return str(topology.discovery.relations[at][to])
    route = topology.routes.get((row, column))
    return route.word if route else "-"


def _matrix_names(topology: Topology) -> list[str]:
    names = gpu_names(topology.machine)
    if any((name, "host") in topology.routes for name in names):
        names.append("host")
    return names


def _draw_routes(console: Console, topology: Topology) -> None:
    """Ways that are alike are one row, with one of them as the example."""
    shapes: dict[tuple[Any, ...], list[Route]] = {}
    for route in topology.routes.values():
        if route.start == "host":
            continue
        kinds = tuple((hop.link.protocol, hop.link.width) for hop in route.hops)
        to_host = route.end == "host"
        shape = (route.word, kinds, route.gb_per_s, route.latency_ns, to_host)
        shapes.setdefault(shape, []).append(route)
    table = _table("routes", "pairs", "GB/s", "ns", "for example")
    table.columns[-1].justify = "left"
    table.columns[-1].no_wrap = False
    for (word, _, rate, latency, to_host), routes in shapes.items():
        table.add_row(
            f"{word} to the host" if to_host else word,
            str(len(routes)),
            _number(rate),
            _number(latency),
            routes[0].text,
        )
    console.print()
    console.print(table)


def draw(topology: Topology, measured: Sequence[dict[str, Any]] | None, console: Console) -> None:
    """Prints a topology for people."""
    machine = topology.machine
    console.print(Text(f"# {machine.name}: {machine.title}"), soft_wrap=True)
    _draw_devices(console, topology)
    rows = gpu_names(machine)
    columns = _matrix_names(topology)

    def relation(row: str, column: str) -> str:
        return _relation(topology, row, column)

    console.print(_matrix("How the devices are linked", rows, columns, relation), soft_wrap=True)
    words = {relation(row, column) for row in rows for column in columns}
    console.print(Text(_legend(words)))

    def rate(row: str, column: str) -> str:
        route = topology.routes.get((row, column))
        return _number(route.gb_per_s) if route else "-"

    title = "GB/s in each direction, packet headers included, of the slowest link on the way"
    console.print(_matrix(title, rows, columns, rate), soft_wrap=True)
    _draw_links(console, machine)
    _draw_routes(console, topology)
    if measured is not None:
        _draw_measured(console, measured)
    if topology.discovery is not None:
        console.print()
        if topology.discovery.template_name:
            console.print(
                f"What the driver does not tell (cache latencies, sustained rates) is taken from "
                f"{topology.discovery.template_name}.",
            )
        for remark in topology.discovery.remarks:
            console.print(Text(f"Note: {remark}"))


def _draw_measured(console: Console, measured: Sequence[dict[str, Any]]) -> None:
    """The largest size of every pair as two matrices."""
    largest: dict[tuple[str, str], dict[str, Any]] = {}
    for row in measured:
        key = (_device(row["from"]), _device(row["to"]))
        if key not in largest or row["bytes"] > largest[key]["bytes"]:
            largest[key] = row
    names = sorted(
        {name for key in largest for name in key},
        key=lambda name: (name == "host", len(name), name),
    )
    size = max((row["bytes"] for row in largest.values()), default=0)
    titles = {
        "gb_per_s": f"Measured: copy engine, {size / 1e6:g} MB from row to column, GB/s of payload",
        "both_gb_per_s": "Measured: both directions at once, sum, GB/s of payload",
    }
    for field, title in titles.items():
        values = {key: row.get(field) for key, row in largest.items()}
        if not any(value is not None for value in values.values()):
            continue

        def cell(row: str, column: str, values: dict[Any, Any] = values) -> str:
            value = values.get((row, column))
            return (
                "X" if row == column and value is None else "-" if value is None else _number(value)
            )

        console.print(_matrix(title, names, names, cell), soft_wrap=True)


# --- JSON -----------------------------------------------------------------------------------------


def to_json(topology: Topology, measured: Sequence[dict[str, Any]] | None) -> dict[str, Any]:
    """The same as data."""
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
    names = _matrix_names(topology)
    return {
        **provenance(),
        "driver": found.driver_version if found is not None else None,
        "discovered": found is not None,
        "machine": description,
        "devices": devices,
        "all_devices": device_names(machine),
        "matrix": {row: {to: _relation(topology, row, to) for to in names} for row in names},
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


# --- the command ----------------------------------------------------------------------------------


def topo_command(
    machine: Annotated[
        str | None,
        typer.Argument(help="A described machine by name or file; without it, this machine."),
    ] = None,
    measure: Annotated[
        bool, typer.Option("--measure", help="Measure what the links of this machine reach.")
    ] = False,
    save: Annotated[
        Path | None, typer.Option("--save", metavar="FILE", help="Write the description as TOML.")
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write what is shown as JSON.")
    ] = None,
) -> None:
    """Draw a described machine, or discover the one that this runs on."""
    if measure and machine is not None:
        raise UserError(
            "--measure measures the machine that this runs on; leave out the machine's name"
        )
    check_outputs({"--save": save, "--json": json_file})
    described = None if machine is None else Path(machine)
    check_outputs({"--json": json_file}, {"MACHINE": described})  # --save may keep it in its form
    topology = discover() if machine is None else describe(machine)
    measured = _measure() if measure else None
    texts: dict[Path, Callable[[], str]] = {}
    if save is not None:
        texts[save] = lambda: topology.text or machine_text(topology.machine)
    if json_file is not None:
        texts[json_file] = lambda: json_text(to_json(topology, measured))
    show_and_write(lambda: draw(topology, measured, Console(highlight=False)), texts)
    for path in texts:
        typer.echo(f"wrote {path}")
