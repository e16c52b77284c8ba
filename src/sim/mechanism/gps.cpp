// Stores wait in a queue and leave as whole lines, to the devices that read the page.
#include <array>

#include "interlace/base/limits.hpp"
#include "sim/mechanism/region_mechanisms.hpp"
#include "sim/remote/subscriptions.hpp"

namespace interlace::sim {

namespace {

class lines_to_readers final : public store_mechanism {
 public:
  lines_to_readers() : store_mechanism(store_path::whole_line) {}

  std::unique_ptr<subscribed_pages> subscribe(const kernel::region_state& state, const streams& on,
                                              const machine::machine& m) const override {
    std::array<std::array<std::uint64_t, 2>, max_devices> buffers{};
    for (std::uint32_t d = 0; d < on.devices(); ++d) {
      for (std::size_t b = 0; b < 2; ++b) {
        buffers[d][b] = on.memory().address(state.buffers[d][b]);
      }
    }
    return std::make_unique<subscriptions>(m.gpu.gps.page_bytes, state.element_bytes,
                                           state.options.boundaries, buffers);
  }
};

}  // namespace

const region_mechanism& gps() {
  static const lines_to_readers how;
  return how;
}

}  // namespace interlace::sim
