// What the links between this computer's GPUs carry when all send to all.
#pragma once

#include <cstdint>

namespace interlace::bench {

// Bytes that each GPU sends in a second.
struct exchange_rate {
  double copies = 0;  // of copy engines
  double stores = 0;  // of a kernel's stores
};

// Every one of so many GPUs sends `bytes` to each other one, again and again; the medians. Take
// enough bytes that starts and ends weigh little.
exchange_rate measure_exchange_rate(std::uint32_t gpus, std::uint64_t bytes, std::uint32_t repeats);

}  // namespace interlace::bench
