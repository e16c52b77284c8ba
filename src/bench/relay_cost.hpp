// Measures, on real GPUs, how much a relayed copy slows down a GPU that computes, and how much this
// GPU's computation slows down the copy.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace interlace::bench {

struct relay_cost_request {
  int to = 0;                // GPU to which a message from page-locked memory goes
  std::uint64_t bytes = 0;   // size of a message
  std::string method;        // settings of the copy engine; they say which GPUs relay
  std::vector<int> kernels;  // GPUs that run a kernel bound by memory; `to` is not one of them
  double window_s = 0.1;     // time in seconds for which each figure is measured
  std::uint32_t warmup = 3;  // number of messages before the measurement, which warm up the GPUs
  std::uint32_t repeats = 20;
};

struct relay_cost {
  // The throughput of the kernels' reads and writes, for each GPU and repeat. `alone_bytes_per_s`
  // is measured with the kernels alone, and `beside_bytes_per_s` while messages are sent.
  std::vector<std::vector<double>> alone_bytes_per_s;
  std::vector<std::vector<double>> beside_bytes_per_s;
  // The time of a message in each repeat. `message_alone_s` is measured with messages alone, and
  // `message_beside_s` while the kernels run.
  std::vector<double> message_alone_s;
  std::vector<double> message_beside_s;
  bool relayed = false;  // whether messages took several paths
  // The number of wrong bytes in the last message that was sent beside kernels. The message is
  // checked in the first and the last repeat.
  std::uint64_t wrong = 0;
};

// Measures the costs. Throws usage_error if the request is not valid, and device_error if a GPU
// fails.
relay_cost measure_relay_cost(const relay_cost_request& request);

}  // namespace interlace::bench
