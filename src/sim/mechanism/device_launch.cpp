// The block that completes a chunk launches a kernel. That kernel copies the chunk.
#include "sim/mechanism/region_mechanisms.hpp"
#include "sim/mechanism/tracked.hpp"

namespace interlace::sim {

namespace {

class copied_by_launched_kernels final : public tracked_mechanism {
  simulation::copy_request mover(const kernel::region_options& how) const override {
    simulation::copy_request request;
    request.by = simulation::mover::child;
    request.threads = how.agent_threads;
    return request;
  }
};

}  // namespace

const region_mechanism& device_launch() {
  static const copied_by_launched_kernels how;
  return how;
}

}  // namespace interlace::sim
