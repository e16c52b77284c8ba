#include "interlace/cuda/visible_gpus.hpp"

#include <cuda_runtime.h>

#include <string>

#include "interlace/base/errors.hpp"
#include "interlace/cuda/check.hpp"

namespace interlace::cuda {

std::uint32_t device_count() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaErrorNoDevice || error == cudaErrorInsufficientDriver) {
    (void)cudaGetLastError();
    throw usage_error(std::string("no GPU can be used here: ") + cudaGetErrorString(error));
  }
  INTERLACE_CUDA_CHECK(error);
  return static_cast<std::uint32_t>(count);
}

void require_gpu(int ordinal) {
  const std::uint32_t present = device_count();
  if (ordinal < 0 || static_cast<std::uint32_t>(ordinal) >= present) {
    throw usage_error("there is no GPU " + std::to_string(ordinal) + "; there are " +
                      std::to_string(present));
  }
  int major = 0;
  int minor = 0;
  INTERLACE_CUDA_CHECK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, ordinal));
  INTERLACE_CUDA_CHECK(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, ordinal));
  // The build has machine code for some capabilities, and PTX for later ones.
  const std::string reason = why_too_old(ordinal, 10 * major + minor, INTERLACE_LEAST_CAPABILITY);
  if (!reason.empty()) throw usage_error(reason);
}

}  // namespace interlace::cuda
