// The times during which devices run kernels or send copies, accumulated from one change to the
// next.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/engine/event_queue.hpp"

namespace interlace::sim {

class activity {
 public:
  struct device {
    std::uint32_t kernels = 0;  // kernels that run now, including library calls
    std::uint32_t copies = 0;
    picoseconds kernel_time = 0;
    picoseconds copy_time = 0;
    picoseconds idle_time = 0;          // time without kernel and without copy
    picoseconds idle_while_others = 0;  // part of idle_time in which another device runs a kernel
  };

  explicit activity(std::uint32_t devices) : devices_(devices) {}

  void kernel_begins(std::uint32_t d, picoseconds now) {
    settle(now);
    ++devices_[d].kernels;
  }
  void kernel_ends(std::uint32_t d, picoseconds now) {
    settle(now);
    --devices_[d].kernels;
  }
  void copy_begins(std::uint32_t d, picoseconds now) {
    settle(now);
    ++devices_[d].copies;
  }
  void copy_ends(std::uint32_t d, picoseconds now) {
    settle(now);
    --devices_[d].copies;
  }

  // Accumulates the time up to `now`. `now` must not decrease from call to call.
  void settle(picoseconds now);

  const device& operator[](std::uint32_t d) const { return devices_[d]; }

 private:
  std::vector<device> devices_;
  picoseconds since_ = 0;
};

}  // namespace interlace::sim
