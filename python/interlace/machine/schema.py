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
    """The work that a compute unit can do in one clock, and the latencies of this work."""

    # The number of warp instructions that a compute unit's schedulers issue.
    instructions_per_clock: int
    # The number of lanes for 32-bit floating-point operations.
    fp32_lanes_per_clock: int
    # The number of lanes for 64-bit floating-point operations.
    fp64_lanes_per_clock: int
    # The number of lanes for integer operations.
    integer_lanes_per_clock: int
    # The number of lanes for reciprocals, square roots and transcendental functions.
    special_lanes_per_clock: int
    # The number of cache lines that the load/store unit can look up.
    memory_lines_per_clock: int
    # The number of equal parts of a compute unit. Each part has its share of the lanes and of the
    # instructions. A warp stays in one part.
    sub_cores: int = 1
    # The time from a 32-bit floating-point operation to an operation that needs its result. 0 means
    # the time for which the lanes are busy with the operation.
    fp32_latency_clocks: float = 0
    # The time from a 64-bit floating-point operation to an operation that needs its result. 0 means
    # the time for which the lanes are busy with the operation.
    fp64_latency_clocks: float = 0
    # The time from an integer operation to an operation that needs its result. 0 means the time for
    # which the lanes are busy with the operation.
    integer_latency_clocks: float = 0
    # The time from a reciprocal, a square root or a transcendental function to an operation that
    # needs its result. 0 means the time for which the lanes are busy with the operation.
    special_latency_clocks: float = 0
    # The time of an exchange of registers in a warp. 0 means `hit_latency_ns` of the L1.
    shuffle_latency_clocks: float = 0
    # The time of a comparison in all lanes of a warp and a ballot of the results. 0 means
    # `shuffle_latency_clocks`.
    vote_latency_clocks: float = 0
    # The time of an instruction that adds the 32-bit integers of all lanes of a warp, or takes
    # their minimum. 0 means that exchanges of registers and operations compute the result instead.
    reduction_latency_clocks: float = 0
    # The number of integers whose minimum or maximum one operation takes.
    minimum_inputs: int = 2
    # The time of a load from shared memory. 0 means `hit_latency_ns` of the L1.
    shared_latency_clocks: float = 0
    # The time from the arrival of a block's last warp at a barrier until the block's warps
    # continue.
    barrier_latency_clocks: float = 0
    # The time that each warp of the block adds to `barrier_latency_clocks`.
    barrier_warp_latency_clocks: float = 0
    # The time that a warp needs at the end of an iteration, in addition to the loads and
    # operations. It applies to loops that carry a result from one iteration to the next.
    loop_latency_clocks: float = 0
    # The number of lanes whose addresses the load/store unit accepts in one clock, for a load from
    # global memory. 0 means all lanes of a warp.
    load_lanes_per_clock: int = 0


class L1(Table, frozen=True, kw_only=True):
    """The first-level cache of a compute unit."""

    # The size of the cache.
    size_KiB: int
    # The number of lines in a set.
    ways: int
    # The size of a line.
    line_bytes: Literal[64, 128]
    # The size of the parts of a line that are fetched separately.
    sector_bytes: int
    # The time of a hit, from the compute unit to the data and back.
    hit_latency_ns: float
    # The number of lines that can be in flight to the cache at a time (MSHRs).
    outstanding_lines: int
    # The rate at which a compute unit gets data from hits.
    bandwidth_GB_per_s: float
    # `through`: stores go to the L2 at once, and do not allocate a line in the L1. `back`: stores
    # stay in the L1 until their line is evicted.
    write_policy: Literal["through", "back"]
    # How the address of a line determines the line's set.
    set_index: Literal["hashed", "modulo"] = "hashed"
    # What a miss does if all lines of its set are in flight. `displaces`: the miss displaces one of
    # these lines. `stalls`: the miss and all later loads wait.
    full_set: Literal["displaces", "stalls"] = "displaces"
    # Where the blocks on a compute unit have their shared memory. `apart`: in a memory beside the
    # L1. `inside`: in the L1. The size of the L1 falls by the smallest of these sizes that holds
    # the shared memory of all blocks that fit: 0, 8, 16, 32, 64, 100, 132, 164, 196 or 228 KiB.
    # With `inside`, each block takes 1 KiB more than its shared memory.
    shared_memory: Literal["apart", "inside"] = "apart"


