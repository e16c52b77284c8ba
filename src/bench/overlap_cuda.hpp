// The overlap microbenchmark on the real node.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "interlace/kernel/region.hpp"

namespace interlace::bench {

struct overlap_request {
  std::uint32_t peers = 1;
  std::uint64_t bytes = std::uint64_t{256} << 20U;
  kernel::region_options how;  // the mechanism, the chunks, the agent and the ranges
  std::uint32_t rounds = 0;    // number of rounds of computation
  std::uint32_t epochs = 5;    // number of epochs of a run; a run is one graph
  std::uint32_t warmup = 1;
  std::uint32_t repeats = 5;
  bool deliver = true;  // if false, only the kernels run
};

struct overlap_measurement {
  // For each repeat, the time of the run divided by the number of its epochs.
  std::vector<double> epoch_s;
  std::vector<std::string> remarks;
};

// Measures the overlap. Throws device_error if a device's replica differs from the result of the
// last epoch.
overlap_measurement overlap_on_cuda(const overlap_request& request);

}  // namespace interlace::bench
