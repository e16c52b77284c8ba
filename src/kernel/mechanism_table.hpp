// Made by tools/mechanism_tables.py of src/kernel/mechanisms.toml; do not edit.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <span>

// clang-format off

namespace interlace::kernel {

// How stores reach the other devices.
enum class mechanism : std::uint8_t {
  // The kernel runs to its end, then its output is copied to the others.
  bulk_copy,
  // The copies of bulk-copy, of all GPUs as one batch of the copy engine, which plans them together
  // over the paths of the machine.
  multi_path,
  // The kernel is launched over ranges of its blocks; each is copied while the next runs.
  split,
  // The kernel stores each result into the memory of all GPUs itself.
  inline_stores,
  // A kernel that runs beside it, the agent, stores each chunk to the others as soon as it is
  // complete: with chunks of so many bytes and so many threads of the agent.
  polling,
  // The block that completes a chunk launches a kernel of so many threads, which stores it to the
  // others.
  device_launch,
  // Streams wait for each chunk, and a copy engine copies it as soon as it is complete.
  copy_engine,
  // Hardware that no GPU has: stores count for their chunk by themselves, and a unit that fetches a
  // descriptor copies each complete one.
  proact_hardware,
  // Bulk copies as plain cudaMemcpy calls make them: each waits for all before it that touch one of
  // its GPUs.
  serial_copy,
  // As inline, but stores to a line wait in a queue of the GPU for others to the same line.
  write_combining,
  // As inline, but stores wait in a queue of the GPU until many of them fill one packet, in which
  // each has only a short header.
  finepack,
  // The queue of finepack, but each store leaves as a packet of its own, after one that says what
  // they have in common.
  config_packet,
  // Stores wait in a queue of the GPU and leave as whole lines, to those GPUs that read their page
  // in the first iteration.
  gps,
  // NVIDIA's collectives deliver at the exchange; the name is that of the fastest.
  nccl,
  // A process for each GPU, and NVSHMEM's puts on streams at the exchange.
  nvshmem,
  // One copy of the data, whose pages the driver moves; the name is that of the best hint.
  unified_memory,
  // Transfers take no time and no resources: the bound.
  infinite_bandwidth,
};

// What mechanisms are configured by.
enum class mechanism_parameter : std::uint8_t {
  // launches of an epoch's kernel, each over a range of its blocks
  ranges,
  // the most bytes of a chunk
  chunk_bytes,
  // threads of the agent, or of each kernel that is launched for a chunk
  agent_threads,
  // threads of an agent that copies in bulk, in place of agent_threads; it takes 64 KiB of shared
  // memory for each 32 of them
  bulk_threads,
};

// The kinds of names that mechanisms are configured by.
enum class mechanism_variants : std::uint8_t {
  none,
  // by which operations NCCL delivers
  collective,
  // what the driver is told about the pages
  memory_hint,
  // how the agent copies: by loads and stores of its threads, or by bulk copies through shared
  // memory
  agent_copy,
};

struct mechanism_parameter_row {
  const char* name = "";
  std::uint64_t least = 0;
  std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t multiple = 1;
  std::uint64_t initial = 0;  // unless told otherwise; 0: only if it is named
  std::uint64_t first_tried = 0;  // a search tries powers of 2 from here to there
  std::uint64_t last_tried = 0;
};

using parameter_list = std::span<const mechanism_parameter>;

struct mechanism_row {
  mechanism value{};
  const char* name = "";
  // what all others are compared with
  bool baseline = false;
  // no way to move data, but what would be reached if that took no time
  bool bound = false;
  // a library or driver of others, measured beside ours
  bool peer = false;
  // takes a process for each GPU, so that no node of one process has it
  bool needs_processes = false;
  // a study runs it unless told otherwise, where the node has it
  bool by_default = false;
  // a search for the fastest mechanism tries it, where the node has it
  bool tuned = false;
  // a search measures it to the end, and picks it unless something is faster
  bool control = false;
  // blocks announce what they write of a region's chunks
  bool tracks_chunks = false;
  // a stream waits for each chunk, so that many small chunks cost too much
  bool waits_for_each_chunk = false;
  // copies start when the kernels before the exchange are done: both times are known
  bool copies_after_kernels = false;
  // kernels themselves store to the other devices
  bool stores_inline = false;
  // these stores go to the devices that read them, so that those of a trace can go this way
  bool stores_to_readers = false;
  // these stores wait in a queue of the GPU, which no GPU that exists has
  bool queues_stores = false;
  std::span<const parameter_list> families;  // alternatives; none: no parameters
  mechanism_variants variants = mechanism_variants::none;
  // Why a node does not have it, after its name; null: the node has it.
  const char* not_on_sim = nullptr;
  const char* not_on_cuda = nullptr;
  bool of_regions = false;  // regions of a group have it
};

inline constexpr std::array<mechanism_parameter_row, 4> mechanism_parameters{{
    {.name = "ranges", .least = 1U, .initial = 8U, .first_tried = 2U, .last_tried = 32U},
    {.name = "chunk_bytes", .least = 1U, .most = 1073741824U, .initial = 1048576U, .first_tried = 4096U, .last_tried = 16777216U},
    {.name = "agent_threads", .least = 32U, .most = 65536U, .multiple = 32U, .initial = 16384U, .first_tried = 32U, .last_tried = 16384U},
    {.name = "bulk_threads", .least = 32U, .most = 8192U, .multiple = 32U, .first_tried = 256U, .last_tried = 8192U},
}};

inline constexpr std::array collective_names{"best-fitting", "all-gather", "broadcast", "send-receive"};
inline constexpr std::array memory_hint_names{"none", "read-mostly", "preferred-location", "accessed-by"};
inline constexpr std::array agent_copy_names{"vectors", "bulk"};

inline constexpr std::array parameters_of_split_0{mechanism_parameter::ranges};
inline constexpr std::array families_of_split{parameter_list(parameters_of_split_0)};
inline constexpr std::array parameters_of_polling_0{mechanism_parameter::chunk_bytes, mechanism_parameter::agent_threads};
inline constexpr std::array parameters_of_polling_1{mechanism_parameter::chunk_bytes, mechanism_parameter::bulk_threads};
inline constexpr std::array families_of_polling{parameter_list(parameters_of_polling_0), parameter_list(parameters_of_polling_1)};
inline constexpr std::array parameters_of_device_launch_0{mechanism_parameter::chunk_bytes, mechanism_parameter::agent_threads};
inline constexpr std::array families_of_device_launch{parameter_list(parameters_of_device_launch_0)};
inline constexpr std::array parameters_of_copy_engine_0{mechanism_parameter::chunk_bytes};
inline constexpr std::array families_of_copy_engine{parameter_list(parameters_of_copy_engine_0)};
inline constexpr std::array parameters_of_proact_hardware_0{mechanism_parameter::chunk_bytes};
inline constexpr std::array families_of_proact_hardware{parameter_list(parameters_of_proact_hardware_0)};

// By the enum's value.
inline constexpr std::array<mechanism_row, 17> mechanism_rows{{
    {.value = mechanism::bulk_copy,
     .name = "bulk-copy",
     .baseline = true,
     .by_default = true,
     .tuned = true,
     .control = true,
     .copies_after_kernels = true,
     .families = {},
     .of_regions = true},
    {.value = mechanism::multi_path,
     .name = "multi-path",
     .copies_after_kernels = true,
     .families = {},
     .not_on_sim = "is measured on real GPUs; leave it out, and simulate such copies with interlace plan --simulate"},
    {.value = mechanism::split,
     .name = "split",
     .by_default = true,
     .tuned = true,
     .control = true,
     .families = families_of_split},
    {.value = mechanism::inline_stores,
     .name = "inline",
     .by_default = true,
     .tuned = true,
     .stores_inline = true,
     .stores_to_readers = true,
     .families = {},
     .of_regions = true},
    {.value = mechanism::polling,
     .name = "polling",
     .by_default = true,
     .tuned = true,
     .tracks_chunks = true,
     .families = families_of_polling,
     .variants = mechanism_variants::agent_copy,
     .of_regions = true},
    {.value = mechanism::device_launch,
     .name = "device-launch",
     .by_default = true,
     .tuned = true,
     .tracks_chunks = true,
     .families = families_of_device_launch},
    {.value = mechanism::copy_engine,
     .name = "copy-engine",
     .by_default = true,
     .tuned = true,
     .tracks_chunks = true,
     .waits_for_each_chunk = true,
     .families = families_of_copy_engine,
     .of_regions = true},
    {.value = mechanism::proact_hardware,
     .name = "proact-hardware",
     .by_default = true,
     .tuned = true,
     .tracks_chunks = true,
     .families = families_of_proact_hardware,
     .not_on_cuda = "is hardware that no GPU has; name a machine to simulate it on"},
    {.value = mechanism::serial_copy,
     .name = "serial-copy",
     .families = {},
     .not_on_cuda = "is a baseline of simulated machines; take bulk-copy here"},
    {.value = mechanism::write_combining,
     .name = "write-combining",
     .stores_inline = true,
     .stores_to_readers = true,
     .queues_stores = true,
     .families = {},
     .not_on_cuda = "is hardware that no GPU has; name a machine to simulate it on"},
    {.value = mechanism::finepack,
     .name = "finepack",
     .stores_inline = true,
     .stores_to_readers = true,
     .queues_stores = true,
     .families = {},
     .not_on_cuda = "is hardware that no GPU has; name a machine to simulate it on"},
    {.value = mechanism::config_packet,
     .name = "config-packet",
     .stores_inline = true,
     .stores_to_readers = true,
     .queues_stores = true,
     .families = {},
     .not_on_cuda = "is hardware that no GPU has; name a machine to simulate it on"},
    {.value = mechanism::gps,
     .name = "gps",
     .stores_inline = true,
     .queues_stores = true,
     .families = {},
     .not_on_cuda = "is hardware that no GPU has; name a machine to simulate it on"},
    {.value = mechanism::nccl,
     .name = "nccl",
     .peer = true,
     .by_default = true,
     .copies_after_kernels = true,
     .families = {},
     .variants = mechanism_variants::collective,
     .not_on_sim = "is measured on real GPUs and not simulated; leave it out, or take bulk-copy, which also moves everything at the exchange"},
    {.value = mechanism::nvshmem,
     .name = "nvshmem",
     .peer = true,
     .needs_processes = true,
     .by_default = true,
     .families = {},
     .not_on_sim = "is measured on real GPUs and not simulated; leave it out, or take bulk-copy, which also moves everything at the exchange"},
    {.value = mechanism::unified_memory,
     .name = "unified-memory",
     .peer = true,
     .families = {},
     .variants = mechanism_variants::memory_hint,
     .not_on_sim = "is measured on real GPUs and not simulated; leave it out, or take bulk-copy, which also moves everything at the exchange"},
    {.value = mechanism::infinite_bandwidth,
     .name = "infinite-bandwidth",
     .bound = true,
     .by_default = true,
     .families = {},
     .not_on_cuda = "is a bound that only simulated machines run; on real GPUs it is derived"},
}};

}  // namespace interlace::kernel
