// The bandwidth of copies by the copy engines between the memories of a machine.
//
// A kernel holds the streams until all copies are enqueued, so the figures contain no host time.
// Every measurement verifies the copied data.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace interlace::cuda {

inline constexpr int host_memory = -1;  // page-locked memory of the host

struct link_options {
  std::vector<int> ordinals{};  // GPUs to measure; an empty list means all GPUs
  std::vector<std::uint64_t> sizes{std::uint64_t{256} << 20U};
  std::uint32_t repetitions = 5;  // number of repetitions; each rate is their median
  bool host = true;               // whether copies between each GPU and the host are measured
  bool both_ways = true;          // whether copies in both directions at once are measured
  // From time to time, measure_links calls this function with the part of the work that is done,
  // from 0 to 1.
  std::function<void(double done)> progress{};
};

struct link_bandwidth {
  int from = 0;
  int to = 0;
  std::uint64_t bytes = 0;
  // True if copies ran in both directions at once. In this case, the rate is the sum of both
  // directions.
  bool both_ways = false;
  bool peer_access = true;  // false if the driver stages the copy in host memory
  double bytes_per_s = 0;   // median over the repetitions
  double lowest = 0;
  double highest = 0;
};

// Measures the links. Throws device_error if a copy fails or delivers wrong data.
std::vector<link_bandwidth> measure_links(const link_options& o);

}  // namespace interlace::cuda
