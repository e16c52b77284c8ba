#include "interlace/cuda/memory/memory.hpp"

#include <cstring>
#include <string>

#include "interlace/base/errors.hpp"
#include "interlace/cuda/check.hpp"

namespace interlace::cuda {

current_device::current_device(int ordinal) {
  INTERLACE_CUDA_CHECK(cudaGetDevice(&before_));
  INTERLACE_CUDA_CHECK(cudaSetDevice(ordinal));
}

current_device::~current_device() { INTERLACE_CUDA_LOG(cudaSetDevice(before_)); }

device_memory::~device_memory() {
  for (const allocation& a : allocations_) {
    INTERLACE_CUDA_LOG(cudaSetDevice(a.ordinal));
    INTERLACE_CUDA_LOG(cudaFree(a.data));
  }
}

void* device_memory::take(int ordinal, std::uint64_t bytes) {
  if (bytes == 0) return nullptr;
  const current_device on(ordinal);
  void* data = nullptr;
  if (const cudaError_t error = cudaMalloc(&data, bytes); error != cudaSuccess) {
    (void)cudaGetLastError();
    if (error != cudaErrorMemoryAllocation) {
      throw_failure(error, "cudaMalloc", __FILE__, __LINE__);
    }
    std::size_t free = 0;
    std::size_t total = 0;
    INTERLACE_CUDA_CHECK(cudaMemGetInfo(&free, &total));
    throw device_error("GPU " + std::to_string(ordinal) + " has " + std::to_string(free) + " of " +
                       std::to_string(total) + " bytes free, but an allocation needs " +
                       std::to_string(bytes) + "; use smaller data, or free memory of the GPU");
  }
  allocations_.push_back({ordinal, data});
  // A memset returns before it has ended, and non-blocking streams do not wait for it. The next
  // call therefore waits.
  INTERLACE_CUDA_CHECK(cudaMemset(data, 0xff, bytes));
  INTERLACE_CUDA_CHECK(cudaStreamSynchronize(nullptr));
  return data;
}

mapped_memory::mapped_memory(std::size_t bytes) {
  INTERLACE_CUDA_CHECK(cudaHostAlloc(&data_, bytes, cudaHostAllocMapped | cudaHostAllocPortable));
  std::memset(data_, 0, bytes);
}

mapped_memory::~mapped_memory() { INTERLACE_CUDA_LOG(cudaFreeHost(data_)); }

bool try_peer_access(int from, int to) {
  int possible = 0;
  INTERLACE_CUDA_CHECK(cudaDeviceCanAccessPeer(&possible, from, to));
  if (possible == 0) return false;
  const current_device on(from);
  const cudaError_t error = cudaDeviceEnablePeerAccess(to, 0);
  if (error == cudaErrorPeerAccessAlreadyEnabled) {
    // access was already enabled; this clears the error that the runtime keeps
    (void)cudaGetLastError();
  } else if (error != cudaSuccess) {
    throw_failure(error, "cudaDeviceEnablePeerAccess", __FILE__, __LINE__);
  }
  return true;
}

void enable_peer_access(const std::vector<int>& ordinals) {
  for (const int from : ordinals) {
    for (const int to : ordinals) {
      if (to == from || try_peer_access(from, to)) continue;
      throw device_error("GPU " + std::to_string(from) + " cannot reach the memory of GPU " +
                         std::to_string(to) + " (no peer access between them); use fewer GPUs");
    }
  }
}

}  // namespace interlace::cuda
