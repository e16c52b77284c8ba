// The rates that limit any kernel: the bytes that a GPU's memory moves in a second, and the
// operations that its multiprocessors compute in a second. They are measured by kernels that do
// nothing else.
#pragma once

#include <cstdint>

namespace interlace::cuda {

struct rate_options {
  int ordinal = 0;
  std::uint64_t bytes = std::uint64_t{4}
                        << 30U;   // bytes that a launch reads and writes, at most the free memory
  std::uint32_t repetitions = 5;  // the figures are medians
};

// Operations are instructions of a lane. A multiply-add is one instruction.
struct device_rates {
  double read_bytes_per_s = 0;  // rate of reads from the device's own memory
  double write_bytes_per_s = 0;
  double fp32_per_s = 0;
  double fp64_per_s = 0;
  // The largest of four rates: additions, logic, multiply-adds, and a mix of all of them.
  double integer_per_s = 0;
  // Operations of any kind: the largest of the rates above and the rate of fp32 mixed with
  // integers.
  double together_per_s = 0;
  std::uint64_t cache_bytes = 0;  // size of the L2
};

// Takes about a second. Throws usage_error for 0 repetitions. Throws device_error if too little
// memory is free, because the L2 would then hold data that should come from memory.
device_rates measure_rates(const rate_options& o);

}  // namespace interlace::cuda
