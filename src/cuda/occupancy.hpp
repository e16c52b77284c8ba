// What a GPU holds at a time.
#pragma once

#include <cstdint>

namespace interlace::cuda {

// Threads that the multiprocessors of a GPU hold, of kernels that are short of nothing else.
std::uint64_t threads_at_once(int ordinal);

}  // namespace interlace::cuda
