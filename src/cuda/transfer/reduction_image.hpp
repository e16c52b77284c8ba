// The kernels of reduction_kernels.cu as the driver loads them.
#pragma once

#include <cstddef>
#include <span>

namespace interlace::cuda {

struct kernel_image {
  std::span<const std::byte> bytes;
  int cuda = 0;  // the version of CUDA that compiled it, 13000 for 13.0

  bool empty() const { return bytes.empty(); }
};

// Empty if the library was built without nvcc.
kernel_image reduction_image();

}  // namespace interlace::cuda
