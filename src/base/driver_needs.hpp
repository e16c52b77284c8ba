// What Interlace needs of an NVIDIA driver and of a GPU, and the sentences for what is missing.
// Each sentence says what is there, what is needed, and what works all the same. Nothing else in
// Interlace words these cases.
//
// A version is that of cuDriverGetVersion: 1000 * major + 10 * minor.
#pragma once

#include <string>
#include <string_view>

namespace interlace {

// Copies, `load`, `save` and `interlace run` call the driver alone, by functions that CUDA 12.2
// has.
inline constexpr int driver_for_copies = 12020;

// Kernels call a CUDA runtime, which needs a driver of its own major version or later.
inline constexpr int driver_for_runtime(int runtime) { return runtime / 1000 * 1000; }

// "12.2" for 12020, and back; 0 for a text that is no version.
std::string cuda_text(int version);
int cuda_version(std::string_view text);

// There is no libcuda.so.1. `nvml`: there is an NVML, so a driver is installed.
std::string no_driver(bool nvml = false);

// Why a driver does not do for copies; empty if it does.
std::string why_driver_too_old_for_copies(int has);

// Why a driver does not do for kernels with this CUDA runtime; empty if it does.
std::string why_driver_too_old_for_kernels(int has, int runtime);

// Why a driver cannot load the kernels of an all-reduce, which CUDA `made_by` compiled; empty if it
// should be able to.
std::string why_driver_too_old_for_reductions(int has, int made_by);

// Why kernels for compute capability `least`, 90 for 9.0, do not run on this GPU, of capability
// `has`; empty if they do.
std::string why_gpu_too_old(int ordinal, int has, int least);

// The least capability whose instructions copy in bulk (cp.async.bulk).
inline constexpr int bulk_copy_capability = 90;

// Why an agent cannot copy in bulk if its code was compiled for this capability (the ptxVersion of
// cudaFuncAttributes); empty if the agent can. It follows "GPU N ".
std::string why_no_bulk_copies(int compiled_for);

// The driver's cuInit failed with this result, which the driver names so.
std::string no_start(int result, const std::string& name);

// The driver works, and shows no GPU to this process.
std::string no_gpu();

}  // namespace interlace
