// Collective operations that only copy, as batches of copies.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cuda/transfer/copy_batch.hpp"

namespace interlace::cuda {

// As `copier::all_gather_async` and `all_to_all_async` describe them: what each participant sends
// and where it receives. Bytes that are in their place already are not copied. Throw usage_error
// unless there are as many of both, and none is null where there is something to copy.
std::vector<batch_part> all_gather_copies(std::span<const device_address> send,
                                          std::span<const device_address> receive,
                                          std::uint64_t bytes);
std::vector<batch_part> all_to_all_copies(std::span<const device_address> send,
                                          std::span<const device_address> receive,
                                          std::uint64_t bytes);

}  // namespace interlace::cuda
