// Measures several methods for one task on real GPUs. The methods take turns. Only CUDA sources
// include this file.
#pragma once

#include <cuda_runtime.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bench/copies.hpp"
#include "interlace/cuda/check.hpp"
#include "interlace/cuda/memory/memory.hpp"

namespace interlace::bench {

// A method that can be timed. It enqueues the whole task and then waits for the task's end.
class timed_method {
 public:
  timed_method() = default;
  virtual ~timed_method() {
    for (cudaStream_t one : streams_) INTERLACE_CUDA_LOG(cudaStreamDestroy(one));
  }
  timed_method(const timed_method&) = delete;
  timed_method& operator=(const timed_method&) = delete;
  timed_method(timed_method&&) = delete;
  timed_method& operator=(timed_method&&) = delete;
  virtual void enqueue() = 0;
  virtual void wait() const {
    for (cudaStream_t one : streams_) INTERLACE_CUDA_CHECK(cudaStreamSynchronize(one));
  }

 protected:
  cudaStream_t add_stream(int gpu) {
    const cuda::current_device on(gpu);
    cudaStream_t made = nullptr;
    INTERLACE_CUDA_CHECK(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking));
    streams_.push_back(made);
    return made;
  }
  const std::vector<cudaStream_t>& streams() const { return streams_; }

 private:
  std::vector<cudaStream_t> streams_;
};

using timed_methods = std::vector<std::unique_ptr<timed_method>>;

// Times the methods of a request. The request has the names of the methods in `by`, and the numbers
// `warmup` and `repeats`. In the first and the last repeat, `prepare(seed)` runs before each
// method, and `wrong(seed)` counts the wrong bytes after the method.
template <class Request, class Prepare, class Wrong>
std::vector<copy_times> take_turns(const Request& request, const timed_methods& by,
                                   const Prepare& prepare, const Wrong& wrong) {
  std::vector<copy_times> results;
  for (const std::string& name : request.methods)
    results.push_back({.method = name, .time_s = {}, .call_s = {}});
  std::uint64_t seed = 1;
  for (std::uint32_t repeat = 0; repeat < request.warmup + request.repeats; ++repeat) {
    const bool verified = repeat == 0 || repeat + 1 == request.warmup + request.repeats;
    for (std::size_t at = 0; at < results.size(); ++at) {
      seed += 1'000'003;
      if (verified) prepare(seed);
      const auto begin = std::chrono::steady_clock::now();
      by[at]->enqueue();
      const double call_s = seconds_since(begin);
      by[at]->wait();
      const double time_s = seconds_since(begin);
      if (verified) results[at].wrong += wrong(seed);
      if (repeat < request.warmup) continue;
      results[at].time_s.push_back(time_s);
      results[at].call_s.push_back(call_s);
    }
  }
  return results;
}

}  // namespace interlace::bench
