// A copy engine copies each chunk once the chunk is complete. A stream wait on the chunk's flag
// starts the copy.
#include "sim/mechanism/region_mechanisms.hpp"
#include "sim/mechanism/tracked.hpp"

namespace interlace::sim {

namespace {

class copied_by_waiting_streams final : public tracked_mechanism {
  simulation::copy_request mover(const kernel::region_options& how) const override {
    simulation::copy_request request;
    request.by = simulation::mover::waiting;
    request.threads = how.agent_threads;
    return request;
  }
  // Each peer has its own stream. The next wait on a stream begins when the stream's previous copy
  // has ended.
  std::vector<task_id> add_copies(const region_launch& l, const kernel::chunk& c,
                                  const std::vector<std::uint32_t>& peers,
                                  const simulation::copy_request& how,
                                  std::vector<task_id>& last_to, streams& on) const override {
    std::vector<task_id> copies;
    for (const std::uint32_t to : peers) {
      std::vector<task_id> before;
      if (last_to[to] != none) before.push_back(last_to[to]);
      last_to[to] = on.add_copy(l.region, l.device, c.begin, c.end, {to}, how, before);
      copies.push_back(last_to[to]);
    }
    return copies;
  }
};

}  // namespace

const region_mechanism& copy_engine() {
  static const copied_by_waiting_streams how;
  return how;
}

}  // namespace interlace::sim
