#include "sim/tasks/activity.hpp"

#include <algorithm>

namespace interlace::sim {

void activity::settle(picoseconds now) {
  const picoseconds passed = now - since_;
  if (passed == 0) return;
  since_ = now;
  const bool computing =
      std::any_of(devices_.begin(), devices_.end(), [](const device& d) { return d.kernels != 0; });
  for (device& d : devices_) {
    if (d.kernels != 0) d.kernel_time += passed;
    if (d.copies != 0) d.copy_time += passed;
    if (d.kernels != 0 || d.copies != 0) continue;
    d.idle_time += passed;
    if (computing) d.idle_while_others += passed;  // a kernel runs on another device
  }
}

}  // namespace interlace::sim
