// Copies after the kernel, as if all work were in CUDA's default stream. A copy waits for all
// earlier copies that touch one of its two devices. The first copies wait for the host.
#include <vector>

#include "sim/mechanism/region_mechanisms.hpp"

namespace interlace::sim {

namespace {

class copied_in_turn final : public region_mechanism {
 public:
  void exchange(std::uint32_t region, streams& on, region_exchange& /*work*/) const override {
    std::vector<task_id> last(on.devices(), none);  // the last copy that touches each device
    std::vector<task_id> kernels;
    for (std::uint32_t d = 0; d < on.devices(); ++d) {
      kernels.insert(kernels.end(), on[d].last.begin(), on[d].last.end());
    }
    for (std::uint32_t from = 0; from < on.devices(); ++from) {
      for (std::uint32_t to = 0; to < on.devices(); ++to) {
        for (const kernel::delivery& d : on.deliveries_of(region, from)) {
          if (d.to != to) continue;
          std::vector<task_id> ends{last[from], last[to]};
          std::erase(ends, none);
          simulation::copy_request how;
          if (ends.empty()) how.by = simulation::mover::host;
          last[from] = last[to] =
              on.add_copy(region, from, d.begin, d.end, {to}, how, ends.empty() ? kernels : ends);
          on[from].copies.push_back(last[from]);
        }
      }
    }
  }
};

}  // namespace

const region_mechanism& serial_copy() {
  static const copied_in_turn how;
  return how;
}

}  // namespace interlace::sim
