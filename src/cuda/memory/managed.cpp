#include "cuda/memory/managed.hpp"

#include <string>

#include "interlace/base/errors.hpp"
#include "interlace/cuda/check.hpp"
#include "interlace/cuda/memory/memory.hpp"

namespace interlace::cuda {

namespace {

cudaMemLocation location_of(int gpu) {
  cudaMemLocation location{};
  location.type = cudaMemLocationTypeDevice;
  location.id = gpu;
  return location;
}

}  // namespace

managed_memory::~managed_memory() {
  for (void* data : allocations_) INTERLACE_CUDA_LOG(cudaFree(data));
}

void* managed_memory::take(const std::vector<int>& gpus, std::uint64_t bytes) {
  if (bytes == 0) return nullptr;
  if (bytes > most_bytes - taken_) {
    throw usage_error(user_ + " would take " + std::to_string(taken_ + bytes) +
                      " bytes of managed memory for the two buffers of every region, but at most " +
                      std::to_string(most_bytes) +
                      " (256 MiB) are allowed; use smaller data, or leave " + user_ + " out");
  }
  for (const int gpu : gpus) {
    int concurrent = 0;
    INTERLACE_CUDA_CHECK(
        cudaDeviceGetAttribute(&concurrent, cudaDevAttrConcurrentManagedAccess, gpu));
    if (concurrent != 0) continue;
    throw usage_error(user_ + " needs pages that several GPUs use at once, which GPU " +
                      std::to_string(gpu) + " cannot do; leave " + user_ + " out");
  }
  const current_device on(gpus.front());
  void* data = nullptr;
  INTERLACE_CUDA_CHECK(cudaMallocManaged(&data, bytes, cudaMemAttachGlobal));
  allocations_.push_back(data);
  taken_ += bytes;
  INTERLACE_CUDA_CHECK(cudaMemset(data, 0xff, bytes));
  INTERLACE_CUDA_CHECK(cudaStreamSynchronize(nullptr));
  return data;
}

void managed_memory::advise(const std::vector<int>& gpus, const kernel::region_state& state,
                            void* buffer) {
  if (buffer == nullptr) return;
  const std::uint64_t bytes = state.elements * state.element_bytes;
  switch (state.options.hint) {
    case kernel::memory_hint::none:
      break;
    case kernel::memory_hint::read_mostly:
      INTERLACE_CUDA_CHECK(
          cudaMemAdvise(buffer, bytes, cudaMemAdviseSetReadMostly, location_of(gpus.front())));
      break;
    case kernel::memory_hint::preferred_location:
      for (std::size_t d = 0; d < gpus.size(); ++d) {
        const std::uint64_t begin = state.options.boundaries[d] * state.element_bytes;
        const std::uint64_t end = state.options.boundaries[d + 1] * state.element_bytes;
        if (begin == end) continue;
        INTERLACE_CUDA_CHECK(cudaMemAdvise(static_cast<std::byte*>(buffer) + begin, end - begin,
                                           cudaMemAdviseSetPreferredLocation,
                                           location_of(gpus[d])));
      }
      break;
    case kernel::memory_hint::accessed_by:
      for (const int gpu : gpus) {
        INTERLACE_CUDA_CHECK(
            cudaMemAdvise(buffer, bytes, cudaMemAdviseSetAccessedBy, location_of(gpu)));
      }
      break;
  }
}

void managed_memory::prefetch(int gpu, const void* data, std::uint64_t bytes, cudaStream_t stream) {
  INTERLACE_CUDA_CHECK(cudaMemPrefetchAsync(data, bytes, location_of(gpu), 0, stream));
}

}  // namespace interlace::cuda
