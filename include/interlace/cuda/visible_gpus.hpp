// The GPUs that CUDA shows to this process.
#pragma once

#include <cstdint>
#include <string>

namespace interlace::cuda {

// The number of these GPUs. Throws usage_error if there is no driver.
std::uint32_t device_count();

// Throws usage_error unless the GPU exists and kernels can run on it.
void require_gpu(int ordinal);

// A compute capability as people write it: "9.0" for 90.
inline std::string capability_text(int capability) {
  return std::to_string(capability / 10) + "." + std::to_string(capability % 10);
}

// Why kernels that need compute capability `least` (90 for 9.0) do not run on this GPU, whose
// capability is `has`; empty if they do.
inline std::string why_too_old(int ordinal, int has, int least) {
  if (has >= least) return {};
  return "GPU " + std::to_string(ordinal) + " has compute capability " + capability_text(has) +
         ", and kernels need " + capability_text(least) + " or later";
}

// The least capability whose instructions copy in bulk (cp.async.bulk).
inline constexpr int bulk_copy_capability = 90;

// Why an agent cannot copy in bulk if its code was compiled for this capability (the ptxVersion of
// cudaFuncAttributes); empty if the agent can. It follows "GPU N ".
inline std::string why_no_bulk_copies(int compiled_for) {
  if (compiled_for >= bulk_copy_capability) return {};
  return "runs agents that were compiled for compute capability " + capability_text(compiled_for) +
         ", and bulk copies need " + capability_text(bulk_copy_capability) +
         "; use an agent that copies by vectors";
}

}  // namespace interlace::cuda
