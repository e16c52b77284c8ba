// The microbenchmarks of microbenchmark_sim.hpp on the GPUs of this computer.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace interlace::bench {

// All of these throw usage_error for a request that makes no sense or needs more GPUs than there
// are, and device_error if a GPU fails; kernels' model_error if data did not arrive.

// An epoch is what a simulated run is: the launch of a kernel, and an exchange if it stores. Those
// of a repeat are behind one another in a graph, whose start and end weigh little.
struct kernel_repeats {
  std::uint32_t epochs = 1;   // in a repeat
  std::uint32_t repeats = 1;  // behind one that warms up
};

struct kernel_times {
  std::vector<double> time_s;  // of an epoch, by repeat
  std::uint64_t payload = 0;   // bytes of an epoch, of all senders together
};

// As stores_on_sim: elements of 4 or 16 bytes.
kernel_times stores_on_cuda(std::uint32_t gpus, std::uint32_t senders, std::uint32_t element_bytes,
                            std::uint64_t elements, std::uint32_t together,
                            const kernel_repeats& how);
// As copy_kernel_on_sim.
kernel_times copy_kernel_on_cuda(std::uint64_t bytes, std::uint32_t blocks,
                                 const kernel_repeats& how);
// As loads_on_sim; the second GPU's memory in pages of the real node.
kernel_times loads_on_cuda(std::uint32_t element_bytes, std::uint64_t elements,
                           const kernel_repeats& how);

// What the driver counts on the first GPU's links for each byte of its stores to the second one, by
// repeat; nothing where there is no such counter. Nobody else may use the GPU.
std::optional<std::vector<double>> store_wire_on_cuda(std::uint32_t element_bytes,
                                                      std::uint64_t elements,
                                                      std::uint32_t together,
                                                      const kernel_repeats& how);

struct stream_copy {
  int from = 0;  // CUDA's number of a GPU; -1 the host's page-locked memory
  int to = 0;
  std::uint64_t bytes = 0;
  std::uint32_t stream = 0;  // copies of one run one after another
};
// Seconds of these copies, each by the driver's own engines, by repeat, behind one that warms up.
// `by_host`: by its clock, from its first call until it knows of the last one's end. Else by the
// GPUs' clocks: all streams wait until everything is enqueued, small copies many times in a row.
std::vector<double> copies_on_cuda(const std::vector<stream_copy>& copies, bool by_host,
                                   std::uint32_t repeats);

}  // namespace interlace::bench
