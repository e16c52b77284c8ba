// What a GPU's memory moves and its multiprocessors compute in a second, by kernels that do nothing
// else: the rates that limit any kernel.
#pragma once

#include <cstdint>

namespace interlace::cuda {

struct rate_options {
  int ordinal = 0;
  std::uint64_t bytes = std::uint64_t{4} << 30U;  // read and written; the most, of what is free
  std::uint32_t repetitions = 5;                  // the figures are medians
};

// Operations are instructions of a lane: a multiplication with an addition is one.
struct device_rates {
  double read_bytes_per_s = 0;  // from the device's own memory
  double write_bytes_per_s = 0;
  double fp32_per_s = 0;
  double fp64_per_s = 0;
  double integer_per_s = 0;   // additions, logic, multiplications with additions, or all of them
  double together_per_s = 0;  // of any kinds: the largest of those above and of fp32 and integers
  std::uint64_t cache_bytes = 0;  // of the L2
};

// Takes a second or so. Throws usage_error for no repetition, and device_error where too little
// memory is free: the L2 would hold what is to come from memory.
device_rates measure_rates(const rate_options& o);

}  // namespace interlace::cuda
