"""Machine descriptions: the TOML files in machines/, read, checked, written and handed to C++.

The structs below mirror a file key by key; `FIELDS` maps every key to the field of the C++ structs
in src/machine/machine.hpp, with the factor between the two units. Python alone reads files, so a
machine that reaches C++ has passed `validate`.
"""

from __future__ import annotations

import difflib
import itertools
import math
import os
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, get_args

import msgspec
import tomli_w
from msgspec import UNSET, Meta, UnsetType

from interlace.base import toml_files
from interlace.base.errors import UserError

FORMAT = 1
MAX_GPUS = 16  # as in src/base/limits.hpp
MAX_SWITCHES = 64

Count = Annotated[int, Meta(ge=1, le=1 << 20)]
Positive = Annotated[float, Meta(gt=0, le=1e9)]
# As in src/machine/validate.hpp: what is slower has times that do not fit into 63 bits.
Rate = Annotated[float, Meta(ge=0.1, le=1e9)]  # in GB/s
NotNegative = Annotated[float, Meta(ge=0, le=1e9)]
Bytes = Annotated[int, Meta(ge=1, le=1 << 20)]
Text = Annotated[str, Meta(min_length=1, max_length=200)]


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table of the file: all keys are required unless they have a default."""


class Issue(_Table, frozen=True, kw_only=True):
    """What a compute unit does in a clock."""

    instructions_per_clock: Count
    fp32_lanes_per_clock: Count
    fp64_lanes_per_clock: Count
    integer_lanes_per_clock: Count
    special_lanes_per_clock: Count
    memory_lines_per_clock: Count


class L1(_Table, frozen=True, kw_only=True):
    """The first-level cache of one compute unit."""

    size_KiB: Count  # noqa: N815 (units keep their case)
    ways: Count
    line_bytes: Bytes
    sector_bytes: Bytes
    hit_latency_ns: NotNegative
    outstanding_lines: Annotated[int, Meta(ge=1, le=65535)]
    bandwidth_GB_per_s: Rate  # noqa: N815
    write_policy: Literal["through", "back"]
    set_index: Literal["hashed", "modulo"] = "hashed"
    full_set: Literal["displaces", "stalls"] = "displaces"


class ScalarL1(_Table, frozen=True, kw_only=True):
    """A first-level cache for what a warp loads once for all lanes, shared by compute units."""

    size_KiB: Count  # noqa: N815
    ways: Count
    compute_units: Count
    hit_latency_ns: NotNegative


class L2(_Table, frozen=True, kw_only=True):
    """The second-level cache, all banks of a GPU."""

    size_KiB: Count  # noqa: N815
    ways: Count
    line_bytes: Bytes
    sector_bytes: Bytes
    banks: Count
    hit_latency_ns: NotNegative
    outstanding_lines_per_bank: Annotated[int, Meta(ge=1, le=65535)]
    bandwidth_GB_per_s: Rate  # noqa: N815
    write_policy: Literal["through", "back"]
    atomics_per_clock_per_bank: Count
    port_latency_ns: Annotated[float, Meta(gt=0, le=1e9)] | UnsetType = UNSET


class Tlb(_Table, frozen=True, kw_only=True):
    """Translation look-aside buffers, and the walks of the page table at the host.

    A buffer of each compute unit and of each scalar cache (l1), one of the GPU (l2); a buffer asks
    for so many pages at a time. All GPUs share the walks. On a machine without this table
    translation takes no time.
    """

    page_KiB: Annotated[int, Meta(ge=4, le=2048)]  # noqa: N815
    l1_entries: Count
    l1_ways: Count
    l1_latency_ns: NotNegative
    l1_outstanding_pages: Count
    l2_entries: Count
    l2_ways: Count
    l2_latency_ns: NotNegative
    l2_outstanding_pages: Count
    walks: Count
    walk_ns: NotNegative


class Dram(_Table, frozen=True, kw_only=True):
    """The memory of a GPU."""

    capacity_GiB: Positive  # noqa: N815
    bandwidth_GB_per_s: Rate  # noqa: N815
    channels: Count
    latency_ns: NotNegative


class Copy(_Table, frozen=True, kw_only=True):
    """The copy engines of a GPU; the host's part of a copy: its launch, and an event waited for.

    Those of copies to other GPUs are all of them where nothing else is said. The latency of an
    event is from a copy's end to the start of one of another stream behind it.
    """

    engines: Count
    peer_engines: Count | UnsetType = UNSET
    setup_us: NotNegative
    wait_us: NotNegative
    host_us: NotNegative
    launch_us: NotNegative
    event_us: NotNegative
    event_latency_us: NotNegative = 0
    bandwidth_GB_per_s: Rate  # noqa: N815


class Graph(_Table, frozen=True, kw_only=True):
    """What CUDA graphs of copies cost the host thread, for a graph and for each of its nodes.

    The defaults were measured on an H200 node (driver 580.159, CUDA 13.0): graphs of 5 to 160 copy
    nodes take 13 to 231 us a launch and 53 to 2111 us to instantiate, and 0.34 us a node whose
    addresses change. Creation and construction are assumed to be a call of about 1 us each.
    """

    creation_us: NotNegative = 1.0
    construction_node_us: NotNegative = 1.0
    instantiation_us: NotNegative = 0.0
    instantiation_node_us: NotNegative = 13.2
    update_node_us: NotNegative = 0.34
    launch_us: NotNegative = 6.0
    launch_node_us: NotNegative = 1.4


class Launch(_Table, frozen=True, kw_only=True):
    """What starting a kernel, a block and a system-scope fence cost on the device.

    Also kernels that kernels launch, how soon an agent sees what it polls for, and which compute
    unit gets the next block.
    """

    kernel_us: NotNegative
    block_ns: NotNegative
    fence_ns: NotNegative
    device_us: NotNegative
    device_interval_us: NotNegative
    device_pending_launches: Count
    poll_ns: NotNegative
    dispatch: Literal["round-robin", "greedy", "partition"] = "round-robin"


class RemoteWriteQueue(_Table, frozen=True, kw_only=True):
    """FinePack's queue, packets and de-packetizer, which no GPU has.

    The defaults are those of the paper (HPCA 2023, Table III and section IV-B).
    """

    lines_per_destination: Annotated[int, Meta(ge=1, le=65536)] = 64
    windows_per_destination: Annotated[int, Meta(ge=1, le=64)] = 1
    window: Literal["aligned", "growing"] = "aligned"
    subheader_bytes: Annotated[int, Meta(ge=2, le=6)] = 5
    payload_bytes: Annotated[int, Meta(ge=1, le=4096)] = 4096
    idle_flush_ns: NotNegative = 0
    unpacked_lines: Annotated[int, Meta(ge=1, le=65536)] = 64


class Gps(_Table, frozen=True, kw_only=True):
    """The queue and the pages of GPS, which no GPU has; the defaults are those of the paper."""

    queue_lines: Annotated[int, Meta(ge=1, le=65536)] = 512
    page_KiB: Count = 64  # noqa: N815


class DualOpt(_Table, frozen=True, kw_only=True):
    """What treats a GPU's remote loads, which no GPU has; the defaults are those of the paper.

    (PACT 2022, Table 1.) A machine without this table has nothing of it.
    """

    granularity_bytes: Literal[4, 8, 16] = 4
    buffer_pieces_per_destination: Annotated[int, Meta(ge=16, le=65536)] = 64
    timeout_clocks: Annotated[int, Meta(ge=0, le=1 << 20)] = 30
    packet_bytes: Annotated[int, Meta(ge=22, le=128)] = 64
    rdma_cache_KiB: Count = 1536  # noqa: N815
    rdma_cache_ways: Annotated[int, Meta(ge=1, le=1024)] = 16
    remote_threshold: Annotated[float, Meta(ge=0, le=1)] = 0.02
    block_threshold: Annotated[float, Meta(ge=0, le=1)] = 0.2
    hit_threshold: Annotated[float, Meta(ge=0, le=1)] = 0.4
    monitored_accesses: Count = 20000
    warm_up_accesses: Annotated[int, Meta(ge=0, le=1 << 30)]
    # An engine that keeps watching: windows that change its mind, and of so many compute units one
    # that keeps looking into its L1. Not of the paper.
    agreeing_windows: Annotated[int, Meta(ge=1, le=1024)] = 2
    looking_compute_units: Annotated[int, Meta(ge=1, le=1024)] = 64
    # Remote loads of a page before it is treated by itself. Not of the paper.
    page_loads: Annotated[int, Meta(ge=1, le=1 << 20)] = 64


class Griffin(_Table, frozen=True, kw_only=True):
    """What moves pages by what GPUs access (HPCA 2020), which no GPU has.

    A machine without this table has nothing of it, and one with it has TLBs.
    """

    batch_pages: Count
    counting_clocks: Count
    counted_pages: Count
    look_periods: Count
    newest_weight: Annotated[float, Meta(gt=0, le=1)]
    least_accesses: NotNegative
    dedicated_factor: Annotated[float, Meta(ge=1, le=1e9)]
    shared_factor: Annotated[float, Meta(ge=1, le=1e9)]


class Gpu(_Table, frozen=True, kw_only=True):
    """The one kind of GPU that a machine has, and how many.

    Of what the lanes of a warp store side by side to another GPU, so many bytes are one store; a
    line where nothing else is said.
    """

    count: Annotated[int, Meta(ge=1, le=MAX_GPUS)]
    model: Text
    compute_units: Annotated[int, Meta(ge=1, le=65534)]
    clock_MHz: Annotated[float, Meta(ge=1, le=1e9)]  # noqa: N815
    warp_width_lanes: Annotated[int, Meta(ge=1, le=64)]
    warps_per_compute_unit: Count
    blocks_per_compute_unit: Count
    shared_KiB_per_compute_unit: Count  # noqa: N815
    store_queue_lines_per_compute_unit: Count
    remote_store_bytes: Annotated[int, Meta(ge=1, le=128)] | UnsetType = UNSET
    store_GB_per_s_per_compute_unit: Rate | UnsetType = UNSET  # noqa: N815
    issue: Issue
    l1: L1
    scalar_l1: ScalarL1 | UnsetType = UNSET
    l2: L2
    tlb: Tlb | UnsetType = UNSET
    dram: Dram
    copy: Copy
    graph: Graph = Graph()
    launch: Launch
    remote_write_queue: RemoteWriteQueue = RemoteWriteQueue()
    gps: Gps = Gps()
    dualopt: DualOpt | UnsetType = UNSET
    griffin: Griffin | UnsetType = UNSET


class Host(_Table, frozen=True, kw_only=True):
    """The processors and their memory, one place; what copies of all GPUs write to it together."""

    model: Text
    memory_GB_per_s: Rate  # noqa: N815
    copy_write_GB_per_s: Rate | UnsetType = UNSET  # noqa: N815


class Protocol(_Table, frozen=True, kw_only=True):
    """How payload becomes packets; `word_write_bytes` is for NVLink only, keys before it for PCIe.

    Packets take whole flits where `flit_bytes` is given. `word_write_bytes`: of a whole packet that
    writes 4 bytes or fewer, where it is not as long as its flits are.
    """

    kind: Literal["pcie3", "pcie4", "pcie5", "pcie6", "nvlink1", "nvlink2", "nvlink3", "nvlink4"]
    max_payload_bytes: Annotated[int, Meta(ge=16, le=4096)]
    packet_overhead_bytes: Annotated[int, Meta(ge=0, le=256)] | UnsetType = UNSET
    read_request_bytes: Annotated[int, Meta(ge=1, le=256)] | UnsetType = UNSET
    completion_overhead_bytes: Annotated[int, Meta(ge=0, le=256)] | UnsetType = UNSET
    flit_bytes: Annotated[int, Meta(ge=2, le=256)] | UnsetType = UNSET
    word_write_bytes: Annotated[int, Meta(ge=16, le=256)] | UnsetType = UNSET


class Switch(_Table, frozen=True, kw_only=True):
    """A switch; it forwards between its links at full rate."""

    name: Annotated[str, Meta(pattern="^[a-z][a-z0-9_]*$", max_length=40)]
    latency_ns: NotNegative


class Link(_Table, frozen=True, kw_only=True):
    """One full-duplex link, or several alike when an end stands for several devices.

    An end is "gpu0", a switch's name or "host"; "gpu*" stands for every GPU, "gpu0-3" for four of
    them, and "plx*" likewise for switches. Two ends that are the same group are every pair once.
    The copy rates are payload of long copies, measured in one direction and the sum of both.
    """

    ends: tuple[str, str]
    protocol: str
    width: Annotated[int, Meta(ge=1, le=64)]
    bandwidth_GB_per_s: Rate  # noqa: N815
    latency_ns: NotNegative
    copy_GB_per_s: Rate | UnsetType = UNSET  # noqa: N815
    copy_both_GB_per_s: Rate | UnsetType = UNSET  # noqa: N815
    queue_KiB: Annotated[float, Meta(gt=0, le=1 << 20)]  # noqa: N815


class Machine(_Table, frozen=True, kw_only=True):
    """A machine file. `name` and `sources` are not keys of it.

    `sources` holds the comments: for "gpu.count" that key's, for "link.0" the one above the first
    [[link]], for "" the one at the top of the file.
    """

    name: str
    format: Literal[1]
    title: Text
    gpu: Gpu
    host: Host
    protocol: dict[str, Protocol]
    link: tuple[Link, ...]
    switch: tuple[Switch, ...] = ()
    sources: dict[str, str] = {}


class Connection(NamedTuple):
    """A link between two named devices, after groups are expanded."""

    a: str
    b: str
    link: Link


# --- ends and paths -------------------------------------------------------------------------------


def gpu_names(machine: Machine) -> list[str]:
    """gpu0, gpu1, ..."""
    return [f"gpu{index}" for index in range(machine.gpu.count)]


def device_names(machine: Machine) -> list[str]:
    """Everything that a link can end at: GPUs, switches, the host."""
    return [*gpu_names(machine), *(switch.name for switch in machine.switch), "host"]


def _group(end: str, devices: Sequence[str]) -> list[str]:
    """The devices that an end stands for; none if there is no such device."""
    if end in devices:
        return [end]
    if end.endswith("*"):
        stem = re.escape(end[:-1])
        return [name for name in devices if re.fullmatch(stem + "[0-9]+", name)]
    if parts := re.fullmatch(r"([a-z][a-z0-9_]*?)([0-9]{1,4})-([0-9]{1,4})", end):
        stem, first, last = parts[1], int(parts[2]), int(parts[3])
        names = [f"{stem}{index}" for index in range(first, last + 1)]
        return names if all(name in devices for name in names) else []
    return []


def connections(machine: Machine) -> list[Connection]:
    """The links of a machine one by one, in the order of the file."""
    devices = device_names(machine)
    return [Connection(a, b, link) for link in machine.link for a, b in _pairs(link, devices)]


def _pairs(link: Link, devices: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The devices that a link joins."""
    left, right = (_group(end, devices) for end in link.ends)
    if link.ends[0] == link.ends[1]:
        return itertools.combinations(left, 2)
    return ((a, b) for a, b in itertools.product(left, right) if a != b)


