// Collectives that compute nothing, as batches of copies.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cuda/transfer/copy_batch.hpp"

namespace interlace::cuda {

// The copies of `copier::all_gather_async` and of `all_to_all_async`. `send` and `receive` have one
// buffer for each participant. Bytes that are already where they belong are not copied. Throws
// usage_error if the two lists have different lengths. Also throws usage_error if a buffer is null
// although there are bytes to copy.
std::vector<batch_part> all_gather_copies(std::span<const device_address> send,
                                          std::span<const device_address> receive,
                                          std::uint64_t bytes);
std::vector<batch_part> all_to_all_copies(std::span<const device_address> send,
                                          std::span<const device_address> receive,
                                          std::uint64_t bytes);

}  // namespace interlace::cuda
