// What a GPU holds at a time.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "interlace/cuda/shared_gpu.hpp"

namespace interlace::cuda {

// An attribute of a GPU that is never below 0.
std::uint32_t gpu_attribute(cudaDeviceAttr which, int ordinal);

// Threads that the multiprocessors of a GPU hold, of kernels that are short of nothing else.
std::uint64_t threads_at_once(int ordinal);

// What its multiprocessors have.
gpu_places places_of(int ordinal);

}  // namespace interlace::cuda
