// Functions of the real node that the command line needs in addition to workloads. This header
// includes no header of the node.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace interlace::run {

struct gpu_info {
  std::uint32_t gpus = 0;
  std::string name;    // the name of the first GPU
  std::string driver;  // the driver's version in NVIDIA's numbering; empty if unknown
  std::string cuda;    // the newest version of CUDA that the driver supports
};
gpu_info describe_gpus();

// Loads NCCL into this process, from `candidates` or from the usual places, unless NCCL is already
// loaded. Returns the version of NCCL. Throws usage_error if there is no usable NCCL; the message
// says what to do.
std::string nccl_version(const std::vector<std::string>& candidates);

// Loads NVSHMEM from one of the files in `candidates`. NVSHMEM needs one process for each GPU.
// Returns the bytes of the id that all these processes share.
std::string make_nvshmem_id(const std::vector<std::string>& candidates);
// Makes this process one of `ranks` processes. It uses the GPU whose number is its rank. Returns
// the version of NVSHMEM after all processes have joined and have synchronised once on their GPUs.
// Throws usage_error if NVSHMEM cannot be used, and device_error if NVSHMEM fails.
std::string join_nvshmem(const std::vector<std::string>& candidates, std::uint32_t rank,
                         std::uint32_t ranks, const std::string& id);

// Ends NVSHMEM. Every process that has joined must call this function. Throws usage_error if this
// process has not joined.
void leave_nvshmem();

struct host_graph {
  std::vector<std::uint64_t> offsets;
  std::vector<std::uint32_t> columns;
  std::vector<std::uint32_t> out_degree;
};
// Generates the R-MAT graph of interlace.data.graphs.rmat on GPU 0.
host_graph make_rmat(std::uint32_t scale, std::uint32_t edge_factor, std::uint64_t seed);

struct measured_link {
  std::string from, to;  // names such as gpu0 or host
  std::uint64_t bytes = 0;
  double bytes_per_s = 0;
  double both_bytes_per_s = 0;  // the sum of both directions if both are used at the same time
};
std::vector<measured_link> measure_links(const std::vector<std::uint64_t>& sizes,
                                         std::uint32_t repetitions,
                                         const std::function<void()>& check_interrupt);

// The rates that limit every kernel on GPU 0, as medians of `repeats` measurements. An operation is
// an instruction of one lane. Bytes are in the memory of the GPU itself.
struct device_rates {
  double read_bytes_per_s = 0;
  double write_bytes_per_s = 0;
  double fp32_per_s = 0;
  double fp64_per_s = 0;
  double integer_per_s = 0;
  double together_per_s = 0;  // operations of all kinds per second, if kernels mix the kinds
  std::uint64_t cache_bytes = 0;
};
device_rates measure_device_rates(std::uint32_t repeats);

}  // namespace interlace::run
