// Where the blocks of a batch lie.
#pragma once

#include <cstdint>

#include "cuda/transfer/driver_table.hpp"
#include "plan/block_list.hpp"

namespace interlace::cuda {

// The ways that the memory of a batch allows.
enum class block_ends : std::uint8_t {
  one_gpu,    // between page-locked memory of the host and a GPU, or inside a GPU
  pageable,   // a block lies in memory that is not page-locked, or that is not known to the driver
  managed,    // in memory that the driver moves
  other_gpu,  // not all blocks outside of the host's memory are on the GPU of the context
  other_context,  // in memory that was allocated in another context
  no_access,      // kernels do not reach the memory by its address
  mixed,          // the blocks of a side lie in different kinds of memory
  outside,        // a block reaches past the end of its allocation
  too_many,       // too many allocations to look at
};

struct block_places {
  block_ends ends = block_ends::one_gpu;
  bool to_host = false;
  bool from_host = false;
  // A side has blocks in pageable memory. `ends` says so too, if nothing else is wrong.
  bool to_pageable = false;
  bool from_pageable = false;
};

// Looks at the memory of every block; of a list without blocks, at the two extents. `context` is
// that of the GPU that copies; it must be current. Asks the driver once for each allocation. Throws
// device_error if the driver fails.
block_places find_places(const driver_table& driver, CUctx_st* context,
                         const plan::block_list& list, const plan::block_shape& shape);

}  // namespace interlace::cuda
