#include "cuda/occupancy.hpp"

#include "cuda/check.hpp"

namespace interlace::cuda {

std::uint32_t gpu_attribute(cudaDeviceAttr which, int ordinal) {
  int value = 0;
  INTERLACE_CUDA_CHECK(cudaDeviceGetAttribute(&value, which, ordinal));
  return static_cast<std::uint32_t>(value);
}

std::uint64_t threads_at_once(int ordinal) {
  return std::uint64_t{gpu_attribute(cudaDevAttrMultiProcessorCount, ordinal)} *
         gpu_attribute(cudaDevAttrMaxThreadsPerMultiProcessor, ordinal);
}

}  // namespace interlace::cuda
