#include "interlace/cuda/visible_gpus.hpp"

#include <cuda_runtime.h>

#include <string>

#include "base/driver_needs.hpp"
#include "interlace/base/errors.hpp"
#include "interlace/cuda/check.hpp"

namespace interlace::cuda {

std::uint32_t device_count() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaErrorInsufficientDriver) {
    (void)cudaGetLastError();
    int has = 0;  // stays 0 if there is no driver
    INTERLACE_CUDA_CHECK(cudaDriverGetVersion(&has));
    const std::string reason =
        has == 0 ? no_driver() : why_driver_too_old_for_kernels(has, CUDART_VERSION);
    throw usage_error(reason.empty() ? cudaGetErrorString(error) : reason);
  }
  if (error == cudaErrorNoDevice) {
    (void)cudaGetLastError();
    throw usage_error(no_gpu());
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
  // A build has machine code for some compute capabilities. For GPUs of a later compute capability,
  // the driver can compile the build's PTX.
  const std::string reason =
      why_gpu_too_old(ordinal, 10 * major + minor, INTERLACE_LEAST_CAPABILITY);
  if (!reason.empty()) throw usage_error(reason);
}

}  // namespace interlace::cuda
