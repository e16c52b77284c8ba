"""The tables and keys of machine files: structs, and the list that readers and writers walk.

tools/machine_keys.py writes this file from src/machine/keys.cpp.
"""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from interlace.machine.keys import Key, KeyTable, Rule

FORMAT = 1


class Table(msgspec.Struct, frozen=True):
    """A table of the file: all keys are required unless they have a default."""


class Issue(Table, frozen=True, kw_only=True):
    """Work of a compute unit in one clock."""

    # Warp instructions that a compute unit issues (its schedulers).
    instructions_per_clock: int
    # Lanes of 32-bit floating-point operations.
    fp32_lanes_per_clock: int
    # Lanes of 64-bit floating-point operations.
    fp64_lanes_per_clock: int
    # Lanes of integer operations.
    integer_lanes_per_clock: int
    # Lanes of reciprocals, square roots and transcendental functions.
    special_lanes_per_clock: int
    # Cache lines that the load/store unit looks up.
    memory_lines_per_clock: int


class L1(Table, frozen=True, kw_only=True):
    """The first-level cache of a compute unit."""

    # Size.
    size_KiB: int
    # Lines of a set.
    ways: int
    # Size of a line.
    line_bytes: Literal[64, 128]
    # Part of a line that is fetched by itself.
    sector_bytes: int
    # From the compute unit to the data and back.
    hit_latency_ns: float
    # Lines that can be under way to the cache at a time (MSHRs).
    outstanding_lines: int
    # Rate of a compute unit's hits.
    bandwidth_GB_per_s: float
    # Whether stores go on to the L2 at once, without a line in the L1 (`through`), or stay until
    # their line leaves (`back`).
    write_policy: Literal["through", "back"]
    # How a line's address chooses its set.
    set_index: Literal["hashed", "modulo"] = "hashed"
    # What a miss does whose set has only lines under way: it displaces one, or it and the loads
    # after it wait.
    full_set: Literal["displaces", "stalls"] = "displaces"


class ScalarL1(Table, frozen=True, kw_only=True):
    """A first-level cache for what a warp loads once for all lanes. Left out: such loads go to the
    L1.
    """

    # Size.
    size_KiB: int
    # Lines of a set.
    ways: int
    # Compute units that share one of these caches.
    compute_units: int
    # From the compute unit to the data and back.
    hit_latency_ns: float


class L2(Table, frozen=True, kw_only=True):
    """The second-level cache of a GPU."""

    # Size of all banks together.
    size_KiB: int
    # Lines of a set.
    ways: int
    # Size of a line.
    line_bytes: Literal[64, 128]
    # Part of a line that is fetched by itself.
    sector_bytes: int
    # Slices, each with its own port.
    banks: int
    # From the compute unit to the data and back.
    hit_latency_ns: float
    # Lines that can be under way to a bank at a time (MSHRs).
    outstanding_lines_per_bank: int
    # Rate of all banks together.
    bandwidth_GB_per_s: float
    # Whether stores go on to the memory at once (`through`), or stay until their line leaves
    # (`back`).
    write_policy: Literal["through", "back"]
    # Atomic operations of a bank.
    atomics_per_clock_per_bank: int
    # From a link's port to the L2 and back. Left out: `hit_latency_ns`.
    port_latency_ns: float | UnsetType = UNSET


class Tlb(Table, frozen=True, kw_only=True):
    """Address translation: a first-level buffer of each compute unit and scalar cache, a
    second-level buffer of the GPU, and walks of the page table at the host. Left out:
    translation takes no time.
    """

    # Size of a page, also of unified memory.
    page_KiB: int
    # Pages that a first-level buffer holds.
    l1_entries: int
    # Pages in a set of the first level.
    l1_ways: int
    # Time that the first level adds to every access.
    l1_latency_ns: float
    # Pages that the first level can ask for at a time.
    l1_outstanding_pages: int
    # Pages that the second-level buffer holds.
    l2_entries: int
    # Pages in a set of the second level.
    l2_ways: int
    # Time that the second level adds to an access that misses the first.
    l2_latency_ns: float
    # Pages that the second level can ask for at a time.
    l2_outstanding_pages: int
    # Walks of the page table at a time, for all GPUs together.
    walks: int
    # Time of a walk.
    walk_ns: float