def _reachable(start: str, neighbours: dict[str, set[str]]) -> set[str]:
    """What `start` can reach; GPUs do not forward."""
    seen = {start}
    frontier = [start]
    while frontier:
        at = frontier.pop()
        if at != start and at.startswith("gpu"):
            continue
        new = neighbours.get(at, set()) - seen
        seen |= new
        frontier.extend(new)
    return seen


# --- checking -------------------------------------------------------------------------------------


def _plain_pair(link: Link) -> str:
    return f'"{link.ends[0]}" to "{link.ends[1]}"'


def _there_are(names: Sequence[str]) -> str:
    return f"there are {', '.join(names)}" if names else "there is none"


def _problems_of_protocol(name: str, protocol: Protocol) -> Iterator[str]:
    where = f"protocol.{name}"
    packet_keys = ("packet_overhead_bytes", "read_request_bytes", "completion_overhead_bytes")
    for key in packet_keys:
        given = getattr(protocol, key) is not UNSET
        if protocol.kind.startswith("pcie") and not given:
            yield f"{where}.{key} is missing; {protocol.kind} counts packets with it"
        if protocol.kind.startswith("nvlink") and given:
            yield f"{where}.{key} has no meaning for {protocol.kind}"
    if protocol.kind.startswith("nvlink") and protocol.flit_bytes is not UNSET:
        yield f"{where}.flit_bytes has no meaning for {protocol.kind}"
    if protocol.kind.startswith("pcie") and protocol.word_write_bytes is not UNSET:
        yield f"{where}.word_write_bytes has no meaning for {protocol.kind}"
    payload = protocol.max_payload_bytes
    if protocol.kind.startswith("nvlink") and (payload > 256 or payload % 16):
        yield f"{where}.max_payload_bytes is {payload}; NVLink packets carry 16 to 256, by 16"
    if protocol.kind.startswith("pcie") and payload & (payload - 1):
        yield f"{where}.max_payload_bytes is {payload}; PCIe payload sizes are powers of two"


