// The memory from which the chunks of a launch are copied, and the memory to which they are copied.
#pragma once

#include <cstddef>

#include "interlace/base/limits.hpp"

namespace interlace::kernel {

// The replica that a launch writes, and the replicas of all devices. All replicas have the same
// layout and begin at multiples of 16 bytes.
struct replicas {
  const std::byte* from = nullptr;
  std::byte* to[max_devices] = {};
};

}  // namespace interlace::kernel
