// The least data that a launch must move, and the least operations that it must compute. In any
// order of its accesses, a launch takes at least the time for this data and at least the time for
// these operations.
#pragma once

#include <cstdint>
#include <string>

#include "interlace/kernel/library_call.hpp"

namespace interlace::kernel {

// The size in bytes of a sector, the unit in which a GPU's memory moves data.
inline constexpr std::uint64_t sector_bytes = 32;

// The work of a launch. Bytes count whole sectors of the device's own memory, and each sector
// counts once. Even a cache of unlimited size causes this traffic if the cache starts empty.
struct launch_work {
  std::uint32_t device = 0;
  std::string name;                // name of the kernel's type, or of the library call
  std::uint64_t loaded_bytes = 0;  // bytes of sectors that the launch loads before storing to them
  // bytes of sectors to which the launch stores; an atomic access is a load and a store
  std::uint64_t stored_bytes = 0;
  std::uint64_t touched_bytes = 0;  // bytes of sectors that the launch loads or to which it stores
  // The operations of all lanes: the operations in calls of `compute`, and the operations of warps'
  // sums and minima.
  operation_counts operations;
};

}  // namespace interlace::kernel
