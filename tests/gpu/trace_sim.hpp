// The simulated side of trace_test.cu. Kernels run on the CPU there, so a host compiler makes it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernel/trace.hpp"

namespace interlace::gpu_test {

struct simulated_trace {
  std::string name;
  kernel::trace_totals totals;
};
std::vector<simulated_trace> simulated_forms();
std::vector<simulated_trace> simulated_workloads();

}  // namespace interlace::gpu_test
