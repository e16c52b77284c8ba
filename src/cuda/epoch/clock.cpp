#include "cuda/epoch/clock.hpp"

#include <algorithm>

#include "cuda/epoch/event.hpp"
#include "interlace/cuda/check.hpp"

namespace interlace::cuda {

run_clock::run_clock(const node_gpus& gpus) : gpus_(gpus) {
  const current_device restore(gpus_.ordinal(0));
  for (std::uint32_t d = 0; d < gpus_.count(); ++d) {
    INTERLACE_CUDA_CHECK(cudaSetDevice(gpus_.ordinal(d)));
    starts_.push_back(make_event(true));
    stops_.push_back(make_event(true));
  }
}

run_clock::~run_clock() {
  for (const auto* events : {&starts_, &stops_}) {
    for (cudaEvent_t e : *events) INTERLACE_CUDA_LOG(cudaEventDestroy(e));
  }
}

void run_clock::start(std::uint32_t device) const {
  INTERLACE_CUDA_CHECK(cudaEventRecord(starts_[device], gpus_.streams()[device]));
}

void run_clock::stop(std::uint32_t device) const {
  INTERLACE_CUDA_CHECK(cudaEventRecord(stops_[device], gpus_.streams()[device]));
}

double run_clock::until_s(std::uint32_t device, cudaEvent_t event) const {
  return elapsed_s(starts_[device], event);
}

double run_clock::longest_s() const {
  double time_s = 0;
  for (std::uint32_t d = 0; d < gpus_.count(); ++d) {
    time_s = std::max(time_s, elapsed_s(starts_[d], stops_[d]));
  }
  return time_s;
}

}  // namespace interlace::cuda
