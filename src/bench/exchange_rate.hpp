// The throughput of the links between this computer's GPUs when all GPUs send to all others.
#pragma once

#include <cstdint>

namespace interlace::bench {

// Bytes a second that each GPU sends.
struct exchange_rate {
  double copies = 0;  // by copy engines
  double stores = 0;  // by a kernel's stores
};

// Each of `gpus` GPUs sends `bytes` to each other GPU, `repeats` times; returns the medians.
// `bytes` should be so large that starts and ends weigh little.
exchange_rate measure_exchange_rate(std::uint32_t gpus, std::uint64_t bytes, std::uint32_t repeats);

}  // namespace interlace::bench
