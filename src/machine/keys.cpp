#include "machine/keys.hpp"

#include <array>

#include "interlace/base/limits.hpp"

namespace interlace::machine {
namespace {

constexpr range counts{1, 1 << 20, false};
constexpr range positive{0, 1e9, true};
constexpr range not_negative{0, 1e9, false};
constexpr range bytes{1, 1 << 20, false};
constexpr range lines{1, 65536, false};
constexpr range share{0, 1, false};
// The bounds of rates in GB/s. With lower rates, times would not fit in 63 bits.
constexpr range rates{0.1, 1e9, false};
constexpr range text_length{1, 200, false};

constexpr key whole(std::string_view table, std::string_view name, range within, field_of at,
                    std::string_view meaning) {
  return {table, name, key_type::whole, within, "", need::required, "", meaning, at};
}

constexpr key number(std::string_view table, std::string_view name, range within, field_of at,
                     std::string_view meaning) {
  return {table, name, key_type::number, within, "", need::required, "", meaning, at};
}

constexpr key choice(std::string_view table, std::string_view name, std::string_view words,
                     field_of at, std::string_view meaning) {
  return {table, name, key_type::choice, {}, words, need::required, "", meaning, at};
}

constexpr key text(std::string_view table, std::string_view name, field_of at,
                   std::string_view meaning) {
  return {table, name, key_type::text, text_length, "", need::required, "", meaning, at};
}

constexpr key optional(key one, need how = need::optional) {
  one.given = how;
  return one;
}

constexpr key preset(std::string_view value, key one) {
  one.given = need::preset;
  one.preset = value;
  return one;
}

constexpr key one_of(std::string_view numbers, key one) {
  one.choices = numbers;
  return one;
}

// Pointers to the fields of a machine, a protocol, a switch and a link.
// NOLINTBEGIN(cppcoreguidelines-macro-usage): C++ has no value that stands for a path of members
#define OF_MACHINE(path)                                                         \
  field_of {                                                                     \
    .of_machine = [](machine& it) -> field { return &it.path; }, .member = #path \
  }
#define OF_PROTOCOL(path)                                                          \
  field_of {                                                                       \
    .of_protocol = [](protocol& it) -> field { return &it.path; }, .member = #path \
  }
#define OF_SWITCH(path)                                                                \
  field_of {                                                                           \
    .of_switch = [](network_switch& it) -> field { return &it.path; }, .member = #path \
  }
#define OF_LINK(path)                                                      \
  field_of {                                                               \
    .of_link = [](link& it) -> field { return &it.path; }, .member = #path \
  }
// NOLINTEND(cppcoreguidelines-macro-usage)

constexpr std::array key_list{
    one_of("1", whole("", "format", {1, 1, false}, {},
                      "The version of this format. This key must be the first line of a file.")),
    text("", "title", OF_MACHINE(title), "One line of text that describes the machine."),

    whole("gpu", "count", {1, max_devices, false}, OF_MACHINE(gpu_count),
          "The number of GPUs. All GPUs are of the same kind."),
    text("gpu", "model", OF_MACHINE(gpu.model), "The GPU's name, as its driver gives it."),
    whole("gpu", "compute_units", {1, 65534, false}, OF_MACHINE(gpu.compute_units),
          "The number of compute units (streaming multiprocessors) of a GPU."),
    number("gpu", "clock_MHz", {1, 1e9, false}, OF_MACHINE(gpu.clock_hz),
           "The clock of the compute units."),
    whole("gpu", "warp_width_lanes", {1, 64, false}, OF_MACHINE(gpu.warp_width),
          "The number of lanes (threads) in a warp."),
    whole("gpu", "warps_per_compute_unit", counts, OF_MACHINE(gpu.max_warps),
          "The number of warps that a compute unit holds at a time."),
    whole("gpu", "blocks_per_compute_unit", counts, OF_MACHINE(gpu.max_blocks),
          "The number of blocks that a compute unit holds at a time."),
    whole("gpu", "shared_KiB_per_compute_unit", counts, OF_MACHINE(gpu.shared_bytes),
          "The shared memory of a compute unit."),
    preset("0", whole("gpu", "registers_per_compute_unit", {0, 1 << 20, false},
                      OF_MACHINE(gpu.registers),
                      "The number of 32-bit registers of a compute unit. 0 means that registers do "
                      "not limit the number of its warps.")),
    whole("gpu", "store_queue_lines_per_compute_unit", counts, OF_MACHINE(gpu.store_queue_lines),
          "The number of remote stores of a compute unit that can wait for a link. While this "
          "queue is full, warps wait before further remote stores."),
    optional(whole("gpu", "remote_store_bytes", {1, 128, false}, OF_MACHINE(gpu.remote_store_bytes),
                   "Stores of neighbouring lanes to another GPU are combined up to this size. If "
                   "the key is left out, these stores are combined up to a line.")),
    optional(number("gpu", "store_GB_per_s_per_compute_unit", rates,
                    OF_MACHINE(gpu.store_bytes_per_s),
                    "The rate at which stores leave a compute unit. If the key is left out, stores "
                    "leave at the rate at which the L1 looks up lines.")),

    optional(
        number("gpu", "workload_error_percent", {0, 1000, false}, {},
               "The mean error of simulated times of workloads on one GPU, as `interlace calibrate "
               "--workloads` measured it. Tables of simulated times show this error.")),

    whole("gpu.issue", "instructions_per_clock", counts, OF_MACHINE(gpu.issue.instructions),
          "The number of warp instructions that a compute unit's schedulers issue."),
    whole("gpu.issue", "fp32_lanes_per_clock", counts, OF_MACHINE(gpu.issue.fp32),
          "The number of lanes for 32-bit floating-point operations."),
    whole("gpu.issue", "fp64_lanes_per_clock", counts, OF_MACHINE(gpu.issue.fp64),
          "The number of lanes for 64-bit floating-point operations."),
    whole("gpu.issue", "integer_lanes_per_clock", counts, OF_MACHINE(gpu.issue.integer),
          "The number of lanes for integer operations."),
    whole("gpu.issue", "special_lanes_per_clock", counts, OF_MACHINE(gpu.issue.special),
          "The number of lanes for reciprocals, square roots and transcendental functions."),
    whole("gpu.issue", "memory_lines_per_clock", counts, OF_MACHINE(gpu.issue.memory_lines),
          "The number of cache lines that the load/store unit can look up."),
    preset("1", whole("gpu.issue", "sub_cores", {1, 8, false}, OF_MACHINE(gpu.issue.sub_cores),
                      "The number of equal parts of a compute unit. Each part has its share of the "
                      "lanes and of the instructions. A warp stays in one part.")),
    preset(
        "0",
        number("gpu.issue", "fp32_latency_clocks", not_negative, OF_MACHINE(gpu.issue.fp32_latency),
               "The time from a 32-bit floating-point operation to an operation that needs its "
               "result. 0 means the time for which the lanes are busy with the operation.")),
    preset(
        "0",
        number("gpu.issue", "fp64_latency_clocks", not_negative, OF_MACHINE(gpu.issue.fp64_latency),
               "The time from a 64-bit floating-point operation to an operation that needs its "
               "result. 0 means the time for which the lanes are busy with the operation.")),
    preset("0", number("gpu.issue", "integer_latency_clocks", not_negative,
                       OF_MACHINE(gpu.issue.integer_latency),
                       "The time from an integer operation to an operation that needs its result. "
                       "0 means the time for which the lanes are busy with the operation.")),
    preset("0", number("gpu.issue", "special_latency_clocks", not_negative,
                       OF_MACHINE(gpu.issue.special_latency),
                       "The time from a reciprocal, a square root or a transcendental function to "
                       "an operation that needs its result. 0 means the time for which the lanes "
                       "are busy with the operation.")),
    preset("0", number("gpu.issue", "shuffle_latency_clocks", not_negative,
                       OF_MACHINE(gpu.issue.shuffle_latency),
                       "The time of an exchange of registers in a warp. 0 means `hit_latency_ns` "
                       "of the L1.")),
    preset("0", number("gpu.issue", "vote_latency_clocks", not_negative,
                       OF_MACHINE(gpu.issue.vote_latency),
                       "The time of a comparison in all lanes of a warp and a ballot of the "
                       "results. 0 means `shuffle_latency_clocks`.")),
    preset("0", number("gpu.issue", "reduction_latency_clocks", not_negative,
                       OF_MACHINE(gpu.issue.reduction_latency),
                       "The time of an instruction that adds the 32-bit integers of all lanes of a "
                       "warp, or takes their minimum. 0 means that exchanges of registers and "
                       "operations compute the result instead.")),
    preset("2",
           whole("gpu.issue", "minimum_inputs", {2, 3, false}, OF_MACHINE(gpu.issue.minimum_inputs),
                 "The number of integers whose minimum or maximum one operation takes.")),
    preset("0", number("gpu.issue", "shared_latency_clocks", not_negative,
                       OF_MACHINE(gpu.issue.shared_latency),
                       "The time of a load from shared memory. 0 means `hit_latency_ns` of the "
                       "L1.")),
    preset("0", number("gpu.issue", "barrier_latency_clocks", not_negative,
                       OF_MACHINE(gpu.issue.barrier_latency),
                       "The time from the arrival of a block's last warp at a barrier until the "
                       "block's warps continue.")),
    preset("0", number("gpu.issue", "barrier_warp_latency_clocks", not_negative,
                       OF_MACHINE(gpu.issue.barrier_warp_latency),
                       "The time that each warp of the block adds to `barrier_latency_clocks`.")),
    preset(
        "0",
        number(
            "gpu.issue", "loop_latency_clocks", not_negative, OF_MACHINE(gpu.issue.loop_latency),
            "The time that a warp needs at the end of an iteration, in addition to the loads and "
            "operations. It applies to loops that carry a result from one iteration to the next.")),
    preset("0", whole("gpu.issue", "load_lanes_per_clock", {0, 64, false},
                      OF_MACHINE(gpu.issue.load_lanes),
                      "The number of lanes whose addresses the load/store unit accepts in one "
                      "clock, for a load from global memory. 0 means all lanes of a warp.")),

    whole("gpu.l1", "size_KiB", counts, OF_MACHINE(gpu.l1.bytes), "The size of the cache."),
    whole("gpu.l1", "ways", counts, OF_MACHINE(gpu.l1.ways), "The number of lines in a set."),
    one_of("64|128", whole("gpu.l1", "line_bytes", bytes, OF_MACHINE(gpu.l1.line_bytes),
                           "The size of a "
                           "line.")),
    whole("gpu.l1", "sector_bytes", bytes, OF_MACHINE(gpu.l1.sector_bytes),
          "The size of the parts of a line that are fetched separately."),
    number("gpu.l1", "hit_latency_ns", not_negative, OF_MACHINE(gpu.l1.hit_latency_ps),
           "The time of a hit, from the compute unit to the data and back."),
    whole("gpu.l1", "outstanding_lines", {1, 65535, false}, OF_MACHINE(gpu.l1.mshrs),
          "The number of lines that can be in flight to the cache at a time (MSHRs)."),
    number("gpu.l1", "bandwidth_GB_per_s", rates, OF_MACHINE(gpu.l1.bytes_per_s),
           "The rate at which a compute unit gets data from hits."),
    choice("gpu.l1", "write_policy", "through|back", OF_MACHINE(gpu.l1.write_back),
           "`through`: stores go to the L2 at once, and do not allocate a line in the L1. `back`: "
           "stores stay in the L1 until their line is evicted."),
    preset("hashed", choice("gpu.l1", "set_index", "hashed|modulo", OF_MACHINE(gpu.l1.modulo_sets),
                            "How the address of a line determines the line's set.")),
    preset("displaces",
           choice("gpu.l1", "full_set", "displaces|stalls", OF_MACHINE(gpu.l1.stalls_on_full_set),
                  "What a miss does if all lines of its set are in flight. `displaces`: the miss "
                  "displaces one of these lines. `stalls`: the miss and all later loads wait.")),
    preset(
        "apart",
        choice(
            "gpu.l1", "shared_memory", "apart|inside", OF_MACHINE(gpu.l1.holds_shared),
            "Where the blocks on a compute unit have their shared memory. `apart`: in a memory "
            "beside the L1. `inside`: in the L1. The size of the L1 falls by the smallest of these "
            "sizes that holds the shared memory of all blocks that fit: 0, 8, 16, 32, 64, 100, "
            "132, 164, 196 or 228 KiB. With `inside`, each block takes 1 KiB more than its shared "
            "memory.")),

    whole("gpu.scalar_l1", "size_KiB", counts, OF_MACHINE(gpu.scalar_l1.bytes),
          "The size of a "
          "cache."),
    whole("gpu.scalar_l1", "ways", counts, OF_MACHINE(gpu.scalar_l1.ways),
          "The number of "
          "lines in a set."),
    whole("gpu.scalar_l1", "compute_units", counts, OF_MACHINE(gpu.scalar_l1.compute_units),
          "The number of compute units that share one of these caches."),
    number("gpu.scalar_l1", "hit_latency_ns", not_negative,
           OF_MACHINE(gpu.scalar_l1.hit_latency_ps),
           "The time of a hit, from the compute unit to the data and back."),

    whole("gpu.l2", "size_KiB", counts, OF_MACHINE(gpu.l2.bytes),
          "The size of all banks "
          "together."),
    whole("gpu.l2", "ways", counts, OF_MACHINE(gpu.l2.ways), "The number of lines in a set."),
    one_of("64|128", whole("gpu.l2", "line_bytes", bytes, OF_MACHINE(gpu.l2.line_bytes),
                           "The size of a "
                           "line.")),
    whole("gpu.l2", "sector_bytes", bytes, OF_MACHINE(gpu.l2.sector_bytes),
          "The size of the parts of a line that are fetched separately."),
    whole("gpu.l2", "banks", counts, OF_MACHINE(gpu.l2.banks),
          "The number of slices, each "
          "with its own port."),
    number("gpu.l2", "hit_latency_ns", not_negative, OF_MACHINE(gpu.l2.hit_latency_ps),
           "The time of a hit, from the compute unit to the data and back."),
    whole("gpu.l2", "outstanding_lines_per_bank", {1, 65535, false}, OF_MACHINE(gpu.l2.mshrs),
          "The number of lines that can be in flight to a bank at a time (MSHRs)."),
    number("gpu.l2", "bandwidth_GB_per_s", rates, OF_MACHINE(gpu.l2.bytes_per_s),
           "The rate of all banks together."),
    preset("0",
           number("gpu.l2", "write_GB_per_s", not_negative, OF_MACHINE(gpu.l2.write_bytes_per_s),
                  "The rate at which all banks together accept stored data. 0 means the rate of "
                  "`bandwidth_GB_per_s`.")),
    preset("1", whole("gpu.l2", "parts", {1, 2, false}, OF_MACHINE(gpu.l2.parts),
                      "The number of equal parts of the L2. Each part belongs to an equal share of "
                      "the compute units and of the memory's channels. A part caches the data that "
                      "its compute units load.")),
    preset("0", number("gpu.l2", "far_latency_ns", not_negative, OF_MACHINE(gpu.l2.far_latency_ps),
                       "The additional time of a load if the memory of its line belongs to the "
                       "other part, and the compute unit's own part does not have the line.")),
    preset("0", number("gpu.l2", "far_GB_per_s", not_negative, OF_MACHINE(gpu.l2.far_bytes_per_s),
                       "The rate of loads that find their data in the other part. 0 means that "
                       "this rate has no limit.")),
    preset("0", number("gpu.l2", "requests_MHz", not_negative, OF_MACHINE(gpu.l2.requests_per_s),
                       "The largest rate at which all banks together serve requests of any "
                       "size. 0 means that this rate has no limit.")),
    choice("gpu.l2", "write_policy", "through|back", OF_MACHINE(gpu.l2.write_back),
           "`through`: stores go to the memory at once. `back`: stores stay in the L2 until their "
           "line is evicted."),
    preset("kept",
           choice("gpu.l2", "between_kernels", "kept|emptied", OF_MACHINE(gpu.l2.emptied),
                  "Whether the L2 keeps its lines when a kernel starts. `kept`: all lines stay. "
                  "`emptied`: the GPU writes dirty lines to the memory and drops all lines.")),
    whole("gpu.l2", "atomics_per_clock_per_bank", counts,
          OF_MACHINE(gpu.atomic_ops_per_clock_per_bank),
          "The number of atomic operations that a bank can do in one clock."),
    optional(number("gpu.l2", "port_latency_ns", positive, OF_MACHINE(gpu.port_l2_latency_ps),
                    "The time from the port of a link to the L2 and back. If the key is left out, "
                    "this time is `hit_latency_ns`.")),

    whole("gpu.tlb", "page_KiB", {4, 2048, false}, OF_MACHINE(gpu.tlb.page_bytes),
          "The size of a page. Pages of unified memory have the same size."),
    whole("gpu.tlb", "l1_entries", counts, OF_MACHINE(gpu.tlb.l1_entries),
          "The number of pages that a first-level TLB holds."),
    whole("gpu.tlb", "l1_ways", counts, OF_MACHINE(gpu.tlb.l1_ways),
          "The number of pages in a set of the first level."),
    number("gpu.tlb", "l1_latency_ns", not_negative, OF_MACHINE(gpu.tlb.l1_latency_ps),
           "The time that the first-level TLB adds to every access."),
    whole("gpu.tlb", "l1_outstanding_pages", counts, OF_MACHINE(gpu.tlb.l1_mshrs),
          "The number of translations that the first level can request at a time."),
    whole("gpu.tlb", "l2_entries", counts, OF_MACHINE(gpu.tlb.l2_entries),
          "The number of pages that the second-level TLB holds."),
    whole("gpu.tlb", "l2_ways", counts, OF_MACHINE(gpu.tlb.l2_ways),
          "The number of pages in a set of the second level."),
    number("gpu.tlb", "l2_latency_ns", not_negative, OF_MACHINE(gpu.tlb.l2_latency_ps),
           "The time that the second level adds to an access that misses the first level."),
    whole("gpu.tlb", "l2_outstanding_pages", counts, OF_MACHINE(gpu.tlb.l2_mshrs),
          "The number of translations that the second level can request at a time."),
    whole("gpu.tlb", "walks", counts, OF_MACHINE(gpu.tlb.walks),
          "The number of walks of the page table that can run at a time, for all GPUs together."),
    number("gpu.tlb", "walk_ns", not_negative, OF_MACHINE(gpu.tlb.walk_ps),
           "The time of a "
           "walk."),

    number("gpu.dram", "capacity_GiB", positive, OF_MACHINE(gpu.dram.bytes),
           "The size of the "
           "memory."),
    number("gpu.dram", "bandwidth_GB_per_s", rates, OF_MACHINE(gpu.dram.bytes_per_s),
           "The sustained rate of all channels together."),
    preset("0", number("gpu.dram", "write_GB_per_s", not_negative,
                       OF_MACHINE(gpu.dram.write_bytes_per_s),
                       "The sustained rate of all channels together for data that the L2 writes to "
                       "them. 0 means the rate of `bandwidth_GB_per_s`.")),
    preset("0",
           number("gpu.dram", "copy_GB_per_s", not_negative, OF_MACHINE(gpu.dram.copy_bytes_per_s),
                  "The sustained rate of all channels together if half of the bytes are loaded and "
                  "half are stored. Changes between loads and stores make this rate lower than the "
                  "rates of loads and stores alone. 0 means that the changes take no time.")),
    whole("gpu.dram", "channels", counts, OF_MACHINE(gpu.dram.channels),
          "The number of "
          "channels."),
    number("gpu.dram", "latency_ns", not_negative, OF_MACHINE(gpu.dram.latency_ps),
           "The time that an idle memory adds to a miss of the L2."),

    preset("0",
           number("gpu.dram", "requests_MHz", not_negative, OF_MACHINE(gpu.dram.requests_per_s),
                  "The largest rate at which all channels together serve requests of any size. "
                  "0 means that this rate has no limit.")),

    whole("gpu.copy", "engines", counts, OF_MACHINE(gpu.copy_engines),
          "The number of copy "
          "engines of a GPU."),
    optional(whole("gpu.copy", "peer_engines", counts, OF_MACHINE(gpu.copy_peer_engines),
                   "The number of copy engines that can copy to other GPUs. If the key is left "
                   "out, all copy engines can copy to other GPUs.")),
    number("gpu.copy", "setup_us", not_negative, OF_MACHINE(gpu.copy_setup_ps),
           "The time that the device takes to start a copy."),
    number("gpu.copy", "wait_us", not_negative, OF_MACHINE(gpu.copy_wait_ps),
           "The time from a flag to the start of a copy that waits for the flag."),
    number("gpu.copy", "host_us", not_negative, OF_MACHINE(gpu.copy_host_ps),
           "The time from the end of a kernel to the start of a copy that the host starts after "
           "the kernel."),
    number("gpu.copy", "launch_us", not_negative, OF_MACHINE(gpu.copy_launch_ps),
           "The time that the host thread takes to enqueue a copy."),
    number("gpu.copy", "event_us", not_negative, OF_MACHINE(gpu.copy_event_ps),
           "The time that the host thread takes to record an event and let a stream wait for "
           "it."),
    preset("0", number("gpu.copy", "event_latency_us", not_negative,
                       OF_MACHINE(gpu.copy_event_latency_ps),
                       "The time from the end of a copy to the start of a second copy, which is in "
                       "another stream and waits for an event of the first copy.")),
    number("gpu.copy", "bandwidth_GB_per_s", rates, OF_MACHINE(gpu.copy_bytes_per_s),
           "The rate of one copy engine, if no link is slower."),

    preset("1.0", number("gpu.graph", "creation_us", not_negative,
                         OF_MACHINE(gpu.graph.creation_ps), "The time to make an empty graph.")),
    preset("1.0",
           number("gpu.graph", "construction_node_us", not_negative, OF_MACHINE(gpu.graph.node_ps),
                  "The time to add a node with its "
                  "edges.")),
    preset("0.0", number("gpu.graph", "instantiation_us", not_negative,
                         OF_MACHINE(gpu.graph.instantiation_ps),
                         "The fixed part of the time to make a graph executable.")),
    preset("13.2", number("gpu.graph", "instantiation_node_us", not_negative,
                          OF_MACHINE(gpu.graph.instantiation_node_ps),
                          "The time for each node when a graph is made executable.")),
    preset("0.34",
           number("gpu.graph", "update_node_us", not_negative, OF_MACHINE(gpu.graph.update_node_ps),
                  "The time to change the addresses in a node of an executable graph.")),
    preset("6.0", number("gpu.graph", "launch_us", not_negative, OF_MACHINE(gpu.graph.launch_ps),
                         "The fixed part of the time to launch a graph.")),
    preset("1.4",
           number("gpu.graph", "launch_node_us", not_negative, OF_MACHINE(gpu.graph.launch_node_ps),
                  "The time for each node when a graph is launched.")),

    number("gpu.launch", "kernel_us", not_negative, OF_MACHINE(gpu.kernel_launch_ps),
           "The gap on the device before the first block of a kernel."),
    number("gpu.launch", "block_ns", not_negative, OF_MACHINE(gpu.block_launch_ps),
           "The time between two blocks that start on one compute unit."),
    preset("0",
           number("gpu.launch", "library_kernel_us", not_negative, OF_MACHINE(gpu.call_kernel_ps),
                  "The time of a kernel of a library call, in addition to the time of its launch "
                  "and of its bytes.")),
    preset("0",
           number("gpu.launch", "instruction_ns", not_negative, OF_MACHINE(gpu.instruction_ps),
                  "The delay of a kernel's first blocks for loading the kernel's machine code, "
                  "per instruction of this code.")),
    number("gpu.launch", "fence_ns", not_negative, OF_MACHINE(gpu.fence_ps),
           "The time of a release at system scope if no store is outstanding."),
    number("gpu.launch", "device_us", not_negative, OF_MACHINE(gpu.device_launch_ps),
           "The time from a launch by a kernel to the first block of the launched kernel."),
    number("gpu.launch", "device_interval_us", not_negative,
           OF_MACHINE(gpu.device_launch_interval_ps),
           "The time between two launches by "
           "kernels of a GPU."),
    whole("gpu.launch", "device_pending_launches", counts, OF_MACHINE(gpu.device_launches_pending),
          "The number of launches by kernels that can wait for their start."),
    number("gpu.launch", "poll_ns", not_negative, OF_MACHINE(gpu.poll_ps),
           "The time from the last update of a counter until a polling agent sees this update."),
    preset(
        "round-robin",
        choice("gpu.launch", "dispatch", "round-robin|greedy|partition", OF_MACHINE(gpu.dispatch),
               "How a kernel's blocks are assigned to compute units. `round-robin`: compute units "
               "get blocks in turn. `greedy`: the next block goes to the first compute unit with "
               "room. `partition`: each compute unit gets an equal run of consecutive blocks.")),

    preset("64", whole("gpu.remote_write_queue", "lines_per_destination", lines,
                       OF_MACHINE(gpu.write_queue.entries),
                       "The number of lines of the queue for "
                       "each destination.")),
    preset("1", whole("gpu.remote_write_queue", "windows_per_destination", {1, 64, false},
                      OF_MACHINE(gpu.write_queue.windows),
                      "The number of address windows that are open at a time for each "
                      "destination.")),
    preset("aligned", choice("gpu.remote_write_queue", "window", "aligned|growing",
                             OF_MACHINE(gpu.write_queue.grows_window),
                             "`aligned`: a window covers an aligned range of addresses. `growing`: "
                             "a window covers the span of its stores.")),
    preset("5", whole("gpu.remote_write_queue", "subheader_bytes", {2, 6, false},
                      OF_MACHINE(gpu.write_queue.subheader_bytes),
                      "The size of the header of a store in a packet.")),
    preset("4096",
           whole("gpu.remote_write_queue", "payload_bytes", {1, 4096, false},
                 OF_MACHINE(gpu.write_queue.payload_bytes),
                 "The size of the largest packet, including the headers of its stores. If "
                 "`max_payload_bytes` of a link is smaller, it is the limit on this link.")),
    preset("0", number("gpu.remote_write_queue", "idle_flush_ns", not_negative,
                       OF_MACHINE(gpu.write_queue.idle_flush_ps),
                       "The stores of a queue are sent if the queue receives no store for this "
                       "time. 0 means that there is no such timeout.")),
    preset("64",
           whole("gpu.remote_write_queue", "unpacked_lines", lines,
                 OF_MACHINE(gpu.write_queue.unpacked_lines),
                 "The number of lines of the buffer between the receiver's port and its L2.")),

    preset("512", whole("gpu.gps", "queue_lines", lines, OF_MACHINE(gpu.gps.queue_lines),
                        "The number of lines of the queue of remote writes.")),
    preset("64", whole("gpu.gps", "page_KiB", counts, OF_MACHINE(gpu.gps.page_bytes),
                       "The size of the pages to which GPUs subscribe.")),

    preset("4",
           one_of("4|8|16",
                  whole("gpu.dualopt", "granularity_bytes", {4, 16, false},
                        OF_MACHINE(gpu.dualopt.piece_bytes),
                        "The size of the pieces of a line that a fine-grained load can request."))),
    preset("64", whole("gpu.dualopt", "buffer_pieces_per_destination", {16, 65536, false},
                       OF_MACHINE(gpu.dualopt.buffer_pieces),
                       "The number of pieces of replies that can wait for each destination.")),
    preset("30", whole("gpu.dualopt", "timeout_clocks", {0, 1 << 20, false},
                       OF_MACHINE(gpu.dualopt.timeout_clocks),
                       "The time after which waiting replies are sent if no further reply comes.")),
    preset(
        "64",
        whole("gpu.dualopt", "packet_bytes", {22, 128, false}, OF_MACHINE(gpu.dualopt.packet_bytes),
              "The size of the largest packet that several replies share, including its header.")),
    preset("1536",
           whole("gpu.dualopt", "rdma_cache_KiB", counts, OF_MACHINE(gpu.dualopt.rdma_cache_bytes),
                 "The part of the L2 that holds lines of other GPUs.")),
    preset("16", whole("gpu.dualopt", "rdma_cache_ways", {1, 1024, false},
                       OF_MACHINE(gpu.dualopt.rdma_cache_ways),
                       "The number of lines in a set of the "
                       "RDMA cache.")),
    preset("0.02", number("gpu.dualopt", "remote_threshold", share,
                          OF_MACHINE(gpu.dualopt.remote_threshold),
                          "The decision engine keeps `direct` unless at least this share of all "
                          "accesses is remote.")),
    preset("0.2",
           number("gpu.dualopt", "block_threshold", share, OF_MACHINE(gpu.dualopt.block_threshold),
                  "The engine chooses fine-grained loads if loads use less than this share of a "
                  "line's pieces.")),
    preset("0.4",
           number("gpu.dualopt", "hit_threshold", share, OF_MACHINE(gpu.dualopt.hit_threshold),
                  "The engine chooses fine-grained loads if the hit rate of remote loads in the L1 "
                  "is below this value. Otherwise it chooses the RDMA cache.")),
    preset("20000",
           whole("gpu.dualopt", "monitored_accesses", counts, OF_MACHINE(gpu.dualopt.monitored),
                 "The number of remote loads that the engine observes before it decides.")),
    whole("gpu.dualopt", "warm_up_accesses", {0, 1 << 30, false}, OF_MACHINE(gpu.dualopt.warm_up),
          "The number of accesses before the engine begins to observe remote loads."),
    preset("2", whole("gpu.dualopt", "agreeing_windows", {1, 1024, false},
                      OF_MACHINE(gpu.dualopt.agreeing_windows),
                      "An adaptive engine changes its decision after this many windows in a row "
                      "that favour another choice. The paper does not have this key.")),
    preset(
        "64",
        whole("gpu.dualopt", "looking_compute_units", {1, 1024, false},
              OF_MACHINE(gpu.dualopt.looking_units),
              "If loads bypass the L1, one of this many compute units still uses its L1, so that "
              "an adaptive engine can measure the hit rate. The paper does not have this key.")),
    preset("64", whole("gpu.dualopt", "page_loads", counts, OF_MACHINE(gpu.dualopt.page_loads),
                       "The number of remote loads of a page before `dualopt-pages` decides for "
                       "this page. The paper does not have this key.")),

    whole("gpu.griffin", "batch_pages", counts, OF_MACHINE(gpu.griffin.batch_pages),
          "The largest number of pages that move together."),
    whole("gpu.griffin", "counting_clocks", counts, OF_MACHINE(gpu.griffin.counting_clocks),
          "The period in which GPUs count accesses."),
    whole("gpu.griffin", "counted_pages", counts, OF_MACHINE(gpu.griffin.counted_pages),
          "The largest number of pages that a GPU reports for a period."),
    whole("gpu.griffin", "look_periods", counts, OF_MACHINE(gpu.griffin.look_periods),
          "The number of periods between two classifications of the pages."),
    number("gpu.griffin", "newest_weight", {0, 1, true}, OF_MACHINE(gpu.griffin.newest_weight),
           "The weight of the newest period's count in the rates of a page."),
    number("gpu.griffin", "least_accesses", not_negative, OF_MACHINE(gpu.griffin.least_rate),
           "A page does not move if all GPUs together access the page less than this number of "
           "times in a period."),
    number("gpu.griffin", "dedicated_factor", {1, 1e9, false},
           OF_MACHINE(gpu.griffin.dedicated_factor),
           "A page is dedicated to a GPU if this GPU's access rate is at least this many times the "
           "rate of every other GPU."),
    number("gpu.griffin", "shared_factor", {1, 1e9, false}, OF_MACHINE(gpu.griffin.shared_factor),
           "A page moves to a GPU only if this GPU's access rate is more than this many times the "
           "rate of every other GPU."),

    text("host", "model", OF_MACHINE(host.model), "The name of the processors."),
    number("host", "memory_GB_per_s", rates, OF_MACHINE(host.memory_bytes_per_s),
           "The rate of the host's memory for reads and writes together."),
    optional(number("host", "copy_write_GB_per_s", rates, OF_MACHINE(host.copy_write_bytes_per_s),
                    "The measured rate at which copies of all GPUs together write to the host's "
                    "memory. If the key is left out, the rate is unknown.")),

    choice("protocol", "kind", "pcie3|pcie4|pcie5|pcie6|nvlink1|nvlink2|nvlink3|nvlink4",
           OF_PROTOCOL(kind), "The generation, which determines the format of packets."),
    whole("protocol", "max_payload_bytes", {16, 4096, false}, OF_PROTOCOL(max_payload_bytes),
          "The payload of the largest write packet. For PCIe, this payload is a power of two. "
          "For NVLink, this payload is a multiple of 16 up to 256."),
    optional(whole("protocol", "packet_overhead_bytes", {0, 256, false},
                   OF_PROTOCOL(packet_overhead_bytes),
                   "The bytes of a write packet's header, "
                   "framing and CRC."),
             need::pcie),
    optional(whole("protocol", "read_request_bytes", {1, 256, false},
                   OF_PROTOCOL(read_request_bytes), "The size of the packet of a read request."),
             need::pcie),
    optional(
        whole("protocol", "completion_overhead_bytes", {0, 256, false},
              OF_PROTOCOL(completion_overhead_bytes),
              "The bytes of the header, framing and CRC of a packet that answers a read request."),
        need::pcie),
    optional(whole("protocol", "flit_bytes", {2, 256, false}, OF_PROTOCOL(link_flit_bytes),
                   "The size of a flit. Packets consist of whole flits. If the key is left out, a "
                   "packet can have any number of bytes."),
             need::pcie_only),
    optional(whole("protocol", "word_write_bytes", {16, 256, false}, OF_PROTOCOL(word_write_bytes),
                   "The size of a packet that writes 4 bytes or fewer. If the key is left out, "
                   "such a packet has the size of its flits."),
             need::nvlink_only),
    optional(whole("protocol", "partial_write_sector_bytes", {16, 128, false},
                   OF_PROTOCOL(partial_write_sector_bytes),
                   "The size of a sector. A packet with byte enables carries whole sectors, except "
                   "for a single aligned piece of at most 16 bytes, which takes flits. If the key "
                   "is left out, all packets with byte enables take flits."),
             need::nvlink_only),
    optional(number("protocol", "store_packets_MHz", positive, OF_PROTOCOL(store_packets_per_s),
                    "The largest rate of packets of stores in a direction of a link. The receiver "
                    "answers each of these packets, and the answers count as packets of the other "
                    "direction. If the key is left out, this rate has no limit."),
             need::nvlink_only),

    key{"switch",
        "name",
        key_type::name,
        {1, 40, false},
        "",
        need::required,
        "",
        "The name by which links refer to the switch.",
        OF_SWITCH(name)},
    number("switch", "latency_ns", not_negative, OF_SWITCH(latency_ps),
           "The time that a packet takes through the switch. The switch forwards at the full rate "
           "of its links."),

    key{"link",
        "ends",
        key_type::ends,
        {2, 2, false},
        "",
        need::required,
        "",
        "The two devices. A device is a GPU such as `gpu0`, the name of a switch, or `host`. "
        "`gpu*` stands for every GPU, and `gpu0-3` stands for four GPUs. If both ends name the "
        "same GPUs, there is one link for every pair of these GPUs.",
        {}},
    key{"link",
        "protocol",
        key_type::protocol,
        {},
        "",
        need::required,
        "",
        "The NAME of the table `[protocol.NAME]` that states the link's packets.",
        OF_LINK(protocol_name)},
    whole("link", "width", {1, 64, false}, OF_LINK(width),
          "The number of lanes (PCIe) or of bonded links (NVLink). This key is for information "
          "only."),
    number("link", "bandwidth_GB_per_s", rates, OF_LINK(bytes_per_s),
           "The rate in one direction over the whole width, after line coding. It includes the "
           "headers of packets."),
    number("link", "latency_ns", not_negative, OF_LINK(latency_ps),
           "The time from one end of the link to the other."),
    optional(number("link", "copy_GB_per_s", rates, OF_LINK(copy_bytes_per_s),
                    "The measured payload rate of long copies in one direction. If the key is left "
                    "out, the rate is the bandwidth without the overhead of packets.")),
    optional(number("link", "copy_both_GB_per_s", rates, OF_LINK(copy_both_bytes_per_s),
                    "The measured payload rate of long copies that run in both directions at once. "
                    "The value is the sum of both directions.")),
    number("link", "queue_KiB", {0, 1 << 20, true}, OF_LINK(queue_bytes),
           "The size of the buffer at each end for packets that wait for the link."),
};

#undef OF_MACHINE
#undef OF_PROTOCOL
#undef OF_SWITCH
#undef OF_LINK

constexpr std::array table_list{
    table{"gpu", "Gpu", need::required, "",
          "The GPUs of the machine, which are all of the same kind."},
    table{"gpu.issue", "Issue", need::required, "",
          "The work that a compute unit can do in one clock, and the latencies of this work."},
    table{"gpu.l1", "L1", need::required, "", "The first-level cache of a compute unit."},
    table{"gpu.scalar_l1", "ScalarL1", need::optional, "size_KiB",
          "A first-level cache for data that a warp loads once for all lanes. If the table is left "
          "out, these loads go to the L1."},
    table{"gpu.l2", "L2", need::required, "", "The second-level cache of a GPU."},
    table{"gpu.tlb", "Tlb", need::optional, "page_KiB",
          "Address translation: a first-level TLB of each compute unit and of each scalar cache, a "
          "second-level TLB of the GPU, and walks of the page table at the host. If the table is "
          "left out, translation takes no time."},
    table{"gpu.dram", "Dram", need::required, "", "The memory of a GPU."},
    table{"gpu.copy", "Copy", need::required, "",
          "The copy engines of a GPU, and the cost of copies for the host thread."},
    table{"gpu.graph", "Graph", need::preset, "",
          "The cost of CUDA graphs of copies for the host thread. The defaults were measured on an "
          "H200 node (driver 580.159, CUDA 13.0). For graphs of 5 to 160 copy nodes, a launch "
          "takes 13 to 231 us, and an instantiation takes 53 to 2111 us. To change the addresses "
          "of a node takes 0.34 us. It is assumed that a call to make a graph, or to add a node, "
          "takes about 1 us."},
    table{"gpu.launch", "Launch", need::required, "",
          "The cost of starting a kernel, a block or a fence on the device."},
    table{"gpu.remote_write_queue", "RemoteWriteQueue", need::preset, "",
          "FinePack's queue, packets and de-packetizer, which no GPU has. The defaults come "
          "from the paper (HPCA 2023, Table III and section IV-B)."},
    table{"gpu.gps", "Gps", need::preset, "",
          "The queue and the pages of GPS (MICRO 2021), which no GPU has. The defaults come "
          "from the paper."},
    table{"gpu.dualopt", "DualOpt", need::optional, "rdma_cache_KiB",
          "The hardware of DualOpt (PACT 2022), which treats the remote loads of a GPU. No GPU has "
          "this hardware. The defaults come from the paper (Table 1). Without this table, the "
          "machine cannot run DualOpt's treatments of remote loads."},
    table{"gpu.griffin", "Griffin", need::optional, "batch_pages",
          "The hardware of Griffin (HPCA 2020), which moves pages to the GPUs that access them "
          "most. No GPU has this hardware. Without this table, the machine cannot run `griffin`."},
    table{"host", "Host", need::required, "",
          "The processors and their memory, described as one place."},
    table{"protocol", "Protocol", need::named, "",
          "A protocol states how payload becomes packets. Links refer to a table `[protocol.NAME]` "
          "by its name."},
    table{"link", "Link", need::list, "",
          "A full-duplex link. If an end stands for several devices, the table describes several "
          "equal links."},
    table{"switch", "Switch", need::list, "", "A switch between links. A file may have none."},
};

constexpr std::array rule_list{
    rule{rule_kind::power_of_two, "gpu.warp_width_lanes", "", 1,
         "The simulator supports only powers of two."},
    rule{rule_kind::power_of_two, "gpu.remote_store_bytes", "", 1, "Stores are aligned."},
    rule{rule_kind::divides, "gpu.issue.sub_cores", "gpu.issue.instructions_per_clock", 1,
         "Sub-cores are equal."},
    rule{rule_kind::divides, "gpu.issue.sub_cores", "gpu.issue.fp32_lanes_per_clock", 1,
         "Sub-cores are equal."},
    rule{rule_kind::divides, "gpu.issue.sub_cores", "gpu.issue.fp64_lanes_per_clock", 1,
         "Sub-cores are equal."},
    rule{rule_kind::divides, "gpu.issue.sub_cores", "gpu.issue.integer_lanes_per_clock", 1,
         "Sub-cores are equal."},
    rule{rule_kind::divides, "gpu.issue.sub_cores", "gpu.issue.special_lanes_per_clock", 1,
         "Sub-cores are equal."},
    rule{rule_kind::power_of_two, "gpu.l1.sector_bytes", "", 1, "Sectors are aligned."},
    rule{rule_kind::divides, "gpu.l1.sector_bytes", "gpu.l1.line_bytes", 1,
         "A line consists of whole sectors."},
    rule{rule_kind::at_most, "gpu.l1.line_bytes", "gpu.l1.sector_bytes", 6,
         "The simulator supports at most 6 sectors in a line."},
    rule{rule_kind::multiple, "gpu.l1.size_KiB", "gpu.l1.ways gpu.l1.line_bytes", 1,
         "A cache consists of whole sets."},
    rule{rule_kind::power_of_two, "gpu.l2.sector_bytes", "", 1, "Sectors are aligned."},
    rule{rule_kind::divides, "gpu.l2.sector_bytes", "gpu.l2.line_bytes", 1,
         "A line consists of whole sectors."},
    rule{rule_kind::at_most, "gpu.l2.line_bytes", "gpu.l2.sector_bytes", 6,
         "The simulator supports at most 6 sectors in a line."},
    rule{rule_kind::multiple, "gpu.l2.size_KiB", "gpu.l2.banks gpu.l2.ways gpu.l2.line_bytes", 1,
         "Every bank consists of whole sets."},
    rule{rule_kind::same, "gpu.l2.line_bytes", "gpu.l1.line_bytes", 1,
         "Lines move between the caches."},
    rule{rule_kind::same, "gpu.l2.sector_bytes", "gpu.l1.sector_bytes", 1,
         "Sectors move between the caches."},
    rule{rule_kind::multiple, "gpu.scalar_l1.size_KiB", "gpu.scalar_l1.ways gpu.l1.line_bytes", 1,
         "A cache consists of whole sets."},
    rule{rule_kind::divides, "gpu.scalar_l1.compute_units", "gpu.compute_units", 1,
         "All scalar caches serve the same number of compute units."},
    rule{rule_kind::power_of_two, "gpu.tlb.page_KiB", "", 1, "Pages are aligned."},
    rule{rule_kind::power_of_two_of, "gpu.tlb.l1_entries", "gpu.tlb.l1_ways", 1,
         "The number of sets in a TLB is a power of two."},
    rule{rule_kind::power_of_two_of, "gpu.tlb.l2_entries", "gpu.tlb.l2_ways", 1,
         "The number of sets in a TLB is a power of two."},
    rule{rule_kind::needs, "gpu.griffin", "gpu.tlb", 1,
         "Griffin invalidates translations of pages in TLBs."},
    rule{rule_kind::at_most, "gpu.griffin.shared_factor", "gpu.griffin.dedicated_factor", 1,
         "A page cannot be both shared and dedicated."},
    rule{rule_kind::at_most, "gpu.clock_MHz", "gpu.griffin.counting_clocks", 1e12,
         "A period lasts at least 1 ps."},
    rule{rule_kind::less, "gpu.dualopt.rdma_cache_KiB", "gpu.l2.size_KiB", 1,
         "The RDMA cache is a part of the L2."},
    rule{rule_kind::multiple, "gpu.dualopt.rdma_cache_KiB",
         "gpu.dualopt.rdma_cache_ways gpu.l2.line_bytes", 1, "A cache consists of whole sets."},
    rule{rule_kind::multiple, "gpu.dualopt.rdma_cache_KiB",
         "gpu.l2.banks gpu.l2.ways gpu.l2.line_bytes", 1,
         "The L2 without the RDMA cache must consist of whole sets."},
    rule{rule_kind::at_most, "gpu.copy.peer_engines", "gpu.copy.engines", 1,
         "Peer engines are a part of the GPU's copy engines."},
    rule{rule_kind::at_least_together, "gpu.remote_write_queue.payload_bytes",
         "gpu.l2.line_bytes gpu.remote_write_queue.subheader_bytes", 1,
         "A packet holds a line with its header."},
    rule{rule_kind::at_most, "link.copy_GB_per_s", "link.bandwidth_GB_per_s", 1,
         "Copies are no faster than their link."},
    rule{rule_kind::at_most, "link.copy_both_GB_per_s", "link.bandwidth_GB_per_s", 2,
         "Copies are no faster than both directions of their link together."},
    rule{rule_kind::at_most, "host.copy_write_GB_per_s", "host.memory_GB_per_s", 1,
         "Copies are no faster than the memory that they write."},
};

}  // namespace

std::span<const key> machine_keys() { return key_list; }
std::span<const table> machine_tables() { return table_list; }
std::span<const rule> machine_rules() { return rule_list; }

}  // namespace interlace::machine
