// Memory whose pages the driver moves to the device that touches them (CUDA's unified memory).
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "interlace/kernel/region.hpp"

namespace interlace::cuda {

class managed_memory {
 public:
  // The most bytes for each owner. There is a limit because shared pages move by faults, one fault
  // after another.
  static constexpr std::uint64_t most_bytes = std::uint64_t{256} << 20U;

  // If memory is refused, the message tells the caller to leave out the mechanism `user`.
  explicit managed_memory(std::string user) : user_(std::move(user)) {}
  ~managed_memory();
  managed_memory(const managed_memory&) = delete;
  managed_memory& operator=(const managed_memory&) = delete;
  managed_memory(managed_memory&&) = delete;
  managed_memory& operator=(managed_memory&&) = delete;

  // Allocates memory and sets every byte to 0xff. Returns nullptr for 0 bytes. All GPUs may use the
  // memory at the same time. Throws usage_error if `bytes` is larger than most_bytes, or if a GPU
  // cannot share pages while other GPUs run.
  void* take(const std::vector<int>& gpus, std::uint64_t bytes);

  // Passes the region's hint for one of its buffers to the driver. GPU gpus[d] writes part d.
  // Throws device_error if the driver reports an error.
  static void advise(const std::vector<int>& gpus, const kernel::region_state& state, void* buffer);

  // Enqueues a prefetch of the pages of [data, data + bytes) to the GPU of the stream. A prefetch
  // cannot be captured.
  static void prefetch(int gpu, const void* data, std::uint64_t bytes, cudaStream_t stream);

 private:
  std::string user_;
  std::vector<void*> allocations_;
  std::uint64_t taken_ = 0;
};

}  // namespace interlace::cuda
