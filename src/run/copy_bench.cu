#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>

#include "base/errors.hpp"
#include "cuda/check.hpp"
#include "cuda/library.hpp"
#include "cuda/memory/memory.hpp"
#include "interlace/copy.hpp"
#include "plan/copy_settings.hpp"
#include "run/copy_bench.hpp"
#include "run/sample_bytes.hpp"

namespace interlace::run {

namespace {

// A message with memory and a stream of its own.
class channel {
 public:
  channel(int from, int to, std::uint64_t bytes)
      : from_(from), to_(to), gpu_(from < 0 ? to : from), bytes_(bytes) {
    const cuda::current_device on(gpu_);
    source_ = take(from);
    target_ = take(to);
    INTERLACE_CUDA_CHECK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    wrong_ = static_cast<unsigned long long*>(memory_.take(end_gpu(), sizeof(*wrong_)));
  }
  ~channel() {
    INTERLACE_CUDA_LOG(cudaStreamDestroy(stream_));
    for (void* one : pinned_) INTERLACE_CUDA_LOG(cudaFreeHost(one));
  }
  channel(const channel&) = delete;
  channel& operator=(const channel&) = delete;
  channel(channel&&) = delete;
  channel& operator=(channel&&) = delete;

  void prepare(std::uint64_t seed) {
    fill_with_samples(gpu_, source_, bytes_, seed);
    fill_with_poison(end_gpu(), target_, bytes_);
  }
  void enqueue(copier* by) {
    if (by == nullptr)
      INTERLACE_CUDA_CHECK(cudaMemcpyAsync(target_, source_, bytes_, cudaMemcpyDefault, stream_));
    else
      by->copy_async(target_, source_, bytes_, stream_);
  }
  void wait() const { INTERLACE_CUDA_CHECK(cudaStreamSynchronize(stream_)); }
  std::uint64_t wrong(std::uint64_t seed) {
    return count_wrong_samples(end_gpu(), target_, bytes_, seed, wrong_);
  }
  int gpu() const { return gpu_; }

 private:
  int end_gpu() const { return to_ < 0 ? from_ : to_; }
  std::uint8_t* take(int place) {
    if (place >= 0) return static_cast<std::uint8_t*>(memory_.take(place, bytes_));
    void* data = nullptr;
    INTERLACE_CUDA_CHECK(cudaMallocHost(&data, bytes_));
    pinned_.push_back(data);
    return static_cast<std::uint8_t*>(data);
  }

  int from_;
  int to_;
  int gpu_;
  std::uint64_t bytes_;
  cuda::device_memory memory_;
  std::vector<void*> pinned_;
  std::uint8_t* source_ = nullptr;
  std::uint8_t* target_ = nullptr;
  unsigned long long* wrong_ = nullptr;
  cudaStream_t stream_ = nullptr;
};

}  // namespace

copier& copier_of(const std::string& method) {
  static std::mutex mutex;
  static std::map<std::string, std::unique_ptr<copier>>& made =
      *new std::map<std::string, std::unique_ptr<copier>>();
  const std::lock_guard lock(mutex);
  auto& found = made[method];
  if (found) return *found;
  std::vector<std::string> words;
  if (method == "auto" || method == "streams" || method == "graphs") {
    words.push_back("INTERLACE_COPY=" + method);
  } else {
    std::istringstream settings(method);
    for (std::string word; settings >> word;) words.push_back(word);
  }
  found = std::make_unique<copier>(plan::read_copy_options(words));
  found->prepare();
  return *found;
}

std::vector<copy_times> measure_copies(const copy_request& request) {
  if (request.messages.empty() || request.bytes == 0 || request.repeats == 0)
    throw usage_error("a measurement of copies needs messages, bytes and repeats");
  std::vector<copy_times> results;
  std::vector<copier*> by;
  for (const std::string& method : request.methods) {
    by.push_back(method == "memcpy" ? nullptr : &copier_of(method));
    results.push_back({method, {}, {}, 0});
  }
  std::vector<std::unique_ptr<channel>> channels;
  for (const auto& [from, to] : request.messages) {
    if (from < 0 && to < 0) throw usage_error("a copy inside the host has no path to measure");
    if (from >= 0 && to >= 0 && from != to) cuda::enable_peer_access({from, to});
    channels.push_back(std::make_unique<channel>(from, to, request.bytes));
  }
  for (const auto& one : channels) load_sample_kernels(one->gpu());
  const cuda::current_device restore(channels.front()->gpu());
  std::uint64_t seed = 1;
  for (std::uint32_t repeat = 0; repeat < request.warmup + request.repeats; ++repeat) {
    const bool verified = repeat == 0 || repeat + 1 == request.warmup + request.repeats;
    for (std::size_t method = 0; method < results.size(); ++method) {
      seed += 1'000'003;
      if (verified)
        for (std::size_t at = 0; at < channels.size(); ++at) channels[at]->prepare(seed + at);
      const auto begin = std::chrono::steady_clock::now();
      for (const auto& one : channels) one->enqueue(by[method]);
      const double call_s = seconds_since(begin);
      for (const auto& one : channels) one->wait();
      const double time_s = seconds_since(begin);
      if (verified)
        for (std::size_t at = 0; at < channels.size(); ++at)
          results[method].wrong += channels[at]->wrong(seed + at);
      if (repeat < request.warmup) continue;
      results[method].time_s.push_back(time_s);
      results[method].call_s.push_back(call_s);
    }
  }
  return results;
}

}  // namespace interlace::run
