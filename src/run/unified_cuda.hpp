// Programs that see several GPUs as one, on real GPUs.
#pragma once

#include <cstdint>
#include <vector>

#include "run/unified.hpp"

namespace interlace::run {

struct measured_unified {
  std::vector<double> time_s;  // of each repeat, the kernels of all devices
  std::vector<float> values;   // of the last one
};

// Runs it `warmup + repeats` times, each time from the data on. Of `asked` the GPUs and the
// placement count here: remote loads and stores go to the page's GPU, line by line. Throws
// usage_error for data that make no problem, device_error if a GPU fails.
template <class Data>
measured_unified measure_unified(const Data& data, const unified_request& asked,
                                 std::uint32_t warmup, std::uint32_t repeats);

}  // namespace interlace::run