def _problems_of_cache(where: str, cache: L1 | L2) -> Iterator[str]:
    for key in ("line_bytes", "sector_bytes"):
        value = getattr(cache, key)
        if value & (value - 1):
            yield f"{where}.{key} is {value}; it must be a power of two"
    if cache.line_bytes not in (64, 128):
        yield (
            f"{where}.line_bytes is {cache.line_bytes}; the simulator has lines of 64 or 128 bytes"
        )
    if cache.line_bytes > 6 * cache.sector_bytes:
        yield f"{where}.sector_bytes is {cache.sector_bytes}; a line has at most 6 sectors"
    if cache.line_bytes % cache.sector_bytes:
        yield f"{where}.sector_bytes is {cache.sector_bytes}, which does not divide line_bytes"
    banks = cache.banks if isinstance(cache, L2) else 1
    if cache.size_KiB * 1024 % (banks * cache.ways * cache.line_bytes):
        unit = "banks x ways x line_bytes" if banks > 1 else "ways x line_bytes"
        yield f"{where}.size_KiB is {cache.size_KiB}, which is not a multiple of {unit}"


def _problems_of_scalar_cache(gpu: Gpu) -> Iterator[str]:
    if isinstance(gpu.scalar_l1, UnsetType):
        return
    if gpu.scalar_l1.size_KiB * 1024 % (gpu.scalar_l1.ways * gpu.l1.line_bytes):
        yield (
            f"gpu.scalar_l1.size_KiB is {gpu.scalar_l1.size_KiB}, which is not a multiple of "
            "ways x line_bytes"
        )
    if gpu.compute_units % gpu.scalar_l1.compute_units:
        yield (
            f"gpu.scalar_l1.compute_units is {gpu.scalar_l1.compute_units}, which does not divide "
            f"gpu.compute_units, {gpu.compute_units}"
        )


def _problems_of_tlb(gpu: Gpu) -> Iterator[str]:
    if isinstance(gpu.tlb, UnsetType):
        return
    page = gpu.tlb.page_KiB
    if page & (page - 1):
        yield f"gpu.tlb.page_KiB is {page}; it must be a power of two"
    for level in ("l1", "l2"):
        entries, ways = (getattr(gpu.tlb, f"{level}_{key}") for key in ("entries", "ways"))
        sets = entries // ways
        if sets == 0 or entries % ways or sets & (sets - 1):
            yield (
                f"gpu.tlb.{level}_entries is {entries}; it must be {level}_ways, which is {ways}, "
                "times a power of two"
            )


def _problems_of_griffin(gpu: Gpu) -> Iterator[str]:
    rules = gpu.griffin
    if isinstance(rules, UnsetType):
        return
    if isinstance(gpu.tlb, UnsetType):
        yield "gpu.tlb is missing; gpu.griffin takes translations"
    if rules.shared_factor > rules.dedicated_factor:
        yield (
            f"gpu.griffin.shared_factor is {rules.shared_factor:g}; it must be at most "
            f"dedicated_factor, which is {rules.dedicated_factor:g}"
        )


def _problems_of_engines(copy: Copy) -> Iterator[str]:
    if isinstance(copy.peer_engines, UnsetType) or copy.peer_engines <= copy.engines:
        return
    yield (
        f"gpu.copy.peer_engines is {copy.peer_engines}; it is a part of gpu.copy.engines, which is "
        f"{copy.engines}"
    )


def _problems_of_dualopt(gpu: Gpu) -> Iterator[str]:
    if isinstance(gpu.dualopt, UnsetType):
        return
    size, key = gpu.dualopt.rdma_cache_KiB, "gpu.dualopt.rdma_cache_KiB"
    if size >= gpu.l2.size_KiB:
        yield f"{key} is {size}; it is a part of gpu.l2.size_KiB, which is {gpu.l2.size_KiB}"
    elif size * 1024 % (gpu.dualopt.rdma_cache_ways * gpu.l2.line_bytes):
        yield f"{key} is {size}, which is not a multiple of rdma_cache_ways x line_bytes"
    elif (gpu.l2.size_KiB - size) * 1024 % (gpu.l2.banks * gpu.l2.ways * gpu.l2.line_bytes):
        yield (
            f"{key} is {size}; what it leaves to the L2 is not a multiple of "
            "banks x ways x line_bytes"
        )


