// The options of a node and of its runs.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "interlace/copy.hpp"

namespace interlace::cuda {

struct node_options {
  std::uint32_t devices = 1;
  // The GPU of each device. If the list is empty, the devices use GPUs 0, 1, and so on. Several
  // devices may share one GPU (interlace/cuda/shared_gpu.hpp). In this case, times include the
  // effects of sharing.
  std::vector<int> ordinals{};
  double deadline_s = 10;  // deadline of every wait on a device
  // The options of the copy engine for the mechanism `multi-path`. Without a value, the environment
  // decides.
  std::optional<copy_options> copies{};
};

struct run_options {
  bool graph = true;              // whether the run uses graphs; if false, it uses plain streams
  std::uint32_t warm_ups = 0;     // number of runs before the measured runs
  std::uint32_t repetitions = 1;  // number of measured runs; time_s is their median
  // Whether the run uses plain streams with events between kernels, copies and exchanges. With
  // `detail`, the run fills copy_s, epoch_s and timeline. Its time_s is larger than without
  // `detail`.
  bool detail = false;
  std::uint32_t timeline_epochs = 3;
  // Before each run except the first, the node restores the contents that regions and reductions
  // had before the first run. The caller must restore local and unified arrays that kernels both
  // read and write.
};

}  // namespace interlace::cuda
