// The rates that limit any kernel. They are the number of bytes that a GPU's memory moves in a
// second, and the number of operations that the GPU's multiprocessors compute in a second. Kernels
// that do nothing else measure these rates.
#pragma once

#include <cstdint>

namespace interlace::cuda {

struct rate_options {
  int ordinal = 0;
  // The number of bytes that a launch reads and writes. Half of the free memory is the limit.
  std::uint64_t bytes = std::uint64_t{4} << 30U;
  std::uint32_t repetitions = 5;  // number of repetitions; the figures are medians
};

// The rates of a GPU. An operation is an instruction of one lane. A multiply-add is one
// instruction.
struct device_rates {
  double read_bytes_per_s = 0;  // rate of reads from the device's own memory
  double write_bytes_per_s = 0;
  double fp32_per_s = 0;
  double fp64_per_s = 0;
  // The largest of four rates: additions, logic, multiply-adds, and a mix of all of them.
  double integer_per_s = 0;
  // The rate of operations of any kind. It is the largest of the rates above and of the rate of
  // fp32 mixed with integer operations.
  double together_per_s = 0;
  std::uint64_t cache_bytes = 0;  // size of the L2
};

// Measures the rates, which takes about a second. Throws usage_error for 0 repetitions. Throws
// device_error if too little memory is free. The L2 would then hold data that should come from
// memory.
device_rates measure_rates(const rate_options& o);

}  // namespace interlace::cuda
