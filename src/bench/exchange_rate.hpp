// The throughput of the links between this computer's GPUs if all GPUs send to all others.
#pragma once

#include <cstdint>

namespace interlace::bench {

// The bytes a second that each GPU sends.
struct exchange_rate {
  double copies = 0;  // rate of copy engines
  double stores = 0;  // rate of a kernel's stores
};

// Measures the median rate over `repeats` exchanges, in which each of `gpus` GPUs sends `bytes` to
// each other GPU. `bytes` should be so large that start and end weigh little.
exchange_rate measure_exchange_rate(std::uint32_t gpus, std::uint64_t bytes, std::uint32_t repeats);

}  // namespace interlace::bench
