// The resources of a GPU, and how much it can hold at a time.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "interlace/cuda/shared_gpu.hpp"

namespace interlace::cuda {

// An attribute of a GPU that is never negative.
std::uint32_t gpu_attribute(cudaDeviceAttr which, int ordinal);

// The threads that the multiprocessors of a GPU hold at a time, for kernels whose registers and
// shared memory do not limit this.
std::uint64_t threads_at_once(int ordinal);

// The resources of its multiprocessors.
gpu_places places_of(int ordinal);

}  // namespace interlace::cuda
