// The rates that limit any kernel: the bytes that a GPU's memory moves and the operations that its
// multiprocessors compute in a second, measured by kernels that do nothing else.
#pragma once

#include <cstdint>

namespace interlace::cuda {

struct rate_options {
  int ordinal = 0;
  std::uint64_t bytes = std::uint64_t{4} << 30U;  // bytes read and written; at most what is free
  std::uint32_t repetitions = 5;                  // the figures are medians
};

// Operations are instructions of a lane. A multiply-add is one instruction.
struct device_rates {
  double read_bytes_per_s = 0;  // from the device's own memory
  double write_bytes_per_s = 0;
  double fp32_per_s = 0;
  double fp64_per_s = 0;
  // the largest of additions, logic, multiply-adds, and all of them mixed
  double integer_per_s = 0;
  // operations of any kinds: the largest of the rates above and of fp32 mixed with integers
  double together_per_s = 0;
  std::uint64_t cache_bytes = 0;  // of the L2
};

// Takes about a second. Throws usage_error for 0 repetitions. Throws device_error if too little
// memory is free, because the L2 would then hold data that should come from memory.
device_rates measure_rates(const rate_options& o);

}  // namespace interlace::cuda
