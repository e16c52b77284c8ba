// Memory that the driver moves page by page to whoever touches it (CUDA's unified memory).
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
  // Of all that one owner takes: pages that are shared move by faults, one after another.
  static constexpr std::uint64_t most_bytes = std::uint64_t{256} << 20U;

  // `user` is what to leave out where the memory is refused.
  explicit managed_memory(std::string user) : user_(std::move(user)) {}
  ~managed_memory();
  managed_memory(const managed_memory&) = delete;
  managed_memory& operator=(const managed_memory&) = delete;
  managed_memory(managed_memory&&) = delete;
  managed_memory& operator=(managed_memory&&) = delete;

  // Every byte is 0xff on return; nullptr for 0 bytes. All GPUs may use it at once. Throws
  // usage_error above most_bytes, and where a GPU cannot share pages while others run.
  void* take(const std::vector<int>& gpus, std::uint64_t bytes);

  // Tells the driver what the region's hint says about one of its buffers, whose part d GPU
  // gpus[d] writes. Throws device_error if the driver refuses.
  static void advise(const std::vector<int>& gpus, const kernel::region_state& state, void* buffer);

  // Enqueues that the pages of [data, data + bytes) come to the stream's GPU; cannot be captured.
  static void prefetch(int gpu, const void* data, std::uint64_t bytes, cudaStream_t stream);

 private:
  std::string user_;
  std::vector<void*> allocations_;
  std::uint64_t taken_ = 0;
};

}  // namespace interlace::cuda
