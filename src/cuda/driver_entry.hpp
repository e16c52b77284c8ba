// Looks up functions of the driver when they are first needed. The program does not link the
// driver.
#pragma once

#include <cuda_runtime.h>

#include <string>

#include "interlace/base/errors.hpp"
#include "interlace/cuda/check.hpp"

namespace interlace::cuda {

// Returns the driver's function with the signature of CUDA 12.0. Throws device_error if the driver
// is too old to have the function.
template <class Function>
Function driver_entry(const char* name) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  INTERLACE_CUDA_CHECK(
      cudaGetDriverEntryPointByVersion(name, &function, 12000, cudaEnableDefault, &found));
  if (found != cudaDriverEntryPointSuccess || function == nullptr) {
    throw device_error(std::string("this driver has no ") + name + "; use a newer one");
  }
  return reinterpret_cast<Function>(function);
}

}  // namespace interlace::cuda
