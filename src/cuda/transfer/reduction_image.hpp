// The kernels of reduction_kernels.cu as the driver loads them.
#pragma once

#include <cstddef>
#include <span>

namespace interlace::cuda {

// Empty where the library was built without nvcc.
std::span<const std::byte> reduction_image();

}  // namespace interlace::cuda