def _problems_of_copy_rates(machine: Machine) -> Iterator[str]:
    for index, link in enumerate(machine.link):
        rates = (
            ("copy_GB_per_s", link.copy_GB_per_s, 1),
            ("copy_both_GB_per_s", link.copy_both_GB_per_s, 2),
        )
        for key, rate, directions in rates:
            most = directions * link.bandwidth_GB_per_s
            if not isinstance(rate, UnsetType) and rate > most:
                yield f"link {index + 1}: {key} is {rate:g}, more than the link's {most:g} GB/s"
    host = machine.host
    written = host.copy_write_GB_per_s
    if not isinstance(written, UnsetType) and written > host.memory_GB_per_s:
        yield f"host.copy_write_GB_per_s is {written:g}, more than memory_GB_per_s"


def _problems_of_links(machine: Machine) -> Iterator[str]:
    devices = device_names(machine)
    sound = True
    for index, link in enumerate(machine.link):
        where = f"link {index + 1}"
        for end in link.ends:
            if not _group(end, devices):
                sound = False
                yield f'{where}: ends: "{end}" does not exist; {_there_are(devices)}'
        if link.ends[0] == link.ends[1] and len(_group(link.ends[0], devices)) == 1:
            sound = False
            yield f'{where}: ends: both are "{link.ends[0]}"'
        if link.protocol not in machine.protocol:
            yield (
                f'{where}: protocol: "{link.protocol}" is not described; '
                f"{_there_are(sorted(machine.protocol))}"
            )
    if not sound:
        return
    seen: dict[tuple[frozenset[str], str], Link] = {}
    neighbours: dict[str, set[str]] = {}
    for index, link in enumerate(machine.link):
        for a, b in _pairs(link, devices):
            key = (frozenset((a, b)), link.protocol)
            if key in seen:
                yield (
                    f"link {index + 1}: {a} and {b} already have a {link.protocol} link "
                    f"({_plain_pair(seen[key])}); state its width and bandwidth there"
                )
                return
            seen[key] = link
            neighbours.setdefault(a, set()).add(b)
            neighbours.setdefault(b, set()).add(a)
    for one, other in itertools.combinations(gpu_names(machine), 2):
        if other not in _reachable(one, neighbours):
            yield (
                f"link: no path from {one} to {other}; GPUs do not forward, so each needs a link "
                "to a common switch, to the host or to the other"
            )
            return
    for switch in machine.switch:
        if switch.name not in neighbours:
            yield f'switch: "{switch.name}" has no link'


def validate(machine: Machine) -> list[str]:
    """What is wrong with a machine beyond types and single values; empty if nothing is."""
    found: list[str] = []
    for path, value in _numbers("", msgspec.to_builtins(machine)):
        if not math.isfinite(value):
            found.append(f"{path} is {value}; it must be finite")
    gpu = machine.gpu
    if gpu.warp_width_lanes & (gpu.warp_width_lanes - 1):
        found.append(f"gpu.warp_width_lanes is {gpu.warp_width_lanes}; it must be a power of two")
    joined = gpu.remote_store_bytes
    if not isinstance(joined, UnsetType) and joined & (joined - 1):
        found.append(f"gpu.remote_store_bytes is {joined}; it must be a power of two")
    found.extend(_problems_of_cache("gpu.l1", gpu.l1))
    found.extend(_problems_of_cache("gpu.l2", gpu.l2))
    found.extend(_problems_of_scalar_cache(gpu))
    found.extend(_problems_of_tlb(gpu))
    found.extend(_problems_of_griffin(gpu))
    found.extend(_problems_of_dualopt(gpu))
    found.extend(_problems_of_engines(gpu.copy))
    found.extend(_problems_of_copy_rates(machine))
    queue = gpu.remote_write_queue
    if queue.payload_bytes < (least := gpu.l2.line_bytes + queue.subheader_bytes):
        found.append(
            f"gpu.remote_write_queue.payload_bytes is {queue.payload_bytes}; a line and its "
            f"sub-header are {least}"
        )
    for key in ("line_bytes", "sector_bytes"):
        first, second = getattr(gpu.l1, key), getattr(gpu.l2, key)
        if first != second:
            found.append(f"gpu.l2.{key} is {second}; it must be gpu.l1.{key}, which is {first}")
    for name, protocol in machine.protocol.items():
        found.extend(_problems_of_protocol(name, protocol))
    names: set[str] = set()
    if len(machine.switch) > MAX_SWITCHES:
        found.append(f"switch: there are {len(machine.switch)}; at most {MAX_SWITCHES} are allowed")
    for switch in machine.switch:
        if switch.name == "host" or re.fullmatch("gpu[0-9]*", switch.name):
            found.append(f'switch: the name "{switch.name}" is taken')
        elif switch.name in names:
            found.append(f'switch: two are named "{switch.name}"')
        names.add(switch.name)
    if not found:
        found.extend(_problems_of_links(machine))
    return found


def _numbers(path: str, value: Any) -> Iterator[tuple[str, float]]:
    """Every number below `value` with its key."""
    if isinstance(value, bool):
        return
    if isinstance(value, int | float):
        yield path, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _numbers(f"{path}.{key}" if path else key, inner)
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            yield from _numbers(f"{path} {index + 1}", inner)


# --- reading --------------------------------------------------------------------------------------


def _machines_folder() -> Path:
    """The folder with the shipped descriptions: in the package, or beside it in a checkout."""
    here = Path(__file__).resolve()
    packaged = here.parents[1] / "machines"
    return packaged if packaged.is_dir() else here.parents[3] / "machines"


def shipped_machines() -> list[str]:
    """The names of the descriptions that come with Interlace, in order."""
    return sorted(path.stem for path in _machines_folder().glob("*.toml"))


def _did_you_mean(word: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return f" (did you mean {close[0]}?)" if close else ""


def _find(name_or_path: str) -> Path:
    path = Path(name_or_path)
    shipped = _machines_folder() / f"{name_or_path}.toml"
    names = shipped_machines()
    try:
        if name_or_path and path.exists() and not (path.is_dir() and name_or_path in names):
            return path
    except (OSError, ValueError):  # a name that no file can have
        pass
    if name_or_path in names:
        return shipped
    if name_or_path.endswith(".toml") or "/" in name_or_path:
        raise UserError(f"{name_or_path}: there is no such machine file")
    raise UserError(
        f"there is no machine {name_or_path!r}{_did_you_mean(name_or_path, names)}; "
        f"{_there_are(names)}, and the path of a .toml file works too"
    )


_MSGSPEC_PLACE = re.compile(r"^(?P<what>.*?)(?: - at `(?P<where>.*)`)?$", re.DOTALL)


def _key(where: str | None) -> str:
    """`$.link[0].ends[1]` becomes `link 1: ends`, `$.gpu.l1` becomes `gpu.l1`."""
    if not where or where == "$":
        return ""
    key = where.removeprefix("$").removeprefix(".")
    key = re.sub(r"\[(\d+)\]$", "", key) if not re.fullmatch(r"\w+\[\d+\]", key) else key
    return re.sub(r"^(\w+)\[(\d+)\]\.?", lambda m: f"{m[1]} {int(m[2]) + 1}: ", key)


def _at(document: Any, where: str | None) -> Any:
    """The value at a msgspec path."""
    for part in re.findall(r"\.([^.\[]+)|\[(\d+|\.\.\.)\]", where or ""):
        name, index = part
        try:
            document = document[name] if name else document[int(index)]
        except (KeyError, IndexError, TypeError, ValueError):
            return None
    return document


def _table_in(annotation: Any) -> type[_Table] | None:
    """The table that a key of this type holds, if it holds one or several."""
    for one in (annotation, *get_args(annotation)):
        if isinstance(one, type) and issubclass(one, _Table):
            return one
    return None


def _types_of(key: str) -> dict[str, Any]:
    """The keys that the table at `key` may have, and their types."""
    kind: type[_Table] = Machine
    for part in re.split(r"[ .]", key):  # names of protocols and indices of links are no keys
        types = {field.encode_name: field.type for field in msgspec.structs.fields(kind)}
        kind = _table_in(types.get(part)) or kind
    types = {field.encode_name: field.type for field in msgspec.structs.fields(kind)}
    if kind is Machine:
        del types["name"], types["sources"]
    return types


_KINDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "a string",
    "object": "a table",
    "array": "a list",
    "bool": "true or false",
    "tuple": "a list",
    "null": "nothing",
}


