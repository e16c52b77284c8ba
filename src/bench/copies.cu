#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>

#include "base/cut_text.hpp"
#include "bench/copies.hpp"
#include "bench/sample_bytes.hpp"
#include "bench/take_turns.hpp"
#include "cuda/library.hpp"
#include "cuda/transfer/nccl_messages.hpp"
#include "interlace/base/errors.hpp"
#include "interlace/copy.hpp"
#include "interlace/cuda/check.hpp"
#include "interlace/cuda/memory/memory.hpp"
#include "plan/copy_settings.hpp"

namespace interlace::bench {

namespace {

// A message with its own memory and stream.
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
  cuda::nccl_message of_nccl() const {
    return {.from = from_, .to = to_, .source = source_, .target = target_, .bytes = bytes_};
  }

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

using channels = std::vector<std::unique_ptr<channel>>;

// Copies each message on its own stream. If `by` is not null, it makes the copies. Otherwise,
// CUDA's own copy function makes them.
class copies : public timed_method {
 public:
  copies(const channels& of, copier* by) : of_(of), by_(by) {}
  void enqueue() override {
    for (const auto& one : of_) one->enqueue(by_);
  }
  void wait() const override {
    for (const auto& one : of_) one->wait();
  }

 private:
  const channels& of_;
  copier* by_;
};

std::vector<cuda::nccl_message> nccl_messages_of(const channels& of) {
  std::vector<cuda::nccl_message> messages;
  for (const auto& one : of) messages.push_back(one->of_nccl());
  return messages;
}

// One group of NCCL calls, with a stream on each GPU.
class nccl_group : public timed_method {
 public:
  explicit nccl_group(const channels& of)
      : gpus_(cuda::nccl_messages::gpus_of(nccl_messages_of(of))),
        messages_(communicators_of(gpus_), nccl_messages_of(of)) {
    for (const int gpu : gpus_) add_stream(gpu);
  }
  void enqueue() override { messages_.enqueue({streams().begin(), streams().end()}); }

 private:
  std::vector<int> gpus_;
  cuda::nccl_messages messages_;
};

std::unique_ptr<timed_method> method_of(const std::string& method, const channels& of) {
  if (method == "nccl") return std::make_unique<nccl_group>(of);
  return std::make_unique<copies>(of, method == "memcpy" ? nullptr : &copier_of(method));
}

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
    for (const std::string_view word : words_of(method)) words.emplace_back(word);
  }
  found = std::make_unique<copier>(plan::read_copy_options(words));
  found->prepare();
  return *found;
}

const cuda::nccl_communicators& communicators_of(const std::vector<int>& gpus) {
  static std::mutex mutex;
  static auto& made =
      *new std::map<std::vector<int>, std::unique_ptr<const cuda::nccl_communicators>>();
  const std::lock_guard lock(mutex);
  auto& found = made[gpus];
  if (!found)
    found =
        std::make_unique<const cuda::nccl_communicators>(cuda::nccl_library::of_process(), gpus);
  return *found;
}

std::vector<copy_times> measure_copies(const copy_request& request) {
  if (request.messages.empty() || request.bytes == 0 || request.repeats == 0)
    throw usage_error("a measurement of copies needs messages, bytes and repeats");
  channels of;
  for (const auto& [from, to] : request.messages) {
    if (from < 0 && to < 0) throw usage_error("a copy inside the host has no path to measure");
    if (from >= 0 && to >= 0 && from != to) cuda::enable_peer_access({from, to});
    of.push_back(std::make_unique<channel>(from, to, request.bytes));
  }
  for (const auto& one : of) load_sample_kernels(one->gpu());
  const cuda::current_device restore(of.front()->gpu());
  timed_methods by;
  for (const std::string& method : request.methods) by.push_back(method_of(method, of));
  return take_turns(
      request, by,
      [&](std::uint64_t seed) {
        for (std::size_t at = 0; at < of.size(); ++at) of[at]->prepare(seed + at);
      },
      [&](std::uint64_t seed) {
        std::uint64_t wrong = 0;
        for (std::size_t at = 0; at < of.size(); ++at) wrong += of[at]->wrong(seed + at);
        return wrong;
      });
}

}  // namespace interlace::bench