class Dram(Table, frozen=True, kw_only=True):
    """The memory of a GPU."""

    # Size.
    capacity_GiB: float
    # Sustained rate of all channels together.
    bandwidth_GB_per_s: float
    # Channels.
    channels: int
    # Time that an idle memory adds to a miss of the L2.
    latency_ns: float


class Copy(Table, frozen=True, kw_only=True):
    """The copy engines of a GPU, and the host thread's cost of copies."""

    # Copy engines of a GPU.
    engines: int
    # Copy engines that copy to other GPUs. Left out: all.
    peer_engines: int | UnsetType = UNSET
    # Start of a copy on the device.
    setup_us: float
    # Time from a flag to the start of a copy that waits for the flag.
    wait_us: float
    # Time from a kernel's end to the copy that the host then starts.
    host_us: float
    # Time of the host thread to enqueue a copy.
    launch_us: float
    # Time of the host thread to record an event and let a stream wait for it.
    event_us: float
    # Time from a copy's end to the start of a copy in another stream that waits for the first
    # copy's event.
    event_latency_us: float = 0
    # Rate of one engine, where no link is slower.
    bandwidth_GB_per_s: float


class Graph(Table, frozen=True, kw_only=True):
    """The host thread's cost of CUDA graphs of copies. The defaults were measured on an H200 node
    (driver 580.159, CUDA 13.0): graphs of 5 to 160 copy nodes take 13 to 231 us a launch and 53
    to 2111 us to instantiate, and 0.34 us for each node with other addresses. Making a graph
    and adding a node are assumed to be calls of about 1 us.
    """

    # Making an empty graph.
    creation_us: float = 1.0
    # Adding a node with its edges.
    construction_node_us: float = 1.0
    # Making a graph executable: fixed part.
    instantiation_us: float = 0.0
    # Making a graph executable: part for each node.
    instantiation_node_us: float = 13.2
    # Changing the addresses in a node of an executable graph.
    update_node_us: float = 0.34
    # Launch of a graph: fixed part.
    launch_us: float = 6.0
    # Launch of a graph: part for each node.
    launch_node_us: float = 1.4


class Launch(Table, frozen=True, kw_only=True):
    """The cost of starting a kernel, a block or a fence on the device."""

    # Gap on the device before the first block of a kernel.
    kernel_us: float
    # Between two blocks that start on one compute unit.
    block_ns: float
    # A release at system scope with nothing outstanding.
    fence_ns: float
    # From a launch by a kernel to the first block of the launched kernel.
    device_us: float
    # Between two launches by kernels of a GPU.
    device_interval_us: float
    # Launches by kernels that can wait for a start.
    device_pending_launches: int
    # From a counter's last update until a polling agent has seen it.
    poll_ns: float
    # Where a kernel's next block goes: `round-robin` takes the compute units in turn, `greedy` the
    # first one with room; `partition` gives each an equal run of blocks.
    dispatch: Literal["round-robin", "greedy", "partition"] = "round-robin"


class RemoteWriteQueue(Table, frozen=True, kw_only=True):
    """FinePack's queue, packets and de-packetizer, which no GPU has. The defaults come from the
    paper (HPCA 2023, Table III and section IV-B).
    """

    # Lines of the queue for each destination.
    lines_per_destination: int = 64
    # Address windows that are open at a time for each destination.
    windows_per_destination: int = 1
    # Whether a window covers aligned addresses, or the span of what is stored.
    window: Literal["aligned", "growing"] = "aligned"
    # Size of the header of a store in a packet.
    subheader_bytes: int = 5
    # Largest packet, with the headers of its stores. Where a link's `max_payload_bytes` is less,
    # that counts.
    payload_bytes: int = 4096
    # A queue without a store for this time is sent. 0: never.
    idle_flush_ns: float = 0
    # Lines of the receiver's buffer between its port and its L2.
    unpacked_lines: int = 64


