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
  kernel::region_options how;  // mechanism, chunks, agent, ranges
  std::uint32_t rounds = 0;    // rounds of computation
  std::uint32_t epochs = 5;    // epochs of a run, which is one graph
  std::uint32_t warmup = 1;
  std::uint32_t repeats = 5;
  bool deliver = true;  // false: only the kernels run
};

struct overlap_measurement {
  std::vector<double> epoch_s;  // for each repeat, the run's time divided by its epochs
  std::vector<std::string> remarks;
};

// Throws device_error if a device's replica differs from the result of the last epoch.
overlap_measurement overlap_on_cuda(const overlap_request& request);

}  // namespace interlace::bench
