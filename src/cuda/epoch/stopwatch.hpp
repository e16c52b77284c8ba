// Events between the parts of a run on plain streams, and the timeline that is made from these
// events.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cuda/epoch/clock.hpp"
#include "cuda/epoch/gpus.hpp"
#include "interlace/kernel/region.hpp"

namespace interlace::cuda {

class stopwatch {
 public:
  stopwatch(const node_gpus& gpus, const run_clock& clock, std::uint32_t timeline_epochs)
      : gpus_(gpus), clock_(clock), timeline_epochs_(timeline_epochs), exposed_(gpus.count()) {}
  ~stopwatch();
  stopwatch(const stopwatch&) = delete;
  stopwatch& operator=(const stopwatch&) = delete;
  stopwatch(stopwatch&&) = delete;
  stopwatch& operator=(stopwatch&&) = delete;

  // Records an event on the stream. The stream's device must be the current one.
  cudaEvent_t mark(cudaStream_t stream);
  // Records events on the main streams of all devices.
  std::vector<cudaEvent_t> mark_all();
  bool draws() const { return epoch_ < timeline_epochs_; }
  void span(std::uint32_t device, const char* track, std::string name, cudaEvent_t begin,
            cudaEvent_t end);
  void span_all(const char* track, const std::string& name, const std::vector<cudaEvent_t>& begins,
                const std::vector<cudaEvent_t>& ends);
  // Counts the time between two events as exposed: the device only made transfers in this time.
  void exposed(std::uint32_t device, cudaEvent_t begin, cudaEvent_t end) {
    exposed_[device].emplace_back(begin, end);
  }
  void next_epoch() { ++epoch_; }

  // Fills in the measured times. Call this function after the run.
  void fill(kernel::run_result& result) const;

 private:
  struct drawn {
    std::uint32_t device;
    const char* track;
    std::string name;
    cudaEvent_t begin;
    cudaEvent_t end;
  };
  const node_gpus& gpus_;
  const run_clock& clock_;
  std::uint32_t timeline_epochs_;
  std::uint32_t epoch_ = 0;
  std::vector<cudaEvent_t> events_;
  std::vector<drawn> spans_;
  std::vector<std::vector<std::pair<cudaEvent_t, cudaEvent_t>>> exposed_;
};

}  // namespace interlace::cuda
