#include "interlace/cuda/shared_gpu.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <set>

#include "interlace/base/errors.hpp"

namespace interlace::cuda {

namespace {

constexpr std::uint32_t most_queues = 32;
constexpr std::uint32_t default_queues = 8;

// The units in which a multiprocessor allocates registers to a warp and shared memory to a block.
constexpr std::uint32_t register_granule = 256;
constexpr std::uint32_t shared_granule = 128;

std::uint32_t rounded(std::uint32_t value, std::uint32_t granule) {
  return (value + granule - 1) / granule * granule;
}

// A resource that limits the number of blocks on a multiprocessor.
struct resource {
  const char* name;
  std::uint32_t has;     // amount of the resource that a multiprocessor has
  std::uint32_t agent;   // amount that a block of the agent takes
  std::uint32_t kernel;  // amount that a block of the kernel takes
};

std::array<resource, 4> resources_of(const gpu_places& gpu, const block_needs& agent,
                                     const block_needs& kernel) {
  const auto registers = [](const block_needs& b) {
    return (b.threads + 31) / 32 * rounded(32 * b.registers, register_granule);
  };
  const auto shared = [&](const block_needs& b) {
    return rounded(b.shared_bytes + gpu.reserved_shared_bytes, shared_granule);
  };
  return {{{"threads", gpu.threads, agent.threads, kernel.threads},
           {"blocks", gpu.blocks, 1, 1},
           {"registers", gpu.registers, registers(agent), registers(kernel)},
           {"shared memory", gpu.shared_bytes, shared(agent), shared(kernel)}}};
}

}  // namespace

bool shares_gpu(const std::vector<int>& ordinals) {
  return std::set<int>(ordinals.begin(), ordinals.end()).size() < ordinals.size();
}

std::uint32_t devices_on(const std::vector<int>& ordinals, int gpu) {
  return static_cast<std::uint32_t>(std::count(ordinals.begin(), ordinals.end(), gpu));
}

std::uint32_t hardware_queues(const char* setting) {
  if (setting == nullptr) return default_queues;
  std::uint32_t value = 0;
  const char* end = setting + std::strlen(setting);
  const auto [rest, error] = std::from_chars(setting, end, value);
  if (error != std::errc() || rest != end || value < 1) return default_queues;
  return std::min(value, most_queues);
}

void require_queues(const std::vector<int>& ordinals, std::uint32_t streams) {
  if (!shares_gpu(ordinals)) return;
  const std::uint32_t queues =
      hardware_queues(std::getenv("CUDA_DEVICE_MAX_CONNECTIONS"));  // NOLINT: no thread sets it
  for (const int gpu : ordinals) {
    const std::uint32_t devices = devices_on(ordinals, gpu);
    if (devices * streams <= queues) continue;
    throw usage_error(
        std::to_string(devices) + " devices on GPU " + std::to_string(gpu) + " need " +
        std::to_string(devices * streams) +
        " hardware queues, one for each of their streams, and CUDA_DEVICE_MAX_CONNECTIONS leaves " +
        std::to_string(queues) +
        (queues < most_queues ? "; set it to 32 before the process first uses CUDA"
                              : "; share the GPU among fewer devices"));
  }
}

// Assumes the worst placement. A multiprocessor with `fit` blocks of agents still has room for a
// block of the kernel. With one block of agents more, the multiprocessor has no room for a block of
// the kernel. The kernel can run if the agents have too few blocks to fill every multiprocessor in
// this way. Each other device that waits at a barrier may also fill one whole multiprocessor.
std::string why_not_at_once(const gpu_places& gpu, const grid_needs& agent,
                            const block_needs& kernel, std::uint32_t devices) {
  const auto needs = resources_of(gpu, agent.block, kernel);
  const std::uint64_t all = std::uint64_t{devices} * agent.blocks;
  const std::uint64_t meetings = devices - 1;
  const auto refused = [&](const char* short_of) {
    return (devices == 1 ? "an agent of " : std::to_string(devices) + " agents, each of ") +
           std::to_string(agent.blocks) + " blocks, and a kernel block of " +
           std::to_string(kernel.threads) + " threads at the same time: not enough " + short_of;
  };
  // The number of agent blocks that fit beside a block of the kernel.
  std::uint64_t beside = std::numeric_limits<std::uint32_t>::max();
  std::uint64_t alone = beside;  // number of agent blocks that fit without the kernel
  const char* short_of = "";
  for (const resource& r : needs) {
    if (r.kernel > r.has || r.agent > r.has) return refused(r.name);
    const std::uint64_t fit = (r.has - r.kernel) / std::max(1U, r.agent);
    if (fit < beside) {
      beside = fit;
      short_of = r.name;
    }
    alone = std::min<std::uint64_t>(alone, r.has / std::max(1U, r.agent));
  }
  if (all / (beside + 1) + meetings >= gpu.processors) return refused(short_of);
  if (all != 0 && (all - 1) / alone + meetings >= gpu.processors) return refused(short_of);
  return {};
}

}  // namespace interlace::cuda