class Gps(Table, frozen=True, kw_only=True):
    """The queue and the pages of GPS (MICRO 2021), which no GPU has. The defaults come from the
    paper.
    """

    # Lines of the queue of remote writes.
    queue_lines: int = 512
    # Size of a page that GPUs subscribe to.
    page_KiB: int = 64


class DualOpt(Table, frozen=True, kw_only=True):
    """The hardware of DualOpt (PACT 2022), which treats a GPU's remote loads. No GPU has this
    hardware. The defaults come from the paper (Table 1). Without this table, the machine cannot
    run the mechanism.
    """

    # Piece of a line that a fine-grained load asks for.
    granularity_bytes: Literal[4, 8, 16] = 4
    # Pieces of replies that wait for each destination.
    buffer_pieces_per_destination: int = 64
    # Replies are sent after this time without a further one.
    timeout_clocks: int = 30
    # Largest packet of joined replies, with its header.
    packet_bytes: int = 64
    # Part of the L2 that holds lines of other GPUs.
    rdma_cache_KiB: int = 1536
    # Lines in a set of the RDMA cache.
    rdma_cache_ways: int = 16
    # Loads are treated only if this share of accesses is remote.
    remote_threshold: float = 0.02
    # Fine-grained loads are chosen where loads use a smaller share of a line's pieces.
    block_threshold: float = 0.2
    # Fine-grained loads are chosen where remote loads hit the L1 more rarely than this; otherwise
    # the RDMA cache is.
    hit_threshold: float = 0.4
    # Remote loads that are counted before the decision.
    monitored_accesses: int = 20000
    # Accesses before the counted remote loads.
    warm_up_accesses: int
    # Windows in a row that change a decision. Not of the paper: of an engine that keeps watching.
    agreeing_windows: int = 2
    # One of this many compute units keeps looking into its L1. Not of the paper: of an engine that
    # keeps watching.
    looking_compute_units: int = 64
    # Remote loads of a page before it is treated by itself. Not of the paper.
    page_loads: int = 64


class Griffin(Table, frozen=True, kw_only=True):
    """The hardware of Griffin (HPCA 2020), which moves pages to the GPUs that access them most. No
    GPU has this hardware. Without this table, the machine cannot run the mechanism.
    """

    # Pages that move together, at most.
    batch_pages: int
    # Period in which GPUs count accesses.
    counting_clocks: int
    # Pages that a GPU reports for a period, at most.
    counted_pages: int
    # Periods from one look at the pages to the next.
    look_periods: int
    # Weight of a period's count in a page's rates.
    newest_weight: float
    # A page with fewer accesses of all GPUs in a period stays where it is.
    least_accesses: float
    # A page is dedicated to a GPU whose rate is this many times that of every other.
    dedicated_factor: float
    # A page changes its owner only for a GPU whose rate is more than this many times that of every
    # other.
    shared_factor: float


class Gpu(Table, frozen=True, kw_only=True):
    """The one kind of GPU that the machine has."""

    # GPUs of the machine, which are all of one kind.
    count: int
    # The GPU's name, as its driver gives it.
    model: str
    # Compute units (streaming multiprocessors) of a GPU.
    compute_units: int
    # Clock of the compute units.
    clock_MHz: float
    # Lanes (threads) of a warp.
    warp_width_lanes: int
    # Warps that a compute unit holds at a time.
    warps_per_compute_unit: int
    # Blocks that a compute unit holds at a time.
    blocks_per_compute_unit: int
    # Shared memory of a compute unit.
    shared_KiB_per_compute_unit: int
    # Remote stores of a compute unit that can wait for a link; warps wait for a place.
    store_queue_lines_per_compute_unit: int
    # Neighbouring lanes' stores to another GPU are joined up to this size. Left out: up to a line.
    remote_store_bytes: int | UnsetType = UNSET
    # Rate at which stores leave a compute unit. Left out: as fast as the L1 looks lines up.
    store_GB_per_s_per_compute_unit: float | UnsetType = UNSET
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


