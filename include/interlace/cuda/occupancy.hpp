// The resources of a GPU, and the number of threads that it can hold at a time.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "interlace/cuda/shared_gpu.hpp"

namespace interlace::cuda {

// The value of a GPU's attribute. The attribute must be one that is never negative.
std::uint32_t gpu_attribute(cudaDeviceAttr which, int ordinal);

// The number of threads that the multiprocessors of a GPU hold at a time, for kernels that are not
// limited by their registers and shared memory.
std::uint64_t threads_at_once(int ordinal);

// The resources of a GPU's multiprocessors.
gpu_places places_of(int ordinal);

}  // namespace interlace::cuda
