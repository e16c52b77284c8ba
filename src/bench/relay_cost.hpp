// What it costs GPUs that relay a copy, and the copy, when these GPUs compute meanwhile; on real
// GPUs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace interlace::bench {

struct relay_cost_request {
  int to = 0;                // the GPU that a message from page-locked memory goes to
  std::uint64_t bytes = 0;   // of the message
  std::string method;        // settings of the copy engine that say who relays
  std::vector<int> kernels;  // GPUs that run a kernel bound by memory, others than `to`
  double window_s = 0.1;     // of each figure
  std::uint32_t warmup = 3;  // messages
  std::uint32_t repeats = 20;
};

struct relay_cost {
  // What kernels read and write, by GPU and repeat: alone, and while messages follow each other.
  std::vector<std::vector<double>> alone_bytes_per_s;
  std::vector<std::vector<double>> beside_bytes_per_s;
  // Of a message, by repeat: alone, and beside the kernels.
  std::vector<double> message_alone_s;
  std::vector<double> message_beside_s;
  bool relayed = false;  // whether messages went over several paths
  std::uint64_t wrong =
      0;  // bytes, of the last message beside kernels of the first and last repeat
};

// Throws usage_error for a request that makes no sense, device_error if a GPU fails.
relay_cost measure_relay_cost(const relay_cost_request& request);

}  // namespace interlace::bench
