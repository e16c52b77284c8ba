// The rates that limit any kernel. These are the bytes that a GPU's memory moves per second, and
// the operations that the GPU's multiprocessors compute per second. Kernels that do nothing else
// measure these rates.
#pragma once

#include <cstdint>

namespace interlace::cuda {

struct rate_options {
  int ordinal = 0;
  // The number of bytes that a launch reads and writes. A launch uses at most half of the free
  // memory.
  std::uint64_t bytes = std::uint64_t{4} << 30U;
  std::uint32_t repetitions = 5;  // number of repetitions; each rate is their median
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
// device_error if too little memory is free. With so little memory, the L2 would hold data that
// should come from memory.
device_rates measure_rates(const rate_options& o);

}  // namespace interlace::cuda
