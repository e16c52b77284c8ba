// What the command line asks of the real node besides workloads, without its headers.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace interlace::run {

struct gpu_info {
  std::uint32_t gpus = 0;
  std::string name;    // of the first
  std::string driver;  // as NVIDIA numbers it; empty if it cannot be told
  std::string cuda;    // that the driver supports
};
gpu_info describe_gpus();

// Loads NCCL for this process, from these files if it is not loaded yet, or from the usual places.
// Throws usage_error, which says what to do, where there is none that can be used.
std::string nccl_version(const std::vector<std::string>& candidates);

// NVSHMEM takes a process for each GPU. The id that all have in common, as bytes; from these files.
std::string make_nvshmem_id(const std::vector<std::string>& candidates);
// Makes this process one of `ranks`, with the GPU of its rank, and returns NVSHMEM's version when
// all have come and met once on their GPUs. Throws usage_error where NVSHMEM cannot be used, and
// device_error where it fails.
std::string join_nvshmem(const std::vector<std::string>& candidates, std::uint32_t rank,
                         std::uint32_t ranks, const std::string& id);

// Ends NVSHMEM when all that have joined call it. Throws usage_error before join_nvshmem.
void leave_nvshmem();

struct host_graph {
  std::vector<std::uint64_t> offsets;
  std::vector<std::uint32_t> columns;
  std::vector<std::uint32_t> out_degree;
};
// R-MAT as interlace.data.graphs.rmat makes it, on GPU 0.
host_graph make_rmat(std::uint32_t scale, std::uint32_t edge_factor, std::uint64_t seed);

struct measured_link {
  std::string from, to;  // gpu0.., host
  std::uint64_t bytes = 0;
  double bytes_per_s = 0;
  double both_bytes_per_s = 0;  // sum of both directions at once
};
std::vector<measured_link> measure_links(const std::vector<std::uint64_t>& sizes,
                                         std::uint32_t repetitions,
                                         const std::function<void()>& check_interrupt);

// What limits any kernel on GPU 0; medians of so many repeats. Operations are instructions of a
// lane, bytes those of the GPU's own memory.
struct device_rates {
  double read_bytes_per_s = 0;
  double write_bytes_per_s = 0;
  double fp32_per_s = 0;
  double fp64_per_s = 0;
  double integer_per_s = 0;
  double together_per_s = 0;  // of any kinds
  std::uint64_t cache_bytes = 0;
};
device_rates measure_device_rates(std::uint32_t repeats);

}  // namespace interlace::run
