// The least that a launch has to move and compute. It limits the launch's time, whatever the order
// of its accesses.
#pragma once

#include <cstdint>
#include <string>

#include "interlace/kernel/library_call.hpp"

namespace interlace::kernel {

// The unit in which a GPU's memory moves data.
inline constexpr std::uint64_t sector_bytes = 32;

// Bytes count whole sectors of the device's own memory, each sector once. Even an unlimited cache
// cannot avoid this traffic if it starts empty.
struct launch_work {
  std::uint32_t device = 0;
  std::string name;                 // name of the kernel's type, or of the library call
  std::uint64_t loaded_bytes = 0;   // sectors loaded before the launch stores to them
  std::uint64_t stored_bytes = 0;   // sectors stored to; an atomic access is a load and a store
  std::uint64_t touched_bytes = 0;  // sectors loaded or stored to
  // of all lanes: those named by compute, and those of warps' sums and minima
  operation_counts operations;
};

}  // namespace interlace::kernel
