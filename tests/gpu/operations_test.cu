// The traced workloads as they are, without a policy that counts: what bench/operation_counts.py
// runs under a profiler, and holds the simulator's counts of operations to.
#include "../probes/traces.hpp"
#include "cuda/fft.hpp"
#include "gpu.hpp"

namespace interlace::operations_tests {
namespace {

TEST(operations, workloads) {
  INTERLACE_NEED_GPUS(1);
  cuda::node node(gpu_test::options_for(1));
  probe::each_workload([&](const char*, const auto& work) { work(node); });
}

}  // namespace
}  // namespace interlace::operations_tests
