// The threads of an agent copy each chunk once the chunk is complete. The agent occupies places on
// the compute units. The kernel cannot use these places.
#include <algorithm>

#include "interlace/base/errors.hpp"
#include "sim/mechanism/region_mechanisms.hpp"
#include "sim/mechanism/tracked.hpp"

namespace interlace::sim {

namespace {

constexpr std::uint32_t block_threads = 128;
constexpr std::uint64_t part_bytes = 256 * block_threads;

class copied_by_an_agent final : public tracked_mechanism {
 public:
  void check(const kernel::region_state& state) const override {
    if (state.options.agent_copy != kernel::agent_copy::bulk) return;
    throw usage_error(
        "an agent that copies in bulk is measured on real GPUs and not simulated; say with "
        "--chunks "
        "and --threads what agents to simulate");
  }

 private:
  simulation::copy_request mover(const kernel::region_options& how) const override {
    simulation::copy_request request;
    request.by = simulation::mover::agent;
    request.threads = how.agent_threads;
    // As in src/cuda/region/agent.cu, each block takes a part of a chunk. The part is just large
    // enough to keep the block's threads busy.
    const std::uint64_t blocks = std::max(1U, how.agent_threads / block_threads);
    const std::uint64_t a_chunk =
        std::clamp<std::uint64_t>(how.chunk_bytes / part_bytes, 1, blocks);
    request.at_once = static_cast<std::uint32_t>(blocks / a_chunk);
    return request;
  }
  std::uint32_t agent_warps(const kernel::region_options& how,
                            std::uint32_t warp_width) const override {
    return how.agent_threads / warp_width;
  }
};

}  // namespace

const region_mechanism& polling() {
  static const copied_by_an_agent how;
  return how;
}

}  // namespace interlace::sim
