// The least data that a launch must move and the least operations that it must compute. Both bound
// the launch's time from below, whatever the order of its accesses.
#pragma once

#include <cstdint>
#include <string>

#include "interlace/kernel/library_call.hpp"

namespace interlace::kernel {

// The size in bytes of a sector, the unit in which a GPU's memory moves data.
inline constexpr std::uint64_t sector_bytes = 32;

// Bytes count whole sectors of the device's own memory, each sector once. A cache of unlimited size
// still causes this traffic if it starts empty.
struct launch_work {
  std::uint32_t device = 0;
  std::string name;                 // name of the kernel's type, or of the library call
  std::uint64_t loaded_bytes = 0;   // bytes of sectors that the launch loads before it stores to
                                    // them
  std::uint64_t stored_bytes = 0;   // in sectors to which it stores; an atomic access is a load and
                                    // a store
  std::uint64_t touched_bytes = 0;  // bytes of sectors that it loads or to which it stores
  // The operations of all lanes: those that `compute` names, and those of warps' sums and minima.
  operation_counts operations;
};

}  // namespace interlace::kernel
