// Functions of the real node that the command line needs besides workloads. They need none of the
// node's headers.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace interlace::run {

struct gpu_info {
  std::uint32_t gpus = 0;
  std::string name;    // of the first GPU
  std::string driver;  // in NVIDIA's numbering; empty if unknown
  std::string cuda;    // newest version that the driver supports
};
gpu_info describe_gpus();

// Loads NCCL into this process unless it is loaded: from `candidates` or from the usual places.
// Throws usage_error that says what to do if no usable NCCL is found.
std::string nccl_version(const std::vector<std::string>& candidates);

// NVSHMEM needs a process for each GPU. Returns the bytes of the id that all processes share. Loads
// NVSHMEM from one of the files `candidates`.
std::string make_nvshmem_id(const std::vector<std::string>& candidates);
// Makes this process one of `ranks`, with the GPU of its rank. Returns NVSHMEM's version when all
// processes have joined and have synchronised once on their GPUs. Throws usage_error if NVSHMEM
// cannot be used, and device_error if it fails.
std::string join_nvshmem(const std::vector<std::string>& candidates, std::uint32_t rank,
                         std::uint32_t ranks, const std::string& id);

// Ends NVSHMEM; every process that has joined must call it. Throws usage_error before join_nvshmem.
void leave_nvshmem();

struct host_graph {
  std::vector<std::uint64_t> offsets;
  std::vector<std::uint32_t> columns;
  std::vector<std::uint32_t> out_degree;
};
// Generates the R-MAT graph of interlace.data.graphs.rmat on GPU 0.
host_graph make_rmat(std::uint32_t scale, std::uint32_t edge_factor, std::uint64_t seed);

struct measured_link {
  std::string from, to;  // gpu0.., host
  std::uint64_t bytes = 0;
  double bytes_per_s = 0;
  double both_bytes_per_s = 0;  // sum of both directions used at the same time
};
std::vector<measured_link> measure_links(const std::vector<std::uint64_t>& sizes,
                                         std::uint32_t repetitions,
                                         const std::function<void()>& check_interrupt);

// The rates that limit any kernel on GPU 0, as medians of `repeats` measurements. Operations are
// instructions of a lane; bytes are in the GPU's own memory.
struct device_rates {
  double read_bytes_per_s = 0;
  double write_bytes_per_s = 0;
  double fp32_per_s = 0;
  double fp64_per_s = 0;
  double integer_per_s = 0;
  double together_per_s = 0;  // operations of mixed kinds
  std::uint64_t cache_bytes = 0;
};
device_rates measure_device_rates(std::uint32_t repeats);

}  // namespace interlace::run
