// The requirements of Interlace on the NVIDIA driver and the GPU, and the messages for requirements
// that are not met. Each message says what this machine has, what is needed, and what still works.
// All such messages of Interlace come from this file.
//
// Versions have the form of cuDriverGetVersion: 1000 * major + 10 * minor.
#pragma once

#include <string>
#include <string_view>

namespace interlace {

// Copies, `load`, `save` and `interlace run` need only a driver that has the functions of CUDA
// 12.2.
inline constexpr int driver_for_copies = 12020;

// Kernels call a CUDA runtime. The runtime needs a driver of its own major version or of a later
// major version.
inline constexpr int driver_for_runtime(int runtime) { return runtime / 1000 * 1000; }

// Converts 12020 to "12.2".
std::string cuda_text(int version);
// Converts "12.2" to 12020. Returns 0 if the text is not a version.
int cuda_version(std::string_view text);

// The message for a machine without libcuda.so.1. If `nvml` is true, the machine has NVML, so a
// driver is installed.
std::string no_driver(bool nvml = false);

// The reason why a driver is too old for copies. The text is empty if the driver is new enough.
std::string why_driver_too_old_for_copies(int has);

// The reason why a driver is too old for kernels with this CUDA runtime. The text is empty if the
// driver is new enough.
std::string why_driver_too_old_for_kernels(int has, int runtime);

// The reason why a driver is too old for the kernels of an all-reduce. CUDA version `made_by`
// compiled these kernels. The text is empty if the driver is new enough.
std::string why_driver_too_old_for_reductions(int has, int made_by);

// The reason why kernels do not run on this GPU. The GPU has compute capability `has`, and the
// kernels need at least `least` (90 for 9.0). The text is empty if they run.
std::string why_gpu_too_old(int ordinal, int has, int least);

// The lowest compute capability that has the instruction to copy in bulk (cp.async.bulk).
inline constexpr int bulk_copy_capability = 90;

// The reason why an agent cannot copy in bulk. The agent's code was compiled for the capability
// `compiled_for` (the ptxVersion of cudaFuncAttributes). The text continues a sentence after "GPU N
// ". The text is empty if the agent can copy in bulk.
std::string why_no_bulk_copies(int compiled_for);

// The message for a driver whose cuInit failed with `result`. `name` is the driver's name of this
// result.
std::string no_start(int result, const std::string& name);

// The message for a driver that works but shows no GPU to this process.
std::string no_gpu();

// The message for GPUs that CUDA_VISIBLE_DEVICES hides from this process. `visible` is the value of
// the variable, and `which` names the GPUs, such as "all 4 GPUs".
std::string why_gpus_are_hidden(const std::string& visible, const std::string& which);

}  // namespace interlace
