// The description of a node as plain values: devices, ports, links, protocols and memory.
//
// The TOML files in machines/ have the same structure, with a unit in every key. Python reads and
// validates the files and fills these structs, so C++ never parses a file. All rates are in bytes
// per second (1 GB/s = 1e9), all times are in picoseconds, and all sizes are in bytes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "interlace/base/limits.hpp"

namespace interlace::machine {

// One level of cache. A line is filled in units of sectors.
struct cache {
  std::uint64_t bytes = 0;
  std::uint32_t ways = 0;
  std::uint32_t line_bytes = 0;
  std::uint32_t sector_bytes = 0;
  std::uint32_t banks = 1;           // L2: slices, each with its own port; L1: unused
  std::uint64_t hit_latency_ps = 0;  // round trip from the compute unit to the data
  std::uint32_t mshrs = 0;  // line misses in flight for each compute unit (L1) or bank (L2)
  double bytes_per_s = 0;   // rate of all banks together (L2) or of each compute unit (L1)
  bool write_back = false;  // if false, the cache is write-through without allocation
  // If true, the low bits of a line's number select its set. If false, a hash of the number selects
  // it.
  bool modulo_sets = false;
  // For the L1 only. If true, a miss whose set has only lines in flight waits for one of these
  // lines, and later loads wait, too. If false, the miss displaces one of these lines.
  bool stalls_on_full_set = false;
  // For the L1 only: whether the L1 also holds the kernel's shared memory, in a part of its bytes.
  bool holds_shared = false;
  // For the L2 only: the rate at which all banks together take stored bytes. 0 means bytes_per_s.
  double write_bytes_per_s = 0;
  // For the L2 only: the number of equal parts. Each part belongs to an equal share of the compute
  // units, and caches what these units load. Each line has a home part, and uses the memory
  // channels of this part.
  std::uint32_t parts = 1;
  std::uint64_t far_latency_ps = 0;  // additional latency of a line whose home is another part
  // The rate of loads of lines whose home is another part; 0 means no limit.
  double far_bytes_per_s = 0;
  // For the L2 only: the largest rate at which all banks together serve requests of any size. 0
  // means that this rate has no limit.
  double requests_per_s = 0;
  // For the L2 only: whether a GPU writes back and empties its L2 before each kernel.
  bool emptied = false;
};

// A first-level cache for loads of one element for all lanes of a warp. Several compute units share
// the cache. A miss takes an entry of the compute unit that loads.
struct scalar_cache {
  // 0 if the GPU has no such cache; in that case, these loads go to the L1
  std::uint64_t bytes = 0;
  std::uint32_t ways = 0;
  std::uint32_t compute_units = 1;  // number of compute units that share one cache
  std::uint64_t hit_latency_ps = 0;
};

// The memory of a GPU.
struct dram {
  std::uint64_t bytes = 0;
  double bytes_per_s = 0;  // sustained rate of all channels together
  std::uint32_t channels = 1;
  std::uint64_t latency_ps = 0;  // time that an L2 miss adds if the memory is idle
  // The largest rate at which all channels together serve requests of any size. 0 means that this
  // rate has no limit.
  double requests_per_s = 0;
  double write_bytes_per_s = 0;  // sustained rate of writes; 0 means bytes_per_s
  // Sustained rate of reads and writes together, if there are as many reads as writes. 0 means that
  // each byte takes the time that it takes alone.
  double copy_bytes_per_s = 0;
};

// Throughput of a compute unit, in lane operations per clock, and the latency of its operations.
struct issue_rates {
  std::uint32_t sub_cores = 1;     // equal parts of the unit; each warp stays in one of them
  std::uint32_t instructions = 4;  // number of warp instructions issued per clock (schedulers)
  std::uint32_t fp32 = 64;
  std::uint32_t fp64 = 32;
  std::uint32_t integer = 64;
  std::uint32_t special = 16;  // reciprocal, square root, transcendental
  // The number of lines (tags) that the load/store unit looks up per clock.
  std::uint32_t memory_lines = 1;
  // The latencies of operations, by kind. A latency is the number of clocks from an operation until
  // another operation can use its result. 0 means the time for which the lanes are busy with the
  // operation.
  double fp32_latency = 0;
  double fp64_latency = 0;
  double integer_latency = 0;
  double special_latency = 0;
  double shuffle_latency = 0;  // 0 means the latency of an L1 hit
  // The latency of a ballot; 0 means the latency of a register exchange.
  double vote_latency = 0;
  // The latency of a reduction of 32-bit integers over a warp; 0 means that the machine makes
  // exchanges and operations instead.
  double reduction_latency = 0;
  // One operation computes the minimum of this many integers.
  std::uint32_t minimum_inputs = 2;
  // The latency of a load from shared memory; 0 means the latency of an L1 hit.
  double shared_latency = 0;
  double barrier_latency = 0;       // time from the last warp's arrival until the warps continue
  double barrier_warp_latency = 0;  // additional time for each warp of the block
  // The time that the end of each iteration adds to a loop in which an iteration needs the result
  // of the previous iteration.
  double loop_latency = 0;
  // The number of a load's lanes whose addresses are taken per clock; 0 means all lanes.
  std::uint32_t load_lanes = 0;
};

// Address translation. Each compute unit (and each scalar cache) has an L1 TLB, and the GPU has an
// L2 TLB. A unit at the host walks the page tables; GPUs reach it over the machine's links.
struct tlb {
  // The size of a page, also of unified memory; 0 means that translation takes no time.
  std::uint32_t page_bytes = 0;
  std::uint32_t l1_entries = 0;
  std::uint32_t l1_ways = 0;
  std::uint64_t l1_latency_ps = 0;  // latency that every access has
  std::uint32_t l1_mshrs = 0;       // number of pages that one L1 TLB can have in flight
  std::uint32_t l2_entries = 0;
  std::uint32_t l2_ways = 0;
  std::uint64_t l2_latency_ps = 0;  // additional latency of an access that misses the L1 TLB
  std::uint32_t l2_mshrs = 0;
  std::uint32_t walks = 0;  // number of walks at a time for all GPUs together
  std::uint64_t walk_ps = 0;
};

// Hardware that packs remote stores, between a GPU's crossbar and its links. No existing GPU has
// this hardware. The defaults are those of FinePack (HPCA 2023), Table III. Lines of the queue are
// as long as the lines of the caches.
struct remote_write_queue {
  std::uint32_t entries = 64;  // number of lines for each destination
  std::uint32_t windows = 1;   // number of windows that are open at a time, for each destination
  // If true, a window spans the stored addresses. If false, a window is an aligned range.
  bool grows_window = false;
  std::uint32_t subheader_bytes = 5;
  std::uint32_t payload_bytes = 4096;  // largest payload of a packet, including sub-headers
  // the queue flushes after this time without a store to a destination; 0 means never
  std::uint64_t idle_flush_ps = 0;
  std::uint32_t unpacked_lines = 64;  // lines in the receiver's buffer between its port and its L2
};

// The hardware of GPS (MICRO 2021), a queue of lines. All subscribers of a page receive the page's
// lines.
struct subscriptions {
  std::uint32_t queue_lines = 512;
  std::uint64_t page_bytes = 65536;
};

// Hardware that handles the remote loads of a GPU (DualOpt, PACT 2022, Table 1). No existing GPU
// has this hardware.
struct dualopt {
  std::uint32_t piece_bytes = 4;     // granularity of fine-grained loads: 4, 8 or 16
  std::uint32_t buffer_pieces = 64;  // capacity of the buffer for replies to one destination
  // the buffer is sent if no reply to its destination comes for this time
  std::uint32_t timeout_clocks = 30;
  std::uint32_t packet_bytes = 64;  // largest coalesced reply, including its header
  // Size that is taken from the L2; 0 means that the machine has no such hardware.
  std::uint64_t rdma_cache_bytes = 0;
  std::uint32_t rdma_cache_ways = 16;
  double remote_threshold = 0.02;
  double block_threshold = 0.2;
  double hit_threshold = 0.4;
  // The number of remote accesses that are watched before the decision.
  std::uint64_t monitored = 20'000;
  std::uint64_t warm_up = 0;  // number of accesses that are ignored before the watched accesses
  // For an engine that continues to watch: its decision changes after this many windows in a row
  // agree on another decision.
  std::uint32_t agreeing_windows = 2;
  // For an engine that continues to watch: one of this many compute units continues to look up its
  // L1.
  std::uint32_t looking_units = 64;
  // The number of remote loads after which a page gets an optimisation of its own.
  std::uint32_t page_loads = 64;
};

// Hardware that moves pages depending on the GPUs that access them (Griffin, HPCA 2020). No
// existing GPU has this hardware.
struct griffin {
  // The most pages that move together. 0 means that the machine has no such hardware.
  std::uint32_t batch_pages = 0;
  std::uint32_t counting_clocks = 0;  // length of the period in which GPUs count accesses
  std::uint32_t counted_pages = 0;    // most pages that a GPU reports in a period
  // The number of periods from one classification of the pages to the next.
  std::uint32_t look_periods = 0;
  double newest_weight = 0;  // weight of the newest period's count in the rates
  // A page moves only if all GPUs together access the page at least this many times per period.
  double least_rate = 0;
  // A page is dedicated to a GPU if this GPU's rate is this many times the rate of every other GPU.
  double dedicated_factor = 0;
  // A shared page moves to a GPU only if that GPU's rate is more than this many times the rate of
  // every other GPU.
  double shared_factor = 0;
};

// The time that CUDA graphs of copies cost on the host thread, for each graph and for each of its
// nodes.
struct graph_costs {
  std::uint64_t creation_ps = 0;
  std::uint64_t node_ps = 0;  // time to construct a node with its edges
  std::uint64_t instantiation_ps = 0;
  std::uint64_t instantiation_node_ps = 0;
  // time to change the addresses in a node of an executable graph
  std::uint64_t update_node_ps = 0;
  std::uint64_t launch_ps = 0;
  std::uint64_t launch_node_ps = 0;
};

// The way in which the GPU chooses the compute unit that gets a kernel's next block.
enum class block_dispatch : std::uint8_t {
  round_robin,  // one unit after another, as places become free
  greedy,       // the first unit that has a place
  partition,    // each unit gets an equal range of the blocks
};

// The GPUs of a machine are all of this kind.
struct gpu {
  std::string model;
  std::uint32_t compute_units = 0;
  double clock_hz = 0;
  std::uint32_t warp_width = 32;
  std::uint32_t max_warps = 64;    // number of warps that a compute unit can hold
  std::uint32_t max_blocks = 32;   // number of blocks that a compute unit can hold
  std::uint64_t shared_bytes = 0;  // shared memory of a compute unit
  // The number of 32-bit registers of a compute unit; 0 means that registers limit nothing.
  std::uint32_t registers = 0;
  issue_rates issue;
  cache l1;
  scalar_cache scalar_l1;
  cache l2;
  interlace::machine::tlb tlb;
  // round trip from a link's port to the L2; 0 means the latency of an L2 hit
  std::uint64_t port_l2_latency_ps = 0;
  interlace::machine::dram dram;
  std::uint32_t atomic_ops_per_clock_per_bank = 1;
  std::uint32_t copy_engines = 1;
  // The number of engines that can copy to other GPUs; 0 means all engines.
  std::uint32_t copy_peer_engines = 0;
  std::uint64_t copy_setup_ps = 0;  // time of the device to start one copy
  double copy_bytes_per_s = 0;      // rate of one engine, if no link limits it
  // The time from a flag to the start of a copy that waits for the flag.
  std::uint64_t copy_wait_ps = 0;
  // The time from a kernel's end to the start of a copy that the host starts after the kernel.
  std::uint64_t copy_host_ps = 0;
  std::uint64_t copy_launch_ps = 0;  // time of the host thread to enqueue a copy
  // The time of the host thread to record an event and to enqueue a wait for it.
  std::uint64_t copy_event_ps = 0;
  // The time from a copy's end to the start of work in another stream that waits for the copy by an
  // event. 0 means that the time is unknown.
  std::uint64_t copy_event_latency_ps = 0;
  graph_costs graph;
  // The time on the device before the first block of a kernel starts.
  std::uint64_t kernel_launch_ps = 0;
  std::uint64_t block_launch_ps = 0;  // time between the starts of two blocks on one compute unit
  std::uint64_t call_kernel_ps = 0;   // least time of a kernel of a library call
  // The time that each instruction of a kernel's code adds to the kernel's start.
  std::uint64_t instruction_ps = 0;
  block_dispatch dispatch = block_dispatch::round_robin;
  std::uint64_t fence_ps = 0;  // time of a system-scope release without stores in flight
  // Costs of kernels that kernels launch. `device_launch_ps` is the time from the launch to the
  // first block. `device_launch_interval_ps` is the time between two launches of the GPU. At most
  // `device_launches_pending` launches may be pending.
  std::uint64_t device_launch_ps = 0;
  std::uint64_t device_launch_interval_ps = 0;
  std::uint32_t device_launches_pending = 2048;
  std::uint64_t poll_ps = 0;  // time from a counter's last update until an agent sees it
  // most remote stores of a compute unit that wait for the egress port
  std::uint32_t store_queue_lines = 0;
  // Stores of neighbouring lanes to another GPU are joined up to this size. 0 means up to a line.
  std::uint32_t remote_store_bytes = 0;
  // rate at which stores leave a compute unit; 0 means the rate of lookups
  double store_bytes_per_s = 0;
  interlace::machine::remote_write_queue write_queue;
  subscriptions gps;
  interlace::machine::dualopt dualopt;
  interlace::machine::griffin griffin;
};

// The kinds of parts that a link can connect.
enum class endpoint_kind : std::uint8_t { gpu, network_switch, host };

// An end of a link.
struct endpoint {
  endpoint_kind kind = endpoint_kind::gpu;
  std::uint32_t index = 0;  // number of the GPU or switch, counted from 0; 0 for the host
  friend bool operator==(const endpoint&, const endpoint&) = default;
};

// The rules by which packets are sized. sim/fabric/protocol.hpp computes the bytes of every kind of
// packet.
enum class protocol_kind : std::uint8_t {
  pcie3,
  pcie4,
  pcie5,
  pcie6,
  nvlink1,
  nvlink2,
  nvlink3,
  nvlink4
};

// The protocol of a link: its packet rules, and the sizes of its headers.
struct protocol {
  protocol_kind kind = protocol_kind::nvlink2;
  std::uint32_t max_payload_bytes = 256;     // largest payload of a write packet
  std::uint32_t packet_overhead_bytes = 24;  // PCIe: TLP header, framing, LCRC; unused on NVLink
  std::uint32_t read_request_bytes = 24;     // PCIe: size of a whole request packet
  std::uint32_t completion_overhead_bytes = 20;
  // PCIe: packets take whole flits of this size; 0 means no flits
  std::uint32_t link_flit_bytes = 0;
  // NVLink: size of a whole packet that writes at most 4 bytes; 0 means whole flits
  std::uint32_t word_write_bytes = 0;
  // NVLink: a packet with byte enables carries whole sectors of this size. 0 means whole flits.
  std::uint32_t partial_write_sector_bytes = 0;
  // NVLink: the largest rate of packets of stores and of answers to them, in a direction of a link.
  // 0 means no limit.
  double store_packets_per_s = 0;
};

// A full-duplex connection. `bytes_per_s` is the rate of one direction over all lanes, after line
// coding.
struct link {
  endpoint a;
  endpoint b;
  std::string protocol_name;  // the protocol's name in the machine file, for people
  interlace::machine::protocol protocol;
  std::uint32_t width = 1;  // lanes (PCIe) or links (NVLink), for people
  double bytes_per_s = 0;
  std::uint64_t latency_ps = 0;
  std::uint64_t queue_bytes = 0;  // size of the egress buffer at each end of the link
  // Measured payload rates of long copies. `copy_bytes_per_s` is the rate in one direction, and
  // `copy_both_bytes_per_s` is the sum of both directions. 0 means that the rate is unknown.
  double copy_bytes_per_s = 0;
  double copy_both_bytes_per_s = 0;
};

// A switch between links. It adds its latency to each packet that crosses it.
struct network_switch {
  std::string name;
  std::uint64_t latency_ps = 0;
};

// The host: the processor and the memory that GPUs reach over links.
struct host {
  std::string model;
  double memory_bytes_per_s = 0;  // rate of reads and writes together
  // The rate of the copies of all GPUs to the host together; 0 means unknown.
  double copy_write_bytes_per_s = 0;
};

// A whole machine: GPUs of one kind, a host, switches, and the links between them.
struct machine {
  std::string name;
  std::string title;
  std::uint32_t gpu_count = 0;
  interlace::machine::gpu gpu;
  interlace::machine::host host;
  std::vector<network_switch> switches;
  std::vector<link> links;
};

}  // namespace interlace::machine
