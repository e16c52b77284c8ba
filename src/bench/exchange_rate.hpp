// The throughput of the links between this computer's GPUs while each GPU sends to all other GPUs.
#pragma once

#include <cstdint>

namespace interlace::bench {

// The rates at which each GPU sends, in bytes per second.
struct exchange_rate {
  double copies = 0;  // rate with copy engines
  double stores = 0;  // rate with a kernel's stores
};

// Measures the median rate over `repeats` exchanges. In an exchange, each of `gpus` GPUs sends
// `bytes` bytes to each other GPU. `bytes` should be large enough that the start and the end of an
// exchange take a small share of the time.
exchange_rate measure_exchange_rate(std::uint32_t gpus, std::uint64_t bytes, std::uint32_t repeats);

}  // namespace interlace::bench
