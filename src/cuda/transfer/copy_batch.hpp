// The copies of a batch, which are enqueued by one call and run in any order.
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

// Throws usage_error if two ranges overlap and at least one of them is written, or if a range ends
// beyond the last address.
void refuse_overlaps(std::span<const batch_part> copies);

}  // namespace interlace::cuda
