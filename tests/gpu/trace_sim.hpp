// The simulated side of trace_test.cu. Its kernels run on the CPU, so a host compiler must compile
// this code.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "interlace/kernel/trace.hpp"

namespace interlace::gpu_test {

struct simulated_trace {
  std::string name;
  kernel::trace_totals totals;
};
std::vector<simulated_trace> simulated_forms();
std::vector<simulated_trace> simulated_workloads();

// The contents of a trace file, and counts from a replay of the file on a simulated machine.
struct trace_file {
  kernel::trace_totals totals;  // counts all accesses as local memory, in lines of 128 bytes
  std::uint64_t kernels = 0;
  std::uint64_t blocks = 0;
  std::vector<std::uint64_t> bytes_to_home;  // [gpu * GPUs + home]
  std::uint64_t replayed = 0;                // number of accesses of warps in the replay
  std::uint64_t remote_payload = 0;          // number of bytes stored to other GPUs
};
trace_file read_trace(const std::string& path);

}  // namespace interlace::gpu_test