class Host(Table, frozen=True, kw_only=True):
    """The processors and their memory, as one place."""

    # Name of the processors.
    model: str
    # Rate of the host's memory, reads and writes together.
    memory_GB_per_s: float
    # What copies of all GPUs together write to the host's memory, as measured. Left out: not known.
    copy_write_GB_per_s: float | UnsetType = UNSET


class Protocol(Table, frozen=True, kw_only=True):
    """How payload becomes packets. Links refer to a `[protocol.NAME]` by its name."""

    # The generation, which says how packets are made.
    kind: Literal["pcie3", "pcie4", "pcie5", "pcie6", "nvlink1", "nvlink2", "nvlink3", "nvlink4"]
    # Payload of the largest write packet. PCIe: a power of two. NVLink: a multiple of 16 up to 256.
    max_payload_bytes: int
    # Header, framing and CRC of a write packet.
    packet_overhead_bytes: int | UnsetType = UNSET
    # Whole packet of a read request.
    read_request_bytes: int | UnsetType = UNSET
    # Header, framing and CRC of a packet that answers a read.
    completion_overhead_bytes: int | UnsetType = UNSET
    # Packets take whole flits of this size. Left out: single bytes.
    flit_bytes: int | UnsetType = UNSET
    # Whole packet that writes 4 bytes or fewer. Left out: as long as its flits.
    word_write_bytes: int | UnsetType = UNSET


class Link(Table, frozen=True, kw_only=True):
    """A full-duplex link, or several equal links if an end stands for several devices."""

    # The two devices: `gpu0`, a switch's name or `host`. `gpu*` stands for every GPU and `gpu0-3`
    # for four of them; a group on both sides is every pair of it once.
    ends: tuple[str, str]
    # Name of the table `[protocol.NAME]` that says how the link makes packets.
    protocol: str
    # Lanes (PCIe) or bonded links (NVLink), for people.
    width: int
    # Bytes of packets, headers included, in one direction of the whole width, after line coding.
    bandwidth_GB_per_s: float
    # From end to end.
    latency_ns: float
    # Payload of long copies in one direction, as measured. Left out: what the packets leave of the
    # bandwidth.
    copy_GB_per_s: float | UnsetType = UNSET
    # Payload of long copies in both directions at once, their sum, as measured.
    copy_both_GB_per_s: float | UnsetType = UNSET
    # Buffer of each end for packets that wait for the link.
    queue_KiB: float


class Switch(Table, frozen=True, kw_only=True):
    """A switch between links. A file may have none."""

    # Name that links call the switch by.
    name: str
    # Time through the switch, which forwards at the full rate of its links.
    latency_ns: float


class Machine(Table, frozen=True, kw_only=True):
    """A machine file. `name` and `sources` are not keys of it.

    `sources` holds the comments, where they were read: for "gpu.count" that key's, for "link.0" the
    one above the first [[link]], for "" the one at the top of the file.
    """

    name: str
    format: Literal[1]
    # One line that says what the machine is.
    title: str
    gpu: Gpu
    host: Host
    protocol: dict[str, Protocol]
    link: tuple[Link, ...]
    switch: tuple[Switch, ...] = ()
    sources: dict[str, str] = {}


