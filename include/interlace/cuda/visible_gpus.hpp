// The GPUs that CUDA shows to this process.
#pragma once

#include <cstdint>

namespace interlace::cuda {

// The number of GPUs that CUDA shows to this process. Throws usage_error if there is no driver or
// the driver is too old.
std::uint32_t device_count();

// Throws usage_error unless the GPU exists and kernels can run on it.
void require_gpu(int ordinal);

}  // namespace interlace::cuda