def _sentence(error: msgspec.ValidationError, document: dict[str, Any]) -> str:
    """A msgspec error in the words of the file."""
    parts = _MSGSPEC_PLACE.match(str(error))
    assert parts is not None
    what, where = parts["what"], parts["where"]
    if where and "[...]" in where:  # msgspec does not say which key of a dict
        for name, protocol in document.get("protocol", {}).items():
            try:
                msgspec.convert(protocol, Protocol)
            except msgspec.ValidationError as inner:
                inner_parts = _MSGSPEC_PLACE.match(str(inner))
                assert inner_parts is not None
                what = inner_parts["what"]
                where = f"$.protocol.{name}" + (inner_parts["where"] or "$").removeprefix("$")
                break
    key = _key(where)
    prefix = f"{key.removesuffix(': ')}." if key and not key.endswith(": ") else key
    if field := re.fullmatch(r"Object missing required field `(.*)`", what):
        return f"{prefix}{field[1]} is missing"
    if field := re.fullmatch(r"Object contains unknown field `(.*)`", what):
        hint = _did_you_mean(field[1], list(_types_of(key.removesuffix(": "))))
        return f"{prefix}{field[1]} is not a known key{hint}"
    key = key.removesuffix(": ")
    value = _at(document, where)
    shown = repr(value) if isinstance(value, str) else str(value)
    shown = shown if len(shown) <= 40 else shown[:37] + "..."
    if types := re.fullmatch(r"Expected `([^`]*)`, got `([^`]*)`", what):
        wanted = types[1].split(" | ")[0]
        return f"{key} must be {_KINDS.get(wanted, wanted)}, not {_KINDS.get(types[2], types[2])}"
    if limit := re.fullmatch(r"Expected `(?:int|float)` (<=|>=|<|>) ([0-9.e+]+)", what):
        words = {"<=": "at most", ">=": "at least", "<": "less than", ">": "more than"}
        bound = f"{float(limit[2]):.12g}"
        return f"{key} is {shown}; it must be {words[limit[1]]} {bound}"
    if what.startswith("Invalid enum value"):
        table, _, name = key.replace(": ", ".").rpartition(".")
        choices = _choices(table, name)
        return f"{key} is {shown}; it must be {choices}"
    if "matching regex" in what:
        return f"{key} is {shown}; it must be lower-case letters, digits and _, a letter first"
    if "of length" in what:
        return f"{key} has a wrong length: {what[0].lower()}{what[1:]}".replace("`", "")
    return f"{key}: {what[0].lower()}{what[1:]}".replace("`", "")


def _choices(table: str, name: str) -> str:
    """The values of a key that has a few."""
    *words, last = [
        f'"{it}"' if isinstance(it, str) else str(it) for it in get_args(_types_of(table)[name])
    ]
    return f"{', '.join(words)} or {last}"


_HEADER = re.compile(r"\[\[?\s*([A-Za-z0-9_.-]+)\s*\]\]?\s*(?:#\s*(.*))?")
_VALUE = r"""(?:[^#"']|"(?:[^"\\]|\\.)*"|'[^']*')*"""
_ASSIGNMENT = re.compile(rf"([A-Za-z0-9_-]+)\s*=\s*({_VALUE})(?:#\s*(.*))?")


def _comments(text: str) -> dict[str, str]:
    """The comment of every key: on its line, or in the lines directly above it."""
    found: dict[str, str] = {}
    above: list[str] = []
    table = ""
    counts: dict[str, int] = {}
    first_key = True
    for raw in text.splitlines():
        line = raw.strip()
        if line.startswith("#"):
            above.append(line.lstrip("#").strip())
            continue
        if header := _HEADER.fullmatch(line):
            table = header[1]
            if line.startswith("[["):
                index = counts.get(table, 0)
                counts[table] = index + 1
                table = f"{table}.{index}"
            key, comment = table, header[2]
        elif assignment := _ASSIGNMENT.fullmatch(line):
            key = f"{table}.{assignment[1]}" if table else assignment[1]
            comment = assignment[3]
        else:
            if not line and first_key and above:
                found[""] = " ".join(above)
            above = []
            continue
        if first_key and above:  # the comment at the top belongs to the file
            found[""] = " ".join(above)
            above = []
        first_key = False
        words = [*above, comment] if comment else above
        if words:
            found[key] = " ".join(words)
        above = []
    return found


def parse_machine(text: str, name: str, where: str) -> Machine:
    """A machine from the text of a file; `where` is how errors name the file."""
    document = toml_files.parse(text, where, "machine", FORMAT)
    for key in ("name", "sources"):
        if key in document:
            raise UserError(f"{where}: {key} is not a known key; the file's name is the machine's")
    try:
        machine = msgspec.convert({**document, "name": name, "sources": _comments(text)}, Machine)
    except msgspec.ValidationError as error:
        raise UserError(f"{where}: {_sentence(error, document)}") from error
    problems = validate(machine)
    if problems:
        raise UserError(f"{where}: {problems[0]}")
    return machine


def load_machine(name_or_path: str | os.PathLike[str]) -> Machine:
    """Reads a machine by the name of a shipped one or by the path of a file."""
    path = _find(os.fspath(name_or_path))
    return parse_machine(toml_files.read_text(path, "machine"), path.stem, str(path))


# --- variants ------------------------------------------------------------------------------------


def changed(machine: Machine, values: Mapping[str, Any], where: str) -> Machine:
    """The machine with other values for some keys; `where` is how errors name their origin.

    A key is one of a machine file: gpu.l2.size_KiB, protocol.nvlink2.max_payload_bytes. Of links
    and switches, link.latency_ns is that of all, link.PROTOCOL.latency_ns that of the links with
    this protocol, switch.NAME.latency_ns that of one switch.
    """
    document = msgspec.to_builtins(machine)
    for key, value in values.items():
        targets, last = _targets(document, key, where)
        for target in targets:
            target[last] = value
    try:
        made = msgspec.convert(document, Machine)
    except msgspec.ValidationError as error:
        raise UserError(f"{where}: {_sentence(error, document)}") from error
    problems = validate(made)
    if problems:
        raise UserError(f"{where}: {problems[0]}")
    return made


