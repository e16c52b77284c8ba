#include "sim/tasks/activity.hpp"

#include <algorithm>

namespace interlace::sim {

void activity::settle(picoseconds now) {
  std::vector<change> all;
  for (std::vector<change>& of_device : changes_) {
    all.insert(all.end(), of_device.begin(), of_device.end());
    of_device.clear();
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const change& x, const change& y) { return x.time < y.time; });
  for (const change& c : all) {
    pass(c.time);
    devices_[c.device].kernels += static_cast<std::uint32_t>(c.kernels);
    devices_[c.device].copies += static_cast<std::uint32_t>(c.copies);
  }
  pass(now);
}

void activity::pass(picoseconds now) {
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
    if (computing) d.idle_while_others += passed;  // a kernel runs on another device meanwhile
  }
}

}  // namespace interlace::sim
