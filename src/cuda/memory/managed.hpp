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
  // Limit for each owner: shared pages move by faults, one after another.
  static constexpr std::uint64_t most_bytes = std::uint64_t{256} << 20U;

  // `user` names what the caller should leave out if the memory is refused.
  explicit managed_memory(std::string user) : user_(std::move(user)) {}
  ~managed_memory();
  managed_memory(const managed_memory&) = delete;
  managed_memory& operator=(const managed_memory&) = delete;
  managed_memory(managed_memory&&) = delete;
  managed_memory& operator=(managed_memory&&) = delete;

  // Allocates memory with every byte 0xff; nullptr for 0 bytes. All GPUs may use it at the same
  // time. Throws usage_error above most_bytes, and if a GPU cannot share pages while other GPUs
  // run.
  void* take(const std::vector<int>& gpus, std::uint64_t bytes);

  // Passes the region's hint for one of its buffers to the driver. GPU gpus[d] writes part d.
  // Throws device_error if the driver refuses.
  static void advise(const std::vector<int>& gpus, const kernel::region_state& state, void* buffer);

  // Enqueues a prefetch of the pages of [data, data + bytes) to the stream's GPU. It cannot be
  // captured.
  static void prefetch(int gpu, const void* data, std::uint64_t bytes, cudaStream_t stream);

 private:
  std::string user_;
  std::vector<void*> allocations_;
  std::uint64_t taken_ = 0;
};

}  // namespace interlace::cuda
