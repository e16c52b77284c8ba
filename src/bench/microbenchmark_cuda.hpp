// The microbenchmarks of microbenchmark_sim.hpp, run on the GPUs of this computer.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "workload/benchmark/store_request.hpp"

namespace interlace::bench {

// All functions below throw usage_error if a request is invalid or needs more GPUs than there are.
// They throw device_error if a GPU fails. Functions that run kernels throw model_error if data did
// not arrive.

// The numbers of epochs and repeats for which a kernel runs. An epoch corresponds to a simulated
// run: it is a launch of the kernel, followed by an exchange if the kernel stores. The epochs of a
// repeat run one after another in a graph, so the start and the end of the graph take a small share
// of the time.
struct kernel_repeats {
  std::uint32_t epochs = 1;   // number of epochs in a repeat
  std::uint32_t repeats = 1;  // number of repeats that are measured, after one repeat that warms up
};

struct kernel_times {
  std::vector<double> time_s;  // for each repeat, the time of an epoch
  std::uint64_t payload = 0;   // bytes that all senders together send in an epoch
};

// Does the same as stores_on_sim, but with elements of 4 or 16 bytes.
kernel_times stores_on_cuda(std::uint32_t gpus, std::uint32_t element_bytes,
                            const workload::store_request& asked, const kernel_repeats& how);
// Measures epochs of one GPU. An epoch has a kernel of one block, and an exchange that also
// combines `sums` sums.
kernel_times exchanges_on_cuda(std::uint32_t sums, const kernel_repeats& how);
// Does the same as copy_kernel_on_sim.
kernel_times copy_kernel_on_cuda(std::uint64_t bytes, std::uint32_t blocks,
                                 const kernel_repeats& how);
// Does the same as loads_on_sim. The second GPU's memory has the page size of the real node.
kernel_times loads_on_cuda(std::uint32_t element_bytes, std::uint64_t elements,
                           const kernel_repeats& how);

// The overhead of stores on the wire. For each repeat, this is the number of bytes that the driver
// counts on the first GPU's links, divided by the number of bytes that this GPU stores to the
// second GPU. There is no value if the driver has no such counter. No other process may use the
// GPU. `asked` must have one sender.
std::optional<std::vector<double>> store_wire_on_cuda(std::uint32_t element_bytes,
                                                      const workload::store_request& asked,
                                                      const kernel_repeats& how);

struct stream_copy {
  int from = 0;  // CUDA's number of a GPU, or -1 for the host's page-locked memory
  int to = 0;
  std::uint64_t bytes = 0;
  // The number of the copy's stream; copies of one stream run one after another.
  std::uint32_t stream = 0;
};
// Returns the time of these copies in seconds, one value for each repeat. The function makes one
// repeat before it measures. The driver's copy engines make the copies. With `by_host`, the host's
// clock measures from the first call until the host knows that the last copy has ended. Without
// `by_host`, the GPUs' clocks measure. In this case, all streams wait until all copies are
// enqueued, and small copies are repeated many times in a row.
std::vector<double> copies_on_cuda(const std::vector<stream_copy>& copies, bool by_host,
                                   std::uint32_t repeats);

}  // namespace interlace::bench