def _targets(document: dict[str, Any], key: str, where: str) -> tuple[list[dict[str, Any]], str]:
    """The tables that hold a key, and its last part."""
    table, *parts = key.split(".")
    if table not in ("gpu", "host", "protocol", "link", "switch") or not parts or "" in parts:
        raise UserError(
            f"{where}: {key} is no key of a machine; such keys are gpu.l2.size_KiB, "
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
                f"{where}: {key}: there is no {table} {'.'.join(inner)}; {_there_are(names)}"
            )
        return chosen, last
    at = document[table]
    path = table
    for part in inner:
        if not isinstance(at.get(part), dict):
            hint = _did_you_mean(part, [k for k, v in at.items() if isinstance(v, dict)])
            raise UserError(f"{where}: {key}: there is no table {path}.{part}{hint}")
        at = at[part]
        path = f"{path}.{part}"
    return [at], last


# --- writing --------------------------------------------------------------------------------------

_WIDTH = 100


def _comment_lines(text: str) -> list[str]:
    return textwrap.wrap(
        text, _WIDTH - 2, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False
    )


def _lines_of(value: dict[str, Any], path: str, sources: dict[str, str]) -> list[str]:
    """The plain keys of a table, each with its comment."""
    lines: list[str] = []
    for key, inner in value.items():
        if isinstance(inner, dict):
            continue
        inner = list(inner) if isinstance(inner, tuple) else inner
        if isinstance(inner, list):
            text = f"{key} = [{', '.join(tomli_w.dumps({'x': item})[4:-1] for item in inner)}]"
        else:
            if isinstance(inner, float) and inner.is_integer():
                inner = int(inner)
            text = tomli_w.dumps({key: inner}).rstrip("\n")
        comment = sources.get(f"{path}.{key}" if path else key, "")
        if comment and len(text) + 4 + len(comment) <= _WIDTH:
            lines.append(f"{text}  # {comment}")
        else:
            lines.extend(_comment_lines(comment))
            lines.append(text)
    return lines


def machine_text(machine: Machine) -> str:
    """The file of a machine, with the comments in `sources`.

    Raises UserError for a machine that could not be loaded again.
    """
    if problems := validate(machine):
        raise UserError(f"{machine.name}: {problems[0]}")
    document = msgspec.to_builtins(machine)
    sources = document.pop("sources")
    del document["name"]
    lines = _comment_lines(sources.get("", ""))
    if lines:
        lines.append("")
    lines.extend(_lines_of({key: document[key] for key in ("format", "title")}, "", sources))

    def table(path: str, value: dict[str, Any]) -> None:
        lines.extend(["", *_comment_lines(sources.get(path, "")), f"[{path}]"])
        lines.extend(_lines_of(value, path, sources))
        for key, inner in value.items():
            if isinstance(inner, dict):
                table(f"{path}.{key}", inner)

    table("gpu", document["gpu"])
    table("host", document["host"])
    for name, protocol in document["protocol"].items():
        table(f"protocol.{name}", protocol)
    for kind in ("switch", "link"):
        for index, value in enumerate(document[kind]):
            path = f"{kind}.{index}"
            lines.extend(["", *_comment_lines(sources.get(path, "")), f"[[{kind}]]"])
            lines.extend(_lines_of(value, path, sources))
    return "\n".join(lines) + "\n"


# --- C++ ------------------------------------------------------------------------------------------

# key of the file, field of the C++ struct, C++ unit per unit of the file (None: as it is)
_Fields = tuple[tuple[str, str, float | None], ...]
FIELDS: _Fields = (
    ("count", "gpu_count", None),
    ("model", "gpu.model", None),
    ("compute_units", "gpu.compute_units", None),
    ("clock_MHz", "gpu.clock_hz", 1e6),
    ("warp_width_lanes", "gpu.warp_width", None),
    ("warps_per_compute_unit", "gpu.max_warps", None),
    ("blocks_per_compute_unit", "gpu.max_blocks", None),
    ("shared_KiB_per_compute_unit", "gpu.shared_bytes", 1024),
    ("store_queue_lines_per_compute_unit", "gpu.store_queue_lines", None),
    ("issue.instructions_per_clock", "gpu.issue.instructions", None),
    ("issue.fp32_lanes_per_clock", "gpu.issue.fp32", None),
    ("issue.fp64_lanes_per_clock", "gpu.issue.fp64", None),
    ("issue.integer_lanes_per_clock", "gpu.issue.integer", None),
    ("issue.special_lanes_per_clock", "gpu.issue.special", None),
    ("issue.memory_lines_per_clock", "gpu.issue.memory_lines", None),
    ("l1.size_KiB", "gpu.l1.bytes", 1024),
    ("l1.ways", "gpu.l1.ways", None),
    ("l1.line_bytes", "gpu.l1.line_bytes", None),
    ("l1.sector_bytes", "gpu.l1.sector_bytes", None),
    ("l1.hit_latency_ns", "gpu.l1.hit_latency_ps", 1e3),
    ("l1.outstanding_lines", "gpu.l1.mshrs", None),
    ("l1.bandwidth_GB_per_s", "gpu.l1.bytes_per_s", 1e9),
    ("l2.size_KiB", "gpu.l2.bytes", 1024),
    ("l2.ways", "gpu.l2.ways", None),
    ("l2.line_bytes", "gpu.l2.line_bytes", None),
    ("l2.sector_bytes", "gpu.l2.sector_bytes", None),
    ("l2.banks", "gpu.l2.banks", None),
    ("l2.hit_latency_ns", "gpu.l2.hit_latency_ps", 1e3),
    ("l2.outstanding_lines_per_bank", "gpu.l2.mshrs", None),
    ("l2.bandwidth_GB_per_s", "gpu.l2.bytes_per_s", 1e9),
    ("l2.atomics_per_clock_per_bank", "gpu.atomic_ops_per_clock_per_bank", None),
    ("dram.capacity_GiB", "gpu.dram.bytes", 1 << 30),
    ("dram.bandwidth_GB_per_s", "gpu.dram.bytes_per_s", 1e9),
    ("dram.channels", "gpu.dram.channels", None),
    ("dram.latency_ns", "gpu.dram.latency_ps", 1e3),
    ("copy.engines", "gpu.copy_engines", None),
    ("copy.setup_us", "gpu.copy_setup_ps", 1e6),
    ("copy.wait_us", "gpu.copy_wait_ps", 1e6),
    ("copy.host_us", "gpu.copy_host_ps", 1e6),
    ("copy.launch_us", "gpu.copy_launch_ps", 1e6),
    ("copy.event_us", "gpu.copy_event_ps", 1e6),
    ("copy.event_latency_us", "gpu.copy_event_latency_ps", 1e6),
    ("copy.bandwidth_GB_per_s", "gpu.copy_bytes_per_s", 1e9),
    ("graph.creation_us", "gpu.graph.creation_ps", 1e6),
    ("graph.construction_node_us", "gpu.graph.node_ps", 1e6),
    ("graph.instantiation_us", "gpu.graph.instantiation_ps", 1e6),
    ("graph.instantiation_node_us", "gpu.graph.instantiation_node_ps", 1e6),
    ("graph.update_node_us", "gpu.graph.update_node_ps", 1e6),
    ("graph.launch_us", "gpu.graph.launch_ps", 1e6),
    ("graph.launch_node_us", "gpu.graph.launch_node_ps", 1e6),
    ("launch.kernel_us", "gpu.kernel_launch_ps", 1e6),
    ("launch.block_ns", "gpu.block_launch_ps", 1e3),
    ("launch.fence_ns", "gpu.fence_ps", 1e3),
    ("launch.device_us", "gpu.device_launch_ps", 1e6),
    ("launch.device_interval_us", "gpu.device_launch_interval_ps", 1e6),
    ("launch.device_pending_launches", "gpu.device_launches_pending", None),
    ("launch.poll_ns", "gpu.poll_ps", 1e3),
    ("remote_write_queue.lines_per_destination", "gpu.write_queue.entries", None),
    ("remote_write_queue.windows_per_destination", "gpu.write_queue.windows", None),
    ("remote_write_queue.subheader_bytes", "gpu.write_queue.subheader_bytes", None),
    ("remote_write_queue.payload_bytes", "gpu.write_queue.payload_bytes", None),
    ("remote_write_queue.idle_flush_ns", "gpu.write_queue.idle_flush_ps", 1e3),
    ("remote_write_queue.unpacked_lines", "gpu.write_queue.unpacked_lines", None),
    ("gps.queue_lines", "gpu.gps.queue_lines", None),
    ("gps.page_KiB", "gpu.gps.page_bytes", 1024),
)