class ScalarL1(Table, frozen=True, kw_only=True):
    """A first-level cache for data that a warp loads once for all lanes. If the table is left out,
    these loads go to the L1.
    """

    # The size of a cache.
    size_KiB: int
    # The number of lines in a set.
    ways: int
    # The number of compute units that share one of these caches.
    compute_units: int
    # The time of a hit, from the compute unit to the data and back.
    hit_latency_ns: float


class L2(Table, frozen=True, kw_only=True):
    """The second-level cache of a GPU."""

    # The size of all banks together.
    size_KiB: int
    # The number of lines in a set.
    ways: int
    # The size of a line.
    line_bytes: Literal[64, 128]
    # The size of the parts of a line that are fetched separately.
    sector_bytes: int
    # The number of slices, each with its own port.
    banks: int
    # The time of a hit, from the compute unit to the data and back.
    hit_latency_ns: float
    # The number of lines that can be in flight to a bank at a time (MSHRs).
    outstanding_lines_per_bank: int
    # The rate of all banks together.
    bandwidth_GB_per_s: float
    # The rate at which all banks together accept stored data. 0 means the rate of
    # `bandwidth_GB_per_s`.
    write_GB_per_s: float = 0
    # The number of equal parts of the L2. Each part belongs to an equal share of the compute units
    # and of the memory's channels. A part caches the data that its compute units load.
    parts: int = 1
    # The additional time of a load if the memory of its line belongs to the other part, and the
    # compute unit's own part does not have the line.
    far_latency_ns: float = 0
    # The rate of loads that find their data in the other part. 0 means that this rate has no limit.
    far_GB_per_s: float = 0
    # The largest rate at which all banks together serve requests of any size. 0 means that this
    # rate has no limit.
    requests_MHz: float = 0
    # `through`: stores go to the memory at once. `back`: stores stay in the L2 until their line is
    # evicted.
    write_policy: Literal["through", "back"]
    # Whether the L2 keeps its lines when a kernel starts. `kept`: all lines stay. `emptied`: the
    # GPU writes dirty lines to the memory and drops all lines.
    between_kernels: Literal["kept", "emptied"] = "kept"
    # The number of atomic operations that a bank can do in one clock.
    atomics_per_clock_per_bank: int
    # The time from the port of a link to the L2 and back. If the key is left out, this time is
    # `hit_latency_ns`.
    port_latency_ns: float | UnsetType = UNSET


class Tlb(Table, frozen=True, kw_only=True):
    """Address translation: a first-level TLB of each compute unit and of each scalar cache, a
    second-level TLB of the GPU, and walks of the page table at the host. If the table is left
    out, translation takes no time.
    """

    # The size of a page. Pages of unified memory have the same size.
    page_KiB: int
    # The number of pages that a first-level TLB holds.
    l1_entries: int
    # The number of pages in a set of the first level.
    l1_ways: int
    # The time that the first-level TLB adds to every access.
    l1_latency_ns: float
    # The number of translations that the first level can request at a time.
    l1_outstanding_pages: int
    # The number of pages that the second-level TLB holds.
    l2_entries: int
    # The number of pages in a set of the second level.
    l2_ways: int
    # The time that the second level adds to an access that misses the first level.
    l2_latency_ns: float
    # The number of translations that the second level can request at a time.
    l2_outstanding_pages: int
    # The number of walks of the page table that can run at a time, for all GPUs together.
    walks: int
    # The time of a walk.
    walk_ns: float


class Dram(Table, frozen=True, kw_only=True):
    """The memory of a GPU."""

    # The size of the memory.
    capacity_GiB: float
    # The sustained rate of all channels together.
    bandwidth_GB_per_s: float
    # The sustained rate of all channels together for data that the L2 writes to them. 0 means the
    # rate of `bandwidth_GB_per_s`.
    write_GB_per_s: float = 0
    # The sustained rate of all channels together if half of the bytes are loaded and half are
    # stored. Changes between loads and stores make this rate lower than the rates of loads and
    # stores alone. 0 means that the changes take no time.
    copy_GB_per_s: float = 0
    # The number of channels.
    channels: int
    # The time that an idle memory adds to a miss of the L2.
    latency_ns: float
    # The largest rate at which all channels together serve requests of any size. 0 means that this
    # rate has no limit.
    requests_MHz: float = 0


