// The traced workloads, without the policy that counts accesses. bench/operation_counts.py runs
// them under a profiler and compares the profiler's counts with those of the simulator.
#include "../probes/traces.hpp"
#include "gpu.hpp"
#include "interlace/cuda/fft.hpp"

namespace interlace::operations_tests {
namespace {

// A node with as many blocks as a simulated machine has. The number of blocks does not depend on
// how many blocks fit on the GPU.
struct plain_node : cuda::node {
  using cuda::node::node;
  std::uint64_t threads_at_once(std::uint32_t device) const = delete;
};

TEST(operations, workloads) {
  INTERLACE_NEED_GPUS(1);
  plain_node node(gpu_test::options_for(1));
  probe::each_workload([&](const char*, const auto& work) { work(node); });
}

}  // namespace
}  // namespace interlace::operations_tests
