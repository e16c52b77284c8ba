// The GPUs that CUDA shows to this process.
#pragma once

#include <cstdint>
#include <string>

namespace interlace::cuda {

// How many there are; throws usage_error where there is no driver.
std::uint32_t device_count();

// Throws usage_error unless there is a GPU of this number, and kernels run on it.
void require_gpu(int ordinal);

// Why kernels that need compute capability `least`, 90 for 9.0, do not run on this GPU, of
// capability `has`; empty if they do.
inline std::string why_too_old(int ordinal, int has, int least) {
  if (has >= least) return {};
  const auto number = [](int capability) {
    return std::to_string(capability / 10) + "." + std::to_string(capability % 10);
  };
  return "GPU " + std::to_string(ordinal) + " has compute capability " + number(has) +
         ", and kernels need " + number(least) + " or later";
}

}  // namespace interlace::cuda
