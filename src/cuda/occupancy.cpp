#include "cuda/occupancy.hpp"

#include <cuda_runtime.h>

#include "cuda/check.hpp"

namespace interlace::cuda {

std::uint64_t threads_at_once(int ordinal) {
  int multiprocessors = 0;
  int threads = 0;
  INTERLACE_CUDA_CHECK(
      cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, ordinal));
  INTERLACE_CUDA_CHECK(
      cudaDeviceGetAttribute(&threads, cudaDevAttrMaxThreadsPerMultiProcessor, ordinal));
  return static_cast<std::uint64_t>(multiprocessors) * static_cast<std::uint64_t>(threads);
}

std::uint64_t blocks_at_once(const void* entry, const grid& shape, int ordinal) {
  int multiprocessors = 0;
  int blocks = 0;
  INTERLACE_CUDA_CHECK(
      cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, ordinal));
  INTERLACE_CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
      &blocks, entry, static_cast<int>(shape.threads), shape.shared_bytes));
  return static_cast<std::uint64_t>(multiprocessors) * static_cast<std::uint64_t>(blocks);
}

}  // namespace interlace::cuda
