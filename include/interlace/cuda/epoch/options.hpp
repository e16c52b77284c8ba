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
  // (interlace/cuda/shared_gpu.hpp): times are then of that shared GPU.
  std::vector<int> ordinals{};
  double deadline_s = 10;  // of every wait on a device
  // Of multi-path; no value: those of the environment.
  std::optional<copy_options> copies{};
};

struct run_options {
  bool graph = true;              // else plain streams
  std::uint32_t warm_ups = 0;     // runs before the measured ones
  std::uint32_t repetitions = 1;  // measured runs; time_s is the median
  // Plain streams with events between kernels, copies and exchanges: fills copy_s, epoch_s and
  // timeline, and makes time_s larger than it is without.
  bool detail = false;
  std::uint32_t timeline_epochs = 3;
  // Before each run but the first, regions and reductions get back the contents that they had
  // before it. Local and unified arrays that are read and written are the caller's care.
};

}  // namespace interlace::cuda
