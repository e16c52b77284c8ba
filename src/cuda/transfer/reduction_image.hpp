// The kernels of reduction_kernels.cu, as an image that the driver loads.
#pragma once

#include <cstddef>
#include <span>

namespace interlace::cuda {

struct kernel_image {
  std::span<const std::byte> bytes;
  int cuda = 0;  // version of CUDA that compiled the image, such as 13000 for 13.0

  bool empty() const { return bytes.empty(); }
};

// The image of the kernels. It is empty if the library was built without nvcc.
kernel_image reduction_image();

}  // namespace interlace::cuda
