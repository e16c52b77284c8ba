// Finds out whether blocks of memory overlap.
#pragma once

#include <cstddef>
#include <span>

#include "cuda/transfer/driver_table.hpp"

namespace interlace::cuda {

// Whether any two of the blocks share a byte. The function takes a few ns for each block.
bool blocks_overlap(std::span<const device_address> addresses, std::span<const std::size_t> bytes);

}  // namespace interlace::cuda
