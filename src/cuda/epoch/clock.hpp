// Measures the time of a run by events on each device's main stream.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <vector>

#include "cuda/epoch/gpus.hpp"

namespace interlace::cuda {

class run_clock {
 public:
  explicit run_clock(const node_gpus& gpus);
  ~run_clock();
  run_clock(const run_clock&) = delete;
  run_clock& operator=(const run_clock&) = delete;
  run_clock(run_clock&&) = delete;
  run_clock& operator=(run_clock&&) = delete;

  // `start` and `stop` enqueue the events that start and stop the clock. The device must be the
  // current one.
  void start(std::uint32_t device) const;
  void stop(std::uint32_t device) const;
  // The time from the event that started the device's clock to `event`, which must belong to the
  // same device.
  double until_s(std::uint32_t device, cudaEvent_t event) const;
  // The time of the slowest device. The clocks of all devices must have stopped.
  double longest_s() const;

 private:
  const node_gpus& gpus_;
  std::vector<cudaEvent_t> starts_, stops_;
};

}  // namespace interlace::cuda
