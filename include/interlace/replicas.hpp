// The source and the destinations of a launch's chunks.
#pragma once

#include <cstddef>

#include "interlace/base/limits.hpp"

namespace interlace::kernel {

// The replica that a launch writes, and the replicas of all devices. They have the same layout and
// begin at multiples of 16 bytes.
struct replicas {
  const std::byte* from = nullptr;
  std::byte* to[max_devices] = {};
};

}  // namespace interlace::kernel