# Keys of gpu.tlb, and the fields of its C++ struct.
TLB_FIELDS: _Fields = (
    ("page_KiB", "page_bytes", 1024),
    ("l1_entries", "l1_entries", None),
    ("l1_ways", "l1_ways", None),
    ("l1_latency_ns", "l1_latency_ps", 1e3),
    ("l1_outstanding_pages", "l1_mshrs", None),
    ("l2_entries", "l2_entries", None),
    ("l2_ways", "l2_ways", None),
    ("l2_latency_ns", "l2_latency_ps", 1e3),
    ("l2_outstanding_pages", "l2_mshrs", None),
    ("walks", "walks", None),
    ("walk_ns", "walk_ps", 1e3),
)

# Keys of gpu.dualopt, and the fields of its C++ struct.
DUALOPT_FIELDS: _Fields = (
    ("granularity_bytes", "piece_bytes", None),
    ("buffer_pieces_per_destination", "buffer_pieces", None),
    ("timeout_clocks", "timeout_clocks", None),
    ("packet_bytes", "packet_bytes", None),
    ("rdma_cache_KiB", "rdma_cache_bytes", 1024),
    ("rdma_cache_ways", "rdma_cache_ways", None),
    ("remote_threshold", "remote_threshold", None),
    ("block_threshold", "block_threshold", None),
    ("hit_threshold", "hit_threshold", None),
    ("monitored_accesses", "monitored", None),
    ("warm_up_accesses", "warm_up", None),
    ("agreeing_windows", "agreeing_windows", None),
    ("looking_compute_units", "looking_units", None),
    ("page_loads", "page_loads", None),
)

# Keys of gpu.griffin, and the fields of its C++ struct.
GRIFFIN_FIELDS: _Fields = (
    ("batch_pages", "batch_pages", None),
    ("counting_clocks", "counting_clocks", None),
    ("counted_pages", "counted_pages", None),
    ("look_periods", "look_periods", None),
    ("newest_weight", "newest_weight", None),
    ("least_accesses", "least_rate", None),
    ("dedicated_factor", "dedicated_factor", None),
    ("shared_factor", "shared_factor", None),
)

_WHOLE = ("bytes", "_ps")  # C++ fields that end so are integers; rates are doubles


def _walk(value: Any, path: str) -> tuple[Any, str]:
    """The object that holds the last part of a dotted path, and that part."""
    *outer, last = path.split(".")
    for part in outer:
        value = getattr(value, part)
    return value, last


def _endpoint(core: Any, name: str, machine: Machine) -> Any:
    end = core.Endpoint()
    if name == "host":
        end.kind, end.index = core.EndpointKind.host, 0
    elif name in (switches := [switch.name for switch in machine.switch]):
        end.kind, end.index = core.EndpointKind.network_switch, switches.index(name)
    else:
        end.kind, end.index = core.EndpointKind.gpu, int(name.removeprefix("gpu"))
    return end


def to_core(machine: Machine, core: Any) -> Any:
    """The C++ struct of a machine; `core` is the extension module."""
    made = core.Machine()
    made.name = machine.name
    made.title = machine.title
    for key, field, factor in FIELDS:
        owner, last = _walk(machine.gpu, key)
        value = getattr(owner, last)
        if factor is not None:
            value = value * factor
            value = round(value) if field.endswith(_WHOLE) else float(value)
        target, name = _walk(made, field)
        setattr(target, name, value)
    made.gpu.l1.write_back = machine.gpu.l1.write_policy == "back"
    made.gpu.l2.write_back = machine.gpu.l2.write_policy == "back"
    made.gpu.write_queue.grows_window = machine.gpu.remote_write_queue.window == "growing"
    made.gpu.l1.modulo_sets = machine.gpu.l1.set_index == "modulo"
    made.gpu.l1.stalls_on_full_set = machine.gpu.l1.full_set == "stalls"
    made.gpu.dispatch = getattr(core.BlockDispatch, machine.gpu.launch.dispatch.replace("-", "_"))
    if not isinstance(machine.gpu.l2.port_latency_ns, UnsetType):
        made.gpu.port_l2_latency_ps = round(machine.gpu.l2.port_latency_ns * 1e3)
    if not isinstance(machine.gpu.remote_store_bytes, UnsetType):
        made.gpu.remote_store_bytes = machine.gpu.remote_store_bytes
    if not isinstance(machine.gpu.store_GB_per_s_per_compute_unit, UnsetType):
        made.gpu.store_bytes_per_s = machine.gpu.store_GB_per_s_per_compute_unit * 1e9
    if not isinstance(machine.gpu.copy.peer_engines, UnsetType):
        made.gpu.copy_peer_engines = machine.gpu.copy.peer_engines
    if not isinstance(machine.gpu.scalar_l1, UnsetType):
        scalar = machine.gpu.scalar_l1
        made.gpu.scalar_l1.bytes = scalar.size_KiB * 1024
        made.gpu.scalar_l1.ways = scalar.ways
        made.gpu.scalar_l1.compute_units = scalar.compute_units
        made.gpu.scalar_l1.hit_latency_ps = round(scalar.hit_latency_ns * 1e3)
    _fill(made.gpu.tlb, machine.gpu.tlb, TLB_FIELDS)
    _fill(made.gpu.dualopt, machine.gpu.dualopt, DUALOPT_FIELDS)
    _fill(made.gpu.griffin, machine.gpu.griffin, GRIFFIN_FIELDS)
    made.host.model = machine.host.model
    made.host.memory_bytes_per_s = machine.host.memory_GB_per_s * 1e9
    made.host.copy_write_bytes_per_s = _known(machine.host.copy_write_GB_per_s)

    switches = []
    for switch in machine.switch:
        item = core.Switch()
        item.name = switch.name
        item.latency_ps = round(switch.latency_ns * 1e3)
        switches.append(item)
    made.switches = switches

    links = []
    for a, b, link in connections(machine):
        item = core.Link()
        item.a = _endpoint(core, a, machine)
        item.b = _endpoint(core, b, machine)
        item.protocol_name = link.protocol
        item.protocol = _protocol(core, machine.protocol[link.protocol])
        item.width = link.width
        item.bytes_per_s = link.bandwidth_GB_per_s * 1e9
        item.latency_ps = round(link.latency_ns * 1e3)
        item.queue_bytes = round(link.queue_KiB * 1024)
        item.copy_bytes_per_s = _known(link.copy_GB_per_s)
        item.copy_both_bytes_per_s = _known(link.copy_both_GB_per_s)
        links.append(item)
    made.links = links
    return made


