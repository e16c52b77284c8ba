#include "cuda/epoch/stopwatch.hpp"

#include <algorithm>

#include "cuda/epoch/event.hpp"
#include "interlace/cuda/check.hpp"

namespace interlace::cuda {

stopwatch::~stopwatch() {
  for (cudaEvent_t e : events_) INTERLACE_CUDA_LOG(cudaEventDestroy(e));
}

cudaEvent_t stopwatch::mark(cudaStream_t stream) {
  events_.push_back(make_event(true));
  INTERLACE_CUDA_CHECK(cudaEventRecord(events_.back(), stream));
  return events_.back();
}

std::vector<cudaEvent_t> stopwatch::mark_all() {
  std::vector<cudaEvent_t> marks;
  for (std::uint32_t d = 0; d < gpus_.count(); ++d) {
    INTERLACE_CUDA_CHECK(cudaSetDevice(gpus_.ordinal(d)));
    marks.push_back(mark(gpus_.streams()[d]));
  }
  return marks;
}

void stopwatch::span(std::uint32_t device, const char* track, std::string name, cudaEvent_t begin,
                     cudaEvent_t end) {
  if (!draws()) return;
  spans_.push_back(
      {.device = device, .track = track, .name = std::move(name), .begin = begin, .end = end});
}

void stopwatch::span_all(const char* track, const std::string& name,
                         const std::vector<cudaEvent_t>& begins,
                         const std::vector<cudaEvent_t>& ends) {
  for (std::uint32_t d = 0; d < gpus_.count(); ++d) span(d, track, name, begins[d], ends[d]);
}

void stopwatch::fill(kernel::run_result& result) const {
  for (const drawn& s : spans_) {
    result.timeline.push_back({.device = s.device,
                               .track = s.track,
                               .name = s.name,
                               .start_s = clock_.until_s(s.device, s.begin),
                               .end_s = clock_.until_s(s.device, s.end)});
  }
  double begun = 0;
  for (std::uint32_t epoch = 0; epoch < epoch_; ++epoch) {
    // The exposed time lasts from the end of the last device's computation to the end of the last
    // device's copies. A copy is not exposed while another device still computes.
    double computed = 0;
    double copied = 0;
    for (std::uint32_t d = 0; d < exposed_.size(); ++d) {
      if (epoch >= exposed_[d].size()) continue;
      computed = std::max(computed, clock_.until_s(d, exposed_[d][epoch].first));
      copied = std::max(copied, clock_.until_s(d, exposed_[d][epoch].second));
    }
    result.copy_s += std::max(0.0, copied - computed);
    result.epoch_s.push_back(std::max(0.0, copied - begun));
    begun = copied;
  }
}

}  // namespace interlace::cuda