# fmt: off
KEYS = (
    Key("", "format", "whole", 1, 1, 1, choices=("1",), stored=False),
    Key("", "title", "text", 1, 1, 200),
    Key("gpu", "count", "whole", 1, 1, 16),
    Key("gpu", "model", "text", 1, 1, 200),
    Key("gpu", "compute_units", "whole", 1, 1, 65534),
    Key("gpu", "clock_MHz", "number", 1000000, 1, 1000000000),
    Key("gpu", "warp_width_lanes", "whole", 1, 1, 64),
    Key("gpu", "warps_per_compute_unit", "whole", 1, 1, 1048576),
    Key("gpu", "blocks_per_compute_unit", "whole", 1, 1, 1048576),
    Key("gpu", "shared_KiB_per_compute_unit", "whole", 1024, 1, 1048576),
    Key("gpu", "store_queue_lines_per_compute_unit", "whole", 1, 1, 1048576),
    Key("gpu", "remote_store_bytes", "whole", 1, 1, 128, need="optional"),
    Key("gpu", "store_GB_per_s_per_compute_unit", "number", 1000000000, 0.1, 1000000000,
        need="optional"),
    Key("gpu.issue", "instructions_per_clock", "whole", 1, 1, 1048576),
    Key("gpu.issue", "fp32_lanes_per_clock", "whole", 1, 1, 1048576),
    Key("gpu.issue", "fp64_lanes_per_clock", "whole", 1, 1, 1048576),
    Key("gpu.issue", "integer_lanes_per_clock", "whole", 1, 1, 1048576),
    Key("gpu.issue", "special_lanes_per_clock", "whole", 1, 1, 1048576),
    Key("gpu.issue", "memory_lines_per_clock", "whole", 1, 1, 1048576),
    Key("gpu.l1", "size_KiB", "whole", 1024, 1, 1048576),
    Key("gpu.l1", "ways", "whole", 1, 1, 1048576),
    Key("gpu.l1", "line_bytes", "whole", 1, 1, 1048576, choices=("64", "128",)),
    Key("gpu.l1", "sector_bytes", "whole", 1, 1, 1048576),
    Key("gpu.l1", "hit_latency_ns", "number", 1000, 0, 1000000000),
    Key("gpu.l1", "outstanding_lines", "whole", 1, 1, 65535),
    Key("gpu.l1", "bandwidth_GB_per_s", "number", 1000000000, 0.1, 1000000000),
    Key("gpu.l1", "write_policy", "choice", 1, choices=("through", "back",)),
    Key("gpu.l1", "set_index", "choice", 1, need="preset", choices=("hashed", "modulo",)),
    Key("gpu.l1", "full_set", "choice", 1, need="preset", choices=("displaces", "stalls",)),
    Key("gpu.scalar_l1", "size_KiB", "whole", 1024, 1, 1048576),
    Key("gpu.scalar_l1", "ways", "whole", 1, 1, 1048576),
    Key("gpu.scalar_l1", "compute_units", "whole", 1, 1, 1048576),
    Key("gpu.scalar_l1", "hit_latency_ns", "number", 1000, 0, 1000000000),
    Key("gpu.l2", "size_KiB", "whole", 1024, 1, 1048576),
    Key("gpu.l2", "ways", "whole", 1, 1, 1048576),
    Key("gpu.l2", "line_bytes", "whole", 1, 1, 1048576, choices=("64", "128",)),
    Key("gpu.l2", "sector_bytes", "whole", 1, 1, 1048576),
    Key("gpu.l2", "banks", "whole", 1, 1, 1048576),
    Key("gpu.l2", "hit_latency_ns", "number", 1000, 0, 1000000000),
    Key("gpu.l2", "outstanding_lines_per_bank", "whole", 1, 1, 65535),
    Key("gpu.l2", "bandwidth_GB_per_s", "number", 1000000000, 0.1, 1000000000),
    Key("gpu.l2", "write_policy", "choice", 1, choices=("through", "back",)),
    Key("gpu.l2", "atomics_per_clock_per_bank", "whole", 1, 1, 1048576),
    Key("gpu.l2", "port_latency_ns", "number", 1000, 0, 1000000000, need="optional",
        above_least=True),
    Key("gpu.tlb", "page_KiB", "whole", 1024, 4, 2048),
    Key("gpu.tlb", "l1_entries", "whole", 1, 1, 1048576),
    Key("gpu.tlb", "l1_ways", "whole", 1, 1, 1048576),
    Key("gpu.tlb", "l1_latency_ns", "number", 1000, 0, 1000000000),
    Key("gpu.tlb", "l1_outstanding_pages", "whole", 1, 1, 1048576),
    Key("gpu.tlb", "l2_entries", "whole", 1, 1, 1048576),
    Key("gpu.tlb", "l2_ways", "whole", 1, 1, 1048576),
    Key("gpu.tlb", "l2_latency_ns", "number", 1000, 0, 1000000000),
    Key("gpu.tlb", "l2_outstanding_pages", "whole", 1, 1, 1048576),
    Key("gpu.tlb", "walks", "whole", 1, 1, 1048576),
    Key("gpu.tlb", "walk_ns", "number", 1000, 0, 1000000000),
    Key("gpu.dram", "capacity_GiB", "number", 1073741824, 0, 1000000000, above_least=True),
    Key("gpu.dram", "bandwidth_GB_per_s", "number", 1000000000, 0.1, 1000000000),
    Key("gpu.dram", "channels", "whole", 1, 1, 1048576),
    Key("gpu.dram", "latency_ns", "number", 1000, 0, 1000000000),
    Key("gpu.copy", "engines", "whole", 1, 1, 1048576),
    Key("gpu.copy", "peer_engines", "whole", 1, 1, 1048576, need="optional"),
    Key("gpu.copy", "setup_us", "number", 1000000, 0, 1000000000),
    Key("gpu.copy", "wait_us", "number", 1000000, 0, 1000000000),
    Key("gpu.copy", "host_us", "number", 1000000, 0, 1000000000),
    Key("gpu.copy", "launch_us", "number", 1000000, 0, 1000000000),
    Key("gpu.copy", "event_us", "number", 1000000, 0, 1000000000),
    Key("gpu.copy", "event_latency_us", "number", 1000000, 0, 1000000000, need="preset"),
    Key("gpu.copy", "bandwidth_GB_per_s", "number", 1000000000, 0.1, 1000000000),
    Key("gpu.graph", "creation_us", "number", 1000000, 0, 1000000000, need="preset"),
    Key("gpu.graph", "construction_node_us", "number", 1000000, 0, 1000000000, need="preset"),
    Key("gpu.graph", "instantiation_us", "number", 1000000, 0, 1000000000, need="preset"),
    Key("gpu.graph", "instantiation_node_us", "number", 1000000, 0, 1000000000, need="preset"),
    Key("gpu.graph", "update_node_us", "number", 1000000, 0, 1000000000, need="preset"),
    Key("gpu.graph", "launch_us", "number", 1000000, 0, 1000000000, need="preset"),
    Key("gpu.graph", "launch_node_us", "number", 1000000, 0, 1000000000, need="preset"),
    Key("gpu.launch", "kernel_us", "number", 1000000, 0, 1000000000),
    Key("gpu.launch", "block_ns", "number", 1000, 0, 1000000000),
    Key("gpu.launch", "fence_ns", "number", 1000, 0, 1000000000),
    Key("gpu.launch", "device_us", "number", 1000000, 0, 1000000000),
    Key("gpu.launch", "device_interval_us", "number", 1000000, 0, 1000000000),
    Key("gpu.launch", "device_pending_launches", "whole", 1, 1, 1048576),
    Key("gpu.launch", "poll_ns", "number", 1000, 0, 1000000000),
    Key("gpu.launch", "dispatch", "choice", 1, need="preset", choices=("round-robin", "greedy",
        "partition",)),
    Key("gpu.remote_write_queue", "lines_per_destination", "whole", 1, 1, 65536, need="preset"),
    Key("gpu.remote_write_queue", "windows_per_destination", "whole", 1, 1, 64, need="preset"),
    Key("gpu.remote_write_queue", "window", "choice", 1, need="preset", choices=("aligned",
        "growing",)),
    Key("gpu.remote_write_queue", "subheader_bytes", "whole", 1, 2, 6, need="preset"),
    Key("gpu.remote_write_queue", "payload_bytes", "whole", 1, 1, 4096, need="preset"),
    Key("gpu.remote_write_queue", "idle_flush_ns", "number", 1000, 0, 1000000000, need="preset"),
    Key("gpu.remote_write_queue", "unpacked_lines", "whole", 1, 1, 65536, need="preset"),
    Key("gpu.gps", "queue_lines", "whole", 1, 1, 65536, need="preset"),
    Key("gpu.gps", "page_KiB", "whole", 1024, 1, 1048576, need="preset"),
    Key("gpu.dualopt", "granularity_bytes", "whole", 1, 4, 16, need="preset", choices=("4", "8",
        "16",)),
    Key("gpu.dualopt", "buffer_pieces_per_destination", "whole", 1, 16, 65536, need="preset"),
    Key("gpu.dualopt", "timeout_clocks", "whole", 1, 0, 1048576, need="preset"),
    Key("gpu.dualopt", "packet_bytes", "whole", 1, 22, 128, need="preset"),
    Key("gpu.dualopt", "rdma_cache_KiB", "whole", 1024, 1, 1048576, need="preset"),
    Key("gpu.dualopt", "rdma_cache_ways", "whole", 1, 1, 1024, need="preset"),
    Key("gpu.dualopt", "remote_threshold", "number", 1, 0, 1, need="preset"),
    Key("gpu.dualopt", "block_threshold", "number", 1, 0, 1, need="preset"),
    Key("gpu.dualopt", "hit_threshold", "number", 1, 0, 1, need="preset"),
    Key("gpu.dualopt", "monitored_accesses", "whole", 1, 1, 1048576, need="preset"),
    Key("gpu.dualopt", "warm_up_accesses", "whole", 1, 0, 1073741824),
    Key("gpu.dualopt", "agreeing_windows", "whole", 1, 1, 1024, need="preset"),
    Key("gpu.dualopt", "looking_compute_units", "whole", 1, 1, 1024, need="preset"),
    Key("gpu.dualopt", "page_loads", "whole", 1, 1, 1048576, need="preset"),
    Key("gpu.griffin", "batch_pages", "whole", 1, 1, 1048576),
    Key("gpu.griffin", "counting_clocks", "whole", 1, 1, 1048576),
    Key("gpu.griffin", "counted_pages", "whole", 1, 1, 1048576),
    Key("gpu.griffin", "look_periods", "whole", 1, 1, 1048576),
    Key("gpu.griffin", "newest_weight", "number", 1, 0, 1, above_least=True),
    Key("gpu.griffin", "least_accesses", "number", 1, 0, 1000000000),
    Key("gpu.griffin", "dedicated_factor", "number", 1, 1, 1000000000),
    Key("gpu.griffin", "shared_factor", "number", 1, 1, 1000000000),
    Key("host", "model", "text", 1, 1, 200),
    Key("host", "memory_GB_per_s", "number", 1000000000, 0.1, 1000000000),
    Key("host", "copy_write_GB_per_s", "number", 1000000000, 0.1, 1000000000, need="optional"),
    Key("protocol", "kind", "choice", 1, choices=("pcie3", "pcie4", "pcie5", "pcie6", "nvlink1",
        "nvlink2", "nvlink3", "nvlink4",)),
    Key("protocol", "max_payload_bytes", "whole", 1, 16, 4096),
    Key("protocol", "packet_overhead_bytes", "whole", 1, 0, 256, need="pcie"),
    Key("protocol", "read_request_bytes", "whole", 1, 1, 256, need="pcie"),
    Key("protocol", "completion_overhead_bytes", "whole", 1, 0, 256, need="pcie"),
    Key("protocol", "flit_bytes", "whole", 1, 2, 256, need="pcie_only"),
    Key("protocol", "word_write_bytes", "whole", 1, 16, 256, need="nvlink_only"),
    Key("switch", "name", "name", 1, 1, 40),
    Key("switch", "latency_ns", "number", 1000, 0, 1000000000),
    Key("link", "ends", "ends", 1, 2, 2, stored=False),
    Key("link", "protocol", "protocol", 1),
    Key("link", "width", "whole", 1, 1, 64),
    Key("link", "bandwidth_GB_per_s", "number", 1000000000, 0.1, 1000000000),
    Key("link", "latency_ns", "number", 1000, 0, 1000000000),
    Key("link", "copy_GB_per_s", "number", 1000000000, 0.1, 1000000000, need="optional"),
    Key("link", "copy_both_GB_per_s", "number", 1000000000, 0.1, 1000000000, need="optional"),
    Key("link", "queue_KiB", "number", 1024, 0, 1048576, above_least=True),
)