class Copy(Table, frozen=True, kw_only=True):
    """The copy engines of a GPU, and the cost of copies for the host thread."""

    # The number of copy engines of a GPU.
    engines: int
    # The number of copy engines that can copy to other GPUs. If the key is left out, all copy
    # engines can copy to other GPUs.
    peer_engines: int | UnsetType = UNSET
    # The time that the device takes to start a copy.
    setup_us: float
    # The time from a flag to the start of a copy that waits for the flag.
    wait_us: float
    # The time from the end of a kernel to the start of a copy that the host starts after the
    # kernel.
    host_us: float
    # The time that the host thread takes to enqueue a copy.
    launch_us: float
    # The time that the host thread takes to record an event and let a stream wait for it.
    event_us: float
    # The time from the end of a copy to the start of a second copy, which is in another stream and
    # waits for an event of the first copy.
    event_latency_us: float = 0
    # The rate of one copy engine, if no link is slower.
    bandwidth_GB_per_s: float


class Graph(Table, frozen=True, kw_only=True):
    """The cost of CUDA graphs of copies for the host thread. The defaults were measured on an H200
    node (driver 580.159, CUDA 13.0). For graphs of 5 to 160 copy nodes, a launch takes 13 to
    231 us, and an instantiation takes 53 to 2111 us. To change the addresses of a node takes
    0.34 us. It is assumed that a call to make a graph, or to add a node, takes about 1 us.
    """

    # The time to make an empty graph.
    creation_us: float = 1.0
    # The time to add a node with its edges.
    construction_node_us: float = 1.0
    # The fixed part of the time to make a graph executable.
    instantiation_us: float = 0.0
    # The time for each node when a graph is made executable.
    instantiation_node_us: float = 13.2
    # The time to change the addresses in a node of an executable graph.
    update_node_us: float = 0.34
    # The fixed part of the time to launch a graph.
    launch_us: float = 6.0
    # The time for each node when a graph is launched.
    launch_node_us: float = 1.4


class Launch(Table, frozen=True, kw_only=True):
    """The cost of starting a kernel, a block or a fence on the device."""

    # The gap on the device before the first block of a kernel.
    kernel_us: float
    # The time between two blocks that start on one compute unit.
    block_ns: float
    # The time of a kernel of a library call, in addition to the time of its launch and of its
    # bytes.
    library_kernel_us: float = 0
    # The delay of a kernel's first blocks for loading the kernel's machine code, per instruction of
    # this code.
    instruction_ns: float = 0
    # The time of a release at system scope if no store is outstanding.
    fence_ns: float
    # The time from a launch by a kernel to the first block of the launched kernel.
    device_us: float
    # The time between two launches by kernels of a GPU.
    device_interval_us: float
    # The number of launches by kernels that can wait for their start.
    device_pending_launches: int
    # The time from the last update of a counter until a polling agent sees this update.
    poll_ns: float
    # How a kernel's blocks are assigned to compute units. `round-robin`: compute units get blocks
    # in turn. `greedy`: the next block goes to the first compute unit with room. `partition`: each
    # compute unit gets an equal run of consecutive blocks.
    dispatch: Literal["round-robin", "greedy", "partition"] = "round-robin"


class RemoteWriteQueue(Table, frozen=True, kw_only=True):
    """FinePack's queue, packets and de-packetizer, which no GPU has. The defaults come from the
    paper (HPCA 2023, Table III and section IV-B).
    """

    # The number of lines of the queue for each destination.
    lines_per_destination: int = 64
    # The number of address windows that are open at a time for each destination.
    windows_per_destination: int = 1
    # `aligned`: a window covers an aligned range of addresses. `growing`: a window covers the span
    # of its stores.
    window: Literal["aligned", "growing"] = "aligned"
    # The size of the header of a store in a packet.
    subheader_bytes: int = 5
    # The size of the largest packet, including the headers of its stores. If `max_payload_bytes` of
    # a link is smaller, it is the limit on this link.
    payload_bytes: int = 4096
    # The stores of a queue are sent if the queue receives no store for this time. 0 means that
    # there is no such timeout.
    idle_flush_ns: float = 0
    # The number of lines of the buffer between the receiver's port and its L2.
    unpacked_lines: int = 64


class Gps(Table, frozen=True, kw_only=True):
    """The queue and the pages of GPS (MICRO 2021), which no GPU has. The defaults come from the
    paper.
    """

    # The number of lines of the queue of remote writes.
    queue_lines: int = 512
    # The size of the pages to which GPUs subscribe.
    page_KiB: int = 64


