#include "cuda/early_launch.hpp"

#include <algorithm>
#include <map>
#include <mutex>

#include "interlace/cuda/check.hpp"

namespace interlace::cuda {

namespace {

constexpr int first_architecture = 90;  // first architecture with griddepcontrol
constexpr int first_driver = 12030;     // first driver that captures early launches

// For each GPU, the number of nodes of this process that use it.
std::mutex tenants_mutex;
std::map<int, int> tenants;

}  // namespace

bool awaits_prerequisites(const cudaFuncAttributes& kernel) {
  return kernel.ptxVersion >= first_architecture;
}

std::uint32_t early_devices(const std::vector<int>& ordinals) {
  int driver = 0;
  INTERLACE_CUDA_CHECK(cudaDriverGetVersion(&driver));
  const bool shared = std::set<int>(ordinals.begin(), ordinals.end()).size() < ordinals.size();
  if (shared || driver < first_driver) return 0;
  return static_cast<std::uint32_t>((std::uint64_t{1} << ordinals.size()) - 1);
}

gpu_tenant::gpu_tenant(const std::vector<int>& ordinals)
    : ordinals_(ordinals.begin(), ordinals.end()) {
  const std::lock_guard lock(tenants_mutex);
  for (const int gpu : ordinals_) ++tenants[gpu];
}

gpu_tenant::~gpu_tenant() {
  const std::lock_guard lock(tenants_mutex);
  for (const int gpu : ordinals_) --tenants[gpu];
}

bool gpu_tenant::alone() const {
  const std::lock_guard lock(tenants_mutex);
  return std::all_of(ordinals_.begin(), ordinals_.end(),
                     [](int gpu) { return tenants.at(gpu) == 1; });
}

cudaLaunchAttribute early_attribute() {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  return attribute;
}

}  // namespace interlace::cuda
