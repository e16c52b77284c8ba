// What one launch has to move and to compute at the least: what limits its time, whatever its order
// of accesses.
#pragma once

#include <cstdint>
#include <string>

#include "kernel/library_call.hpp"

namespace interlace::kernel {

// What a GPU's memory moves at once.
inline constexpr std::uint64_t sector_bytes = 32;

// Bytes are those of whole sectors of the device's own memory, each counted once: what a cache that
// is large enough and empty at first cannot spare.
struct launch_work {
  std::uint32_t device = 0;
  std::string name;                 // of the kernel's type, or of the library call
  std::uint64_t loaded_bytes = 0;   // sectors loaded before the launch stores to them
  std::uint64_t stored_bytes = 0;   // sectors stored to; an atomic access is a load and a store
  std::uint64_t touched_bytes = 0;  // sectors loaded or stored to
  operation_counts operations;      // that compute names, and of warps' sums and minima; all lanes
};

}  // namespace interlace::kernel
