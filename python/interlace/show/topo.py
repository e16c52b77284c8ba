"""Draws a machine with characters: its devices, links and routes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from interlace.machine.devices import connections, gpu_names
from interlace.machine.schema import Machine
from interlace.study.topo import Route, Topology, device_name, matrix_names, relation_of

WORDS = {
    "X": "the device itself",
    "NV": "this many bonded NVLinks, direct or through an NVLink switch",
    "PIX": "PCIe through one switch",
    "PXB": "PCIe through several switches, not through the host",
    "PHB": "PCIe through the host, or a PCIe link to it",
    "NODE": "PCIe through two host bridges of one NUMA node",
    "SYS": "PCIe and the link between two processors",
    "PCI": "a PCIe link between the two devices",
    "PCIE": "PCIe, over a route that the driver does not report",
}


def _number(value: float) -> str:
    """Return a number with three digits, or with all digits before the decimal point."""
    if value == 0 or not math.isfinite(value):
        return "-" if not math.isfinite(value) else "0"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    text = f"{value:.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _table(*columns: str) -> Table:
    """Return a table without frames. It stays readable in pipes and in narrow terminals."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False, show_edge=False)
    for at, column in enumerate(columns):
        table.add_column(column, justify="left" if at == 0 else "right", no_wrap=at > 0)
    return table


def _matrix(title: str, rows: Sequence[str], columns: Sequence[str], cell: Any) -> Text:
    """Return a matrix of short words.

    It is plain text, because sixteen columns leave no room for frames.
    """
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
    """Return the switches as text, such as "plx0-2 (150 ns)" for plx0, plx1 and plx2."""
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


def _draw_routes(console: Console, topology: Topology) -> None:
    """Draw a table of routes. Equal routes share a row, which names one of these routes."""
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
    """Draw a topology for people."""
    machine = topology.machine
    console.print(Text(f"# {machine.name}: {machine.title}"), soft_wrap=True)
    _draw_devices(console, topology)
    rows = gpu_names(machine)
    columns = matrix_names(topology)

    def relation(row: str, column: str) -> str:
        return relation_of(topology, row, column)

    console.print(_matrix("How the devices are linked", rows, columns, relation), soft_wrap=True)
    words = {relation(row, column) for row in rows for column in columns}
    console.print(Text(_legend(words)))

    def rate(row: str, column: str) -> str:
        route = topology.routes.get((row, column))
        return _number(route.gb_per_s) if route else "-"

    title = "GB/s in each direction on the slowest link of the route, packet headers included"
    console.print(_matrix(title, rows, columns, rate), soft_wrap=True)
    _draw_links(console, machine)
    _draw_routes(console, topology)
    if measured is not None:
        _draw_measured(console, measured)
    if topology.discovery is not None:
        console.print()
        if topology.discovery.template_name:
            console.print(
                "The driver does not report some figures (cache latencies, sustained rates). These "
                f"figures come from {topology.discovery.template_name}.",
            )
        for remark in topology.discovery.remarks:
            console.print(Text(f"Note: {remark}"))


def _draw_measured(console: Console, measured: Sequence[dict[str, Any]]) -> None:
    """Draw two matrices with the rate of each pair of devices at the largest size."""
    largest: dict[tuple[str, str], dict[str, Any]] = {}
    for row in measured:
        key = (device_name(row["from"]), device_name(row["to"]))
        if key not in largest or row["bytes"] > largest[key]["bytes"]:
            largest[key] = row
    names = sorted(
        {name for key in largest for name in key},
        key=lambda name: (name == "host", len(name), name),
    )
    size = max((row["bytes"] for row in largest.values()), default=0)
    titles = {
        "gb_per_s": f"Measured: copy engine, {size / 1e6:g} MB from the row's "
        "device to the column's device, in GB/s of payload",
        "both_gb_per_s": "Measured: both directions at once; the sum of both, in GB/s of payload",
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
