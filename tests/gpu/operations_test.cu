// The traced workloads as they are, without a policy that counts: what bench/operation_counts.py
// runs under a profiler, and holds the simulator's counts of operations to.
#include "../probes/traces.hpp"
#include "gpu.hpp"
#include "interlace/cuda/fft.hpp"

namespace interlace::operations_tests {
namespace {

// Runs the blocks that simulated machines run, which do not depend on how many are held at once.
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
