// What a GPU holds at a time.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "interlace/kernel.hpp"

namespace interlace::cuda {

// An attribute of a GPU that is never below 0.
std::uint32_t gpu_attribute(cudaDeviceAttr which, int ordinal);

// Threads that the multiprocessors of a GPU hold, of kernels that are short of nothing else.
std::uint64_t threads_at_once(int ordinal);

// Blocks of a kernel's launch that the GPU, the current one, holds if it has nothing else.
std::uint64_t blocks_at_once(const void* entry, const grid& shape, int ordinal);

}  // namespace interlace::cuda
