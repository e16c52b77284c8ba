#include "interlace/cuda/occupancy.hpp"

#include "interlace/cuda/check.hpp"

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

gpu_places places_of(int ordinal) {
  return {.processors = gpu_attribute(cudaDevAttrMultiProcessorCount, ordinal),
          .threads = gpu_attribute(cudaDevAttrMaxThreadsPerMultiProcessor, ordinal),
          .blocks = gpu_attribute(cudaDevAttrMaxBlocksPerMultiprocessor, ordinal),
          .registers = gpu_attribute(cudaDevAttrMaxRegistersPerMultiprocessor, ordinal),
          .shared_bytes = gpu_attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor, ordinal),
          .reserved_shared_bytes = gpu_attribute(cudaDevAttrReservedSharedMemoryPerBlock, ordinal)};
}

}  // namespace interlace::cuda
