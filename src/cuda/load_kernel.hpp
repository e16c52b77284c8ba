// Loads kernels before their first launch. CUDA loads kernels lazily: the first launch of a kernel
// waits for the work that runs on the device. If that work waits for the kernel, neither the work
// nor the launch ever ends.
#pragma once

#include <cuda_runtime.h>

#include "interlace/cuda/check.hpp"

namespace interlace::cuda {

// Loads a kernel on the current device, unless it is already loaded. Returns the kernel's
// attributes.
template <class Entry>
cudaFuncAttributes load_kernel(Entry* entry) {
  cudaFuncAttributes attributes{};
  INTERLACE_CUDA_CHECK(cudaFuncGetAttributes(&attributes, entry));
  return attributes;
}

}  // namespace interlace::cuda
