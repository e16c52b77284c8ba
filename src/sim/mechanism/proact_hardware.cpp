// The stores themselves update the counters. A hardware unit that fetches descriptors copies each
// complete chunk.
#include "sim/mechanism/region_mechanisms.hpp"
#include "sim/mechanism/tracked.hpp"

namespace interlace::sim {

namespace {

class copied_by_descriptors final : public tracked_mechanism {
  simulation::copy_request mover(const kernel::region_options& how) const override {
    simulation::copy_request request;
    request.by = simulation::mover::descriptors;
    request.threads = how.agent_threads;
    return request;
  }
  bool counts_in_memory() const override { return false; }
};

}  // namespace

const region_mechanism& proact_hardware() {
  static const copied_by_descriptors how;
  return how;
}

}  // namespace interlace::sim