TABLES = (
    KeyTable("gpu", "required"),
    KeyTable("gpu.issue", "required"),
    KeyTable("gpu.l1", "required"),
    KeyTable("gpu.scalar_l1", "optional"),
    KeyTable("gpu.l2", "required"),
    KeyTable("gpu.tlb", "optional"),
    KeyTable("gpu.dram", "required"),
    KeyTable("gpu.copy", "required"),
    KeyTable("gpu.graph", "preset"),
    KeyTable("gpu.launch", "required"),
    KeyTable("gpu.remote_write_queue", "preset"),
    KeyTable("gpu.gps", "preset"),
    KeyTable("gpu.dualopt", "optional"),
    KeyTable("gpu.griffin", "optional"),
    KeyTable("host", "required"),
    KeyTable("protocol", "named"),
    KeyTable("link", "list"),
    KeyTable("switch", "list"),
)

RULES = (
    Rule("power_of_two", "gpu.warp_width_lanes"),
    Rule("power_of_two", "gpu.remote_store_bytes"),
    Rule("power_of_two", "gpu.l1.sector_bytes"),
    Rule("divides", "gpu.l1.sector_bytes", ("gpu.l1.line_bytes",)),
    Rule("at_most", "gpu.l1.line_bytes", ("gpu.l1.sector_bytes",), times=6),
    Rule("multiple", "gpu.l1.size_KiB", ("gpu.l1.ways", "gpu.l1.line_bytes",)),
    Rule("power_of_two", "gpu.l2.sector_bytes"),
    Rule("divides", "gpu.l2.sector_bytes", ("gpu.l2.line_bytes",)),
    Rule("at_most", "gpu.l2.line_bytes", ("gpu.l2.sector_bytes",), times=6),
    Rule("multiple", "gpu.l2.size_KiB", ("gpu.l2.banks", "gpu.l2.ways", "gpu.l2.line_bytes",)),
    Rule("same", "gpu.l2.line_bytes", ("gpu.l1.line_bytes",)),
    Rule("same", "gpu.l2.sector_bytes", ("gpu.l1.sector_bytes",)),
    Rule("multiple", "gpu.scalar_l1.size_KiB", ("gpu.scalar_l1.ways", "gpu.l1.line_bytes",)),
    Rule("divides", "gpu.scalar_l1.compute_units", ("gpu.compute_units",)),
    Rule("power_of_two", "gpu.tlb.page_KiB"),
    Rule("power_of_two_of", "gpu.tlb.l1_entries", ("gpu.tlb.l1_ways",)),
    Rule("power_of_two_of", "gpu.tlb.l2_entries", ("gpu.tlb.l2_ways",)),
    Rule("needs", "gpu.griffin", ("gpu.tlb",)),
    Rule("at_most", "gpu.griffin.shared_factor", ("gpu.griffin.dedicated_factor",)),
    Rule("at_most", "gpu.clock_MHz", ("gpu.griffin.counting_clocks",), times=1000000000000),
    Rule("less", "gpu.dualopt.rdma_cache_KiB", ("gpu.l2.size_KiB",)),
    Rule("multiple", "gpu.dualopt.rdma_cache_KiB", ("gpu.dualopt.rdma_cache_ways",
        "gpu.l2.line_bytes",)),
    Rule("multiple", "gpu.dualopt.rdma_cache_KiB", ("gpu.l2.banks", "gpu.l2.ways",
        "gpu.l2.line_bytes",)),
    Rule("at_most", "gpu.copy.peer_engines", ("gpu.copy.engines",)),
    Rule("at_least_together", "gpu.remote_write_queue.payload_bytes", ("gpu.l2.line_bytes",
        "gpu.remote_write_queue.subheader_bytes",)),
    Rule("at_most", "link.copy_GB_per_s", ("link.bandwidth_GB_per_s",)),
    Rule("at_most", "link.copy_both_GB_per_s", ("link.bandwidth_GB_per_s",), times=2),
    Rule("at_most", "host.copy_write_GB_per_s", ("host.memory_GB_per_s",)),
)
# fmt: on