def _fill(made: Any, table: _Table | UnsetType, fields: _Fields) -> None:
    """The fields of a C++ struct by a table that a file need not have."""
    if isinstance(table, UnsetType):
        return
    for key, field, factor in fields:
        value = getattr(table, key)
        setattr(made, field, value if factor is None else round(value * factor))


def _table(made: Any, fields: _Fields) -> dict[str, Any]:
    """The keys of such a table by its C++ struct."""
    return {
        key: value if factor is None else _in_unit(value, factor)
        for key, field, factor in fields
        for value in (getattr(made, field),)
    }


def _known(gb_per_s: float | UnsetType) -> float:
    """A rate that a file need not have: 0 in C++."""
    return 0.0 if isinstance(gb_per_s, UnsetType) else gb_per_s * 1e9


def _optional_rate(key: str, bytes_per_s: float) -> dict[str, float]:
    """The key of such a rate, if it is known."""
    return {key: _in_unit(bytes_per_s, 1e9)} if bytes_per_s else {}


def _protocol(core: Any, protocol: Protocol) -> Any:
    made = core.Protocol()
    made.kind = getattr(core.ProtocolKind, protocol.kind)
    made.max_payload_bytes = protocol.max_payload_bytes
    for key in ("packet_overhead_bytes", "read_request_bytes", "completion_overhead_bytes"):
        value = getattr(protocol, key)
        if value is not UNSET:
            setattr(made, key, value)
    if not isinstance(protocol.flit_bytes, UnsetType):
        made.link_flit_bytes = protocol.flit_bytes
    if not isinstance(protocol.word_write_bytes, UnsetType):
        made.word_write_bytes = protocol.word_write_bytes
    return made


def _in_unit(value: float, factor: float) -> float:
    """`value` in a unit of the file: the shortest number that gives `value` back."""
    for digits in range(3, 18):
        short = float(f"{value / factor:.{digits}g}")
        back = short * factor
        if (round(back) if isinstance(value, int) else back) == value:
            break
    return int(short) if short.is_integer() else short


def _end_name(core: Any, end: Any, switches: Sequence[str]) -> str:
    if end.kind == core.EndpointKind.gpu:
        return f"gpu{end.index}"
    return switches[end.index] if end.kind == core.EndpointKind.network_switch else "host"


def from_core(made: Any, core: Any, sources: dict[str, str] | None = None) -> Machine:
    """The description of a C++ machine, which `discover` returns; links are written one by one."""
    gpu: dict[str, Any] = {}
    for key, field, factor in FIELDS:
        owner, last = _walk(made, field)
        value = getattr(owner, last)
        value = value if factor is None else _in_unit(value, factor)
        target = gpu
        *outer, name = key.split(".")
        for part in outer:
            target = target.setdefault(part, {})
        target[name] = value
    gpu["l1"]["write_policy"] = "back" if made.gpu.l1.write_back else "through"
    gpu["l2"]["write_policy"] = "back" if made.gpu.l2.write_back else "through"
    grows = made.gpu.write_queue.grows_window
    gpu["remote_write_queue"]["window"] = "growing" if grows else "aligned"

    gpu["l1"]["set_index"] = "modulo" if made.gpu.l1.modulo_sets else "hashed"
    gpu["l1"]["full_set"] = "stalls" if made.gpu.l1.stalls_on_full_set else "displaces"
    gpu["launch"]["dispatch"] = made.gpu.dispatch.name.replace("_", "-")
    if made.gpu.remote_store_bytes:
        gpu["remote_store_bytes"] = made.gpu.remote_store_bytes
    gpu.update(_optional_rate("store_GB_per_s_per_compute_unit", made.gpu.store_bytes_per_s))
    if made.gpu.copy_peer_engines:
        gpu["copy"]["peer_engines"] = made.gpu.copy_peer_engines
    if made.gpu.port_l2_latency_ps:
        gpu["l2"]["port_latency_ns"] = _in_unit(made.gpu.port_l2_latency_ps, 1e3)
    if made.gpu.scalar_l1.bytes:
        gpu["scalar_l1"] = {
            "size_KiB": _in_unit(made.gpu.scalar_l1.bytes, 1024),
            "ways": made.gpu.scalar_l1.ways,
            "compute_units": made.gpu.scalar_l1.compute_units,
            "hit_latency_ns": _in_unit(made.gpu.scalar_l1.hit_latency_ps, 1e3),
        }
    if made.gpu.tlb.page_bytes:
        gpu["tlb"] = _table(made.gpu.tlb, TLB_FIELDS)
    if made.gpu.dualopt.rdma_cache_bytes:
        gpu["dualopt"] = _table(made.gpu.dualopt, DUALOPT_FIELDS)
    if made.gpu.griffin.batch_pages:
        gpu["griffin"] = _table(made.gpu.griffin, GRIFFIN_FIELDS)

    switches = [switch.name for switch in made.switches]
    protocols: dict[str, dict[str, Any]] = {}
    links = []
    for link in made.links:
        kind = link.protocol.kind.name
        entry = {"kind": kind, "max_payload_bytes": link.protocol.max_payload_bytes}
        if kind.startswith("pcie"):
            entry["packet_overhead_bytes"] = link.protocol.packet_overhead_bytes
            entry["read_request_bytes"] = link.protocol.read_request_bytes
            entry["completion_overhead_bytes"] = link.protocol.completion_overhead_bytes
        if link.protocol.link_flit_bytes:
            entry["flit_bytes"] = link.protocol.link_flit_bytes
        if link.protocol.word_write_bytes:
            entry["word_write_bytes"] = link.protocol.word_write_bytes
        protocols.setdefault(link.protocol_name, entry)
        links.append(
            {
                "ends": [_end_name(core, end, switches) for end in (link.a, link.b)],
                "protocol": link.protocol_name,
                "width": link.width,
                "bandwidth_GB_per_s": _in_unit(link.bytes_per_s, 1e9),
                "latency_ns": _in_unit(link.latency_ps, 1e3),
                "queue_KiB": _in_unit(link.queue_bytes, 1024),
                **_optional_rate("copy_GB_per_s", link.copy_bytes_per_s),
                **_optional_rate("copy_both_GB_per_s", link.copy_both_bytes_per_s),
            }
        )
    document = {
        "name": made.name,
        "format": FORMAT,
        "title": made.title,
        "gpu": gpu,
        "host": {
            "model": made.host.model,
            "memory_GB_per_s": _in_unit(made.host.memory_bytes_per_s, 1e9),
            **_optional_rate("copy_write_GB_per_s", made.host.copy_write_bytes_per_s),
        },
        "protocol": protocols,
        "switch": [
            {"name": switch.name, "latency_ns": _in_unit(switch.latency_ps, 1e3)}
            for switch in made.switches
        ],
        "link": links,
        "sources": sources or {},
    }
    return msgspec.convert(document, Machine)
