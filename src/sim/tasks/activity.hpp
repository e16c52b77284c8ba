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
    std::uint32_t kernels = 0;  // kernels and library calls that run now
    std::uint32_t copies = 0;
    picoseconds kernel_time = 0;
    picoseconds copy_time = 0;
    picoseconds idle_time = 0;          // time without a kernel and without a copy
    picoseconds idle_while_others = 0;  // part of idle_time in which another device runs a kernel
  };

  explicit activity(std::uint32_t devices) : devices_(devices), changes_(devices) {}

  // The following functions note a change. Threads may note changes of different devices at the
  // same time. The times that are noted for one device must not decrease.
  void kernel_begins(std::uint32_t d, picoseconds now) { note(d, now, 1, 0); }
  void kernel_ends(std::uint32_t d, picoseconds now) { note(d, now, -1, 0); }
  void copy_begins(std::uint32_t d, picoseconds now) { note(d, now, 0, 1); }
  void copy_ends(std::uint32_t d, picoseconds now) { note(d, now, 0, -1); }

  // Accumulates the times up to `now` from the changes that were noted. `now` must not be before a
  // noted change, and must not decrease from call to call.
  void settle(picoseconds now);

  // The accumulated times of a device, up to the last call of settle().
  const device& operator[](std::uint32_t d) const { return devices_[d]; }

 private:
  struct change {
    picoseconds time = 0;
    std::uint32_t device = 0;
    std::int32_t kernels = 0;
    std::int32_t copies = 0;
  };
  void note(std::uint32_t d, picoseconds now, std::int32_t kernels, std::int32_t copies) {
    changes_[d].push_back({now, d, kernels, copies});
  }
  void pass(picoseconds now);

  std::vector<device> devices_;
  // For each device, the changes since the last call of settle().
  std::vector<std::vector<change>> changes_;
  picoseconds since_ = 0;
};

}  // namespace interlace::sim
