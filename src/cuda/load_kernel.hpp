// Kernels are loaded lazily: the first launch of one waits for what runs on the device, and where
// that waits for the kernel, for ever.
#pragma once

#include <cuda_runtime.h>

#include "interlace/cuda/check.hpp"

namespace interlace::cuda {

// Loads a kernel on the current device, if it is not there yet; returns its attributes.
template <class Entry>
cudaFuncAttributes load_kernel(Entry* entry) {
  cudaFuncAttributes attributes{};
  INTERLACE_CUDA_CHECK(cudaFuncGetAttributes(&attributes, entry));
  return attributes;
}

}  // namespace interlace::cuda