class DualOpt(Table, frozen=True, kw_only=True):
    """The hardware of DualOpt (PACT 2022), which treats the remote loads of a GPU. No GPU has this
    hardware. The defaults come from the paper (Table 1). Without this table, the machine cannot
    run DualOpt's treatments of remote loads.
    """

    # The size of the pieces of a line that a fine-grained load can request.
    granularity_bytes: Literal[4, 8, 16] = 4
    # The number of pieces of replies that can wait for each destination.
    buffer_pieces_per_destination: int = 64
    # The time after which waiting replies are sent if no further reply comes.
    timeout_clocks: int = 30
    # The size of the largest packet that several replies share, including its header.
    packet_bytes: int = 64
    # The part of the L2 that holds lines of other GPUs.
    rdma_cache_KiB: int = 1536
    # The number of lines in a set of the RDMA cache.
    rdma_cache_ways: int = 16
    # The decision engine keeps `direct` unless at least this share of all accesses is remote.
    remote_threshold: float = 0.02
    # The engine chooses fine-grained loads if loads use less than this share of a line's pieces.
    block_threshold: float = 0.2
    # The engine chooses fine-grained loads if the hit rate of remote loads in the L1 is below this
    # value. Otherwise it chooses the RDMA cache.
    hit_threshold: float = 0.4
    # The number of remote loads that the engine observes before it decides.
    monitored_accesses: int = 20000
    # The number of accesses before the engine begins to observe remote loads.
    warm_up_accesses: int
    # An adaptive engine changes its decision after this many windows in a row that favour another
    # choice. The paper does not have this key.
    agreeing_windows: int = 2
    # If loads bypass the L1, one of this many compute units still uses its L1, so that an adaptive
    # engine can measure the hit rate. The paper does not have this key.
    looking_compute_units: int = 64
    # The number of remote loads of a page before `dualopt-pages` decides for this page. The paper
    # does not have this key.
    page_loads: int = 64


class Griffin(Table, frozen=True, kw_only=True):
    """The hardware of Griffin (HPCA 2020), which moves pages to the GPUs that access them most. No
    GPU has this hardware. Without this table, the machine cannot run `griffin`.
    """

    # The largest number of pages that move together.
    batch_pages: int
    # The period in which GPUs count accesses.
    counting_clocks: int
    # The largest number of pages that a GPU reports for a period.
    counted_pages: int
    # The number of periods between two classifications of the pages.
    look_periods: int
    # The weight of the newest period's count in the rates of a page.
    newest_weight: float
    # A page does not move if all GPUs together access the page less than this number of times in a
    # period.
    least_accesses: float
    # A page is dedicated to a GPU if this GPU's access rate is at least this many times the rate of
    # every other GPU.
    dedicated_factor: float
    # A page moves to a GPU only if this GPU's access rate is more than this many times the rate of
    # every other GPU.
    shared_factor: float


class Gpu(Table, frozen=True, kw_only=True):
    """The GPUs of the machine, which are all of the same kind."""

    # The number of GPUs. All GPUs are of the same kind.
    count: int
    # The GPU's name, as its driver gives it.
    model: str
    # The number of compute units (streaming multiprocessors) of a GPU.
    compute_units: int
    # The clock of the compute units.
    clock_MHz: float
    # The number of lanes (threads) in a warp.
    warp_width_lanes: int
    # The number of warps that a compute unit holds at a time.
    warps_per_compute_unit: int
    # The number of blocks that a compute unit holds at a time.
    blocks_per_compute_unit: int
    # The shared memory of a compute unit.
    shared_KiB_per_compute_unit: int
    # The number of 32-bit registers of a compute unit. 0 means that registers do not limit the
    # number of its warps.
    registers_per_compute_unit: int = 0
    # The number of remote stores of a compute unit that can wait for a link. While this queue is
    # full, warps wait before further remote stores.
    store_queue_lines_per_compute_unit: int
    # Stores of neighbouring lanes to another GPU are combined up to this size. If the key is left
    # out, these stores are combined up to a line.
    remote_store_bytes: int | UnsetType = UNSET
    # The rate at which stores leave a compute unit. If the key is left out, stores leave at the
    # rate at which the L1 looks up lines.
    store_GB_per_s_per_compute_unit: float | UnsetType = UNSET
    # The mean error of simulated times of workloads on one GPU, as `interlace calibrate
    # --workloads` measured it. Tables of simulated times show this error.
    workload_error_percent: float | UnsetType = UNSET
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
    """The processors and their memory, described as one place."""

    # The name of the processors.
    model: str
    # The rate of the host's memory for reads and writes together.
    memory_GB_per_s: float
    # The measured rate at which copies of all GPUs together write to the host's memory. If the key
    # is left out, the rate is unknown.
    copy_write_GB_per_s: float | UnsetType = UNSET


