// Where the chunks of a launch are and go.
#pragma once

#include <cstddef>

#include "interlace/base/limits.hpp"

namespace interlace::kernel {

// The replica that a launch writes, and those of all devices. All have the
// same layout and begin at a multiple of 16 bytes.
struct replicas {
  const std::byte* from = nullptr;
  std::byte* to[max_devices] = {};
};

}  // namespace interlace::kernel
