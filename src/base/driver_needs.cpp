#include "base/driver_needs.hpp"

#include <array>
#include <charconv>
#include <system_error>
#include <utility>

namespace interlace {
namespace {

// The first driver for each version of CUDA, in NVIDIA's numbering of drivers.
constexpr std::array<std::pair<int, const char*>, 2> first_drivers{
    {{12020, "535"}, {13000, "580"}}};

constexpr const char* simulation_works = "simulated machines need none";
constexpr const char* copies_work =
    "copies, load, save, interlace run and simulated machines still work";

std::string needed(int version) {
  std::string text = "CUDA " + cuda_text(version);
  for (const auto& [cuda, driver] : first_drivers)
    if (cuda == version) text += " (" + std::string(driver) + ")";
  return text + " or later";
}

std::string too_old(int has, const std::string& what, int needs, const char* otherwise) {
  return "the NVIDIA driver is for CUDA " + cuda_text(has) + ", and " + what + " a driver for " +
         needed(needs) + "; " + otherwise;
}

std::string capability_text(int capability) {
  return std::to_string(capability / 10) + "." + std::to_string(capability % 10);
}

}  // namespace

std::string cuda_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

int cuda_version(std::string_view text) {
  int major = 0;
  int minor = 0;
  const char* const end = text.data() + text.size();
  const auto [point, wrong] = std::from_chars(text.data(), end, major);
  if (wrong != std::errc{} || point == end || *point != '.' ||
      std::from_chars(point + 1, end, minor).ec != std::errc{})
    return 0;
  return 1000 * major + 10 * minor;
}

std::string no_driver(bool nvml) {
  if (nvml)
    return "an NVIDIA driver is installed, but its libcuda.so.1 is not; install that part of the "
           "driver, or start the container with NVIDIA_DRIVER_CAPABILITIES=compute,utility";
  return "no NVIDIA driver was found (no libcuda.so.1); GPUs need one for " +
         needed(driver_for_copies) + ", and " + simulation_works;
}

std::string why_driver_too_old_for_copies(int has) {
  if (has >= driver_for_copies) return {};
  return too_old(has, "copies need", driver_for_copies, simulation_works);
}

std::string why_driver_too_old_for_kernels(int has, int runtime) {
  const int needs = driver_for_runtime(runtime);
  if (has >= needs) return {};
  return too_old(has, "kernels need", needs,
                 has >= driver_for_copies ? copies_work : simulation_works);
}

std::string why_driver_too_old_for_reductions(int has, int made_by) {
  const int needs = driver_for_runtime(made_by);
  if (has >= needs) return {};
  return too_old(has, "all-reduces need", needs, "copies and other collectives still work");
}

std::string why_gpu_too_old(int ordinal, int has, int least) {
  if (has >= least) return {};
  return "GPU " + std::to_string(ordinal) + " has compute capability " + capability_text(has) +
         ", and kernels need " + capability_text(least) + " or later; " + copies_work;
}

std::string why_no_bulk_copies(int compiled_for) {
  if (compiled_for >= bulk_copy_capability) return {};
  return "runs agents that were compiled for compute capability " + capability_text(compiled_for) +
         ", and bulk copies need " + capability_text(bulk_copy_capability) +
         "; use an agent that copies by vectors";
}

std::string no_start(int result, const std::string& name) {
  constexpr int no_device = 100, not_ready = 802, mismatch = 803;
  const std::string call = " (cuInit failed: " + name + ")";
  switch (result) {
    case no_device:
      return no_gpu() + call;
    case not_ready:
      return "the NVIDIA driver is not ready" + call + "; is nvidia-fabricmanager running?";
    case mismatch:
      return "libcuda.so.1 and the loaded NVIDIA driver have different versions" + call +
             "; restart the machine, or start the container anew";
    default:
      return "the NVIDIA driver does not start" + call;
  }
}

std::string no_gpu() { return "an NVIDIA driver is there, but it finds no GPU"; }

std::string why_gpus_are_hidden(const std::string& visible, const std::string& which) {
  if (visible.empty())
    return "CUDA_VISIBLE_DEVICES is empty, which hides " + which +
           "; unset the variable, or give it numbers of GPUs";
  return "CUDA_VISIBLE_DEVICES=" + visible + " hides " + which + "; give it numbers of GPUs";
}

}  // namespace interlace
