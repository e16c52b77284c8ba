// The copies of a batch. One call enqueues them, and they run in any order.
#pragma once

#include <cstdint>
#include <span>

#include "cuda/transfer/driver_table.hpp"

namespace interlace::cuda {

struct batch_part {
  device_address to = 0;
  device_address from = 0;
  std::uint64_t bytes = 0;
};

// Throws usage_error if two ranges overlap and at least one of the two is written. Also throws
// usage_error if a range ends beyond the last address.
void refuse_overlaps(std::span<const batch_part> copies);

}  // namespace interlace::cuda
