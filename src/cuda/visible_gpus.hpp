// The GPUs that CUDA shows to this process.
#pragma once

#include <cstdint>

namespace interlace::cuda {

// Of the architecture that kernels are compiled for; later ones run them too.
inline constexpr int least_capability = 9;

// How many there are; throws usage_error where there is no driver.
std::uint32_t device_count();

// Throws usage_error unless there is a GPU of this number, and kernels run on it.
void require_gpu(int ordinal);

}  // namespace interlace::cuda
