// How a node is made, and how it runs.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "interlace/copy.hpp"

namespace interlace::cuda {

struct node_options {
  std::uint32_t devices = 1;
  // The GPU of each device; empty: 0, 1, ... One GPU may stand for several devices
  // (interlace/cuda/shared_gpu.hpp). Times then include the sharing.
  std::vector<int> ordinals{};
  double deadline_s = 10;  // deadline of every wait on a device
  // For multi-path. Without a value, the environment decides.
  std::optional<copy_options> copies{};
};

struct run_options {
  bool graph = true;              // false: plain streams
  std::uint32_t warm_ups = 0;     // runs before the measured ones
  std::uint32_t repetitions = 1;  // measured runs; time_s is the median
  // Uses plain streams with events between kernels, copies and exchanges. This fills copy_s,
  // epoch_s and timeline, and makes time_s larger than without.
  bool detail = false;
  std::uint32_t timeline_epochs = 3;
  // Before each run but the first, regions and reductions are restored to their contents before the
  // first run. The caller must take care of local and unified arrays that are both read and
  // written.
};

}  // namespace interlace::cuda