class Protocol(Table, frozen=True, kw_only=True):
    """A protocol states how payload becomes packets. Links refer to a table `[protocol.NAME]` by
    its name.
    """

    # The generation, which determines the format of packets.
    kind: Literal["pcie3", "pcie4", "pcie5", "pcie6", "nvlink1", "nvlink2", "nvlink3", "nvlink4"]
    # The payload of the largest write packet. For PCIe, this payload is a power of two. For NVLink,
    # this payload is a multiple of 16 up to 256.
    max_payload_bytes: int
    # The bytes of a write packet's header, framing and CRC.
    packet_overhead_bytes: int | UnsetType = UNSET
    # The size of the packet of a read request.
    read_request_bytes: int | UnsetType = UNSET
    # The bytes of the header, framing and CRC of a packet that answers a read request.
    completion_overhead_bytes: int | UnsetType = UNSET
    # The size of a flit. Packets consist of whole flits. If the key is left out, a packet can have
    # any number of bytes.
    flit_bytes: int | UnsetType = UNSET
    # The size of a packet that writes 4 bytes or fewer. If the key is left out, such a packet has
    # the size of its flits.
    word_write_bytes: int | UnsetType = UNSET
    # The size of a sector. A packet with byte enables carries whole sectors, except for a single
    # aligned piece of at most 16 bytes, which takes flits. If the key is left out, all packets with
    # byte enables take flits.
    partial_write_sector_bytes: int | UnsetType = UNSET
    # The largest rate of packets of stores in a direction of a link. The receiver answers each of
    # these packets, and the answers count as packets of the other direction. If the key is left
    # out, this rate has no limit.
    store_packets_MHz: float | UnsetType = UNSET


class Link(Table, frozen=True, kw_only=True):
    """A full-duplex link. If an end stands for several devices, the table describes several equal
    links.
    """

    # The two devices. A device is a GPU such as `gpu0`, the name of a switch, or `host`. `gpu*`
    # stands for every GPU, and `gpu0-3` stands for four GPUs. If both ends name the same GPUs,
    # there is one link for every pair of these GPUs.
    ends: tuple[str, str]
    # The NAME of the table `[protocol.NAME]` that states the link's packets.
    protocol: str
    # The number of lanes (PCIe) or of bonded links (NVLink). This key is for information only.
    width: int
    # The rate in one direction over the whole width, after line coding. It includes the headers of
    # packets.
    bandwidth_GB_per_s: float
    # The time from one end of the link to the other.
    latency_ns: float
    # The measured payload rate of long copies in one direction. If the key is left out, the rate is
    # the bandwidth without the overhead of packets.
    copy_GB_per_s: float | UnsetType = UNSET
    # The measured payload rate of long copies that run in both directions at once. The value is the
    # sum of both directions.
    copy_both_GB_per_s: float | UnsetType = UNSET
    # The size of the buffer at each end for packets that wait for the link.
    queue_KiB: float


class Switch(Table, frozen=True, kw_only=True):
    """A switch between links. A file may have none."""

    # The name by which links refer to the switch.
    name: str
    # The time that a packet takes through the switch. The switch forwards at the full rate of its
    # links.
    latency_ns: float


