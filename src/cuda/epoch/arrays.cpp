#include "interlace/cuda/epoch/arrays.hpp"

#include "cuda/epoch/gpus.hpp"
#include "interlace/cuda/check.hpp"

namespace interlace::cuda {

void* node_arrays::take(std::uint32_t device, std::uint64_t bytes) {
  gpus_.require_idle("an allocation");
  void* data = memory_.take(gpus_.ordinal(device), bytes);
  if (bytes != 0) {
    const auto begin = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(data));
    taken_[device].push_back({.begin = begin, .end = begin + bytes});
  }
  return data;
}

void* node_arrays::take_unified(std::uint64_t bytes, const kernel::page_placement& pages) {
  gpus_.require_idle("an allocation");
  return unified_.take(gpus_.ordinals(), bytes, pages);
}

void node_arrays::write(void* to, const void* from, std::uint64_t bytes) {
  gpus_.require_idle("an upload");
  if (bytes == 0) return;
  const current_device on(gpus_.ordinal(0));  // any of the GPUs for which unified memory is mapped
  INTERLACE_CUDA_CHECK(cudaMemcpy(to, from, bytes, cudaMemcpyDefault));
  // A copy from pageable memory returns as soon as the data is staged. This call waits until the
  // copy has really ended.
  INTERLACE_CUDA_CHECK(cudaStreamSynchronize(nullptr));
}

void node_arrays::read(void* to, const void* from, std::uint64_t bytes) const {
  gpus_.require_idle("a download");
  if (bytes == 0) return;
  const current_device on(gpus_.ordinal(0));
  INTERLACE_CUDA_CHECK(cudaMemcpy(to, from, bytes, cudaMemcpyDefault));
  INTERLACE_CUDA_CHECK(cudaStreamSynchronize(nullptr));
}

}  // namespace interlace::cuda
