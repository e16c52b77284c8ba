// Measures, on real GPUs, the slowdown of GPUs that compute while they relay a copy, and the
// slowdown of the copy.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace interlace::bench {

struct relay_cost_request {
  int to = 0;                // the GPU to which a message from page-locked memory goes
  std::uint64_t bytes = 0;   // of the message
  std::string method;        // settings of the copy engine, which say who relays
  std::vector<int> kernels;  // GPUs other than `to` that run a kernel bound by memory
  double window_s = 0.1;     // how long each figure is measured
  std::uint32_t warmup = 3;  // messages
  std::uint32_t repeats = 20;
};

struct relay_cost {
  // Throughput of the kernels' reads and writes, by GPU and repeat: alone, and beside messages.
  std::vector<std::vector<double>> alone_bytes_per_s;
  std::vector<std::vector<double>> beside_bytes_per_s;
  // The time of a message, by repeat: alone, and beside the kernels.
  std::vector<double> message_alone_s;
  std::vector<double> message_beside_s;
  bool relayed = false;  // whether messages took several paths
  std::uint64_t wrong =
      0;  // bytes, of the last message beside kernels of the first and last repeat
};

// Throws usage_error for a request that is not valid, device_error if a GPU fails.
relay_cost measure_relay_cost(const relay_cost_request& request);

}  // namespace interlace::bench