class Machine(Table, frozen=True, kw_only=True):
    """A machine file. `name` and `sources` are not keys of the file.

    `sources` maps a name of the file, such as "gpu.count", to the comment at this name. "link.0"
    stands for the comment above the first [[link]], and "" for the comment at the file's top.
    `sources` is empty if the comments were not read.
    """

    name: str
    format: Literal[1]
    # One line of text that describes the machine.
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
    Key("gpu", "registers_per_compute_unit", "whole", 1, 0, 1048576, need="preset"),
    Key("gpu", "store_queue_lines_per_compute_unit", "whole", 1, 1, 1048576),
    Key("gpu", "remote_store_bytes", "whole", 1, 1, 128, need="optional"),
    Key("gpu", "store_GB_per_s_per_compute_unit", "number", 1000000000, 0.1, 1000000000,
        need="optional"),
    Key("gpu", "workload_error_percent", "number", 1, 0, 1000, need="optional", stored=False),
    Key("gpu.issue", "instructions_per_clock", "whole", 1, 1, 1048576),
    Key("gpu.issue", "fp32_lanes_per_clock", "whole", 1, 1, 1048576),
    Key("gpu.issue", "fp64_lanes_per_clock", "whole", 1, 1, 1048576),
    Key("gpu.issue", "integer_lanes_per_clock", "whole", 1, 1, 1048576),
    Key("gpu.issue", "special_lanes_per_clock", "whole", 1, 1, 1048576),
    Key("gpu.issue", "memory_lines_per_clock", "whole", 1, 1, 1048576),
    Key("gpu.issue", "sub_cores", "whole", 1, 1, 8, need="preset"),
    Key("gpu.issue", "fp32_latency_clocks", "number", 1, 0, 1000000000, need="preset"),
    Key("gpu.issue", "fp64_latency_clocks", "number", 1, 0, 1000000000, need="preset"),
    Key("gpu.issue", "integer_latency_clocks", "number", 1, 0, 1000000000, need="preset"),
    Key("gpu.issue", "special_latency_clocks", "number", 1, 0, 1000000000, need="preset"),
    Key("gpu.issue", "shuffle_latency_clocks", "number", 1, 0, 1000000000, need="preset"),
    Key("gpu.issue", "vote_latency_clocks", "number", 1, 0, 1000000000, need="preset"),
    Key("gpu.issue", "reduction_latency_clocks", "number", 1, 0, 1000000000, need="preset"),
    Key("gpu.issue", "minimum_inputs", "whole", 1, 2, 3, need="preset"),
    Key("gpu.issue", "shared_latency_clocks", "number", 1, 0, 1000000000, need="preset"),
    Key("gpu.issue", "barrier_latency_clocks", "number", 1, 0, 1000000000, need="preset"),
    Key("gpu.issue", "barrier_warp_latency_clocks", "number", 1, 0, 1000000000, need="preset"),
    Key("gpu.issue", "loop_latency_clocks", "number", 1, 0, 1000000000, need="preset"),
    Key("gpu.issue", "load_lanes_per_clock", "whole", 1, 0, 64, need="preset"),
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
    Key("gpu.l1", "shared_memory", "choice", 1, need="preset", choices=("apart", "inside",)),
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
    Key("gpu.l2", "write_GB_per_s", "number", 1000000000, 0, 1000000000, need="preset"),
    Key("gpu.l2", "parts", "whole", 1, 1, 2, need="preset"),
    Key("gpu.l2", "far_latency_ns", "number", 1000, 0, 1000000000, need="preset"),
    Key("gpu.l2", "far_GB_per_s", "number", 1000000000, 0, 1000000000, need="preset"),
    Key("gpu.l2", "requests_MHz", "number", 1000000, 0, 1000000000, need="preset"),
    Key("gpu.l2", "write_policy", "choice", 1, choices=("through", "back",)),
    Key("gpu.l2", "between_kernels", "choice", 1, need="preset", choices=("kept", "emptied",)),
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
    Key("gpu.dram", "write_GB_per_s", "number", 1000000000, 0, 1000000000, need="preset"),
    Key("gpu.dram", "copy_GB_per_s", "number", 1000000000, 0, 1000000000, need="preset"),
    Key("gpu.dram", "channels", "whole", 1, 1, 1048576),
    Key("gpu.dram", "latency_ns", "number", 1000, 0, 1000000000),
    Key("gpu.dram", "requests_MHz", "number", 1000000, 0, 1000000000, need="preset"),
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
    Key("gpu.launch", "library_kernel_us", "number", 1000000, 0, 1000000000, need="preset"),
    Key("gpu.launch", "instruction_ns", "number", 1000, 0, 1000000000, need="preset"),
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
    Key("protocol", "partial_write_sector_bytes", "whole", 1, 16, 128, need="nvlink_only"),
    Key("protocol", "store_packets_MHz", "number", 1000000, 0, 1000000000, need="nvlink_only",
        above_least=True),
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
    Rule("divides", "gpu.issue.sub_cores", ("gpu.issue.instructions_per_clock",)),
    Rule("divides", "gpu.issue.sub_cores", ("gpu.issue.fp32_lanes_per_clock",)),
    Rule("divides", "gpu.issue.sub_cores", ("gpu.issue.fp64_lanes_per_clock",)),
    Rule("divides", "gpu.issue.sub_cores", ("gpu.issue.integer_lanes_per_clock",)),
    Rule("divides", "gpu.issue.sub_cores", ("gpu.issue.special_lanes_per_clock",)),
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
