#include "bench/relay_cost.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>

#include "bench/copies.hpp"
#include "bench/sample_bytes.hpp"
#include "cuda/load_kernel.hpp"
#include "interlace/base/errors.hpp"
#include "interlace/cuda/check.hpp"
#include "interlace/cuda/memory/memory.hpp"

namespace interlace::bench {

namespace {

using steady = std::chrono::steady_clock;

constexpr unsigned streaming_threads = 512;
// number of blocks on each multiprocessor; they leave half of the multiprocessor's threads free
constexpr unsigned streaming_blocks = 2;
constexpr unsigned vectors_ahead = 8;  // number of loads that a thread has in flight
constexpr std::uint64_t slice_vectors = std::uint64_t{streaming_threads} * vectors_ahead;
// The size of the memory that is copied. It is much larger than any L2 cache.
constexpr std::uint64_t streamed_bytes = std::uint64_t{512} << 20U;
constexpr std::uint64_t kernel_deadline_ns = 20'000'000'000;

// Copies memory again and again until it is told to stop. Counts the bytes that it has read and
// written.
__global__ void __launch_bounds__(streaming_threads)
    stream_memory(const uint4* from, uint4* to, std::uint64_t slices, const volatile unsigned* stop,
                  unsigned long long* moved) {
  __shared__ bool ends;
  std::uint64_t begin = 0;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  for (std::uint64_t slice = blockIdx.x;; slice += gridDim.x) {
    const std::uint64_t first = slice % slices * slice_vectors + threadIdx.x;
    uint4 read[vectors_ahead];
#pragma unroll
    for (unsigned k = 0; k < vectors_ahead; ++k) read[k] = from[first + k * streaming_threads];
#pragma unroll
    for (unsigned k = 0; k < vectors_ahead; ++k) to[first + k * streaming_threads] = read[k];
    __syncthreads();
    if (threadIdx.x == 0) {
      atomicAdd(moved, 2 * slice_vectors * sizeof(uint4));
      std::uint64_t now = 0;
      asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
      ends = *stop != 0 || now - begin > kernel_deadline_ns;
    }
    __syncthreads();
    if (ends) return;
  }
}

class relay_stream {
 public:
  explicit relay_stream(int gpu) {
    const cuda::current_device on(gpu);
    INTERLACE_CUDA_CHECK(cudaStreamCreateWithFlags(&made_, cudaStreamNonBlocking));
  }
  ~relay_stream() { INTERLACE_CUDA_LOG(cudaStreamDestroy(made_)); }
  relay_stream(const relay_stream&) = delete;
  relay_stream& operator=(const relay_stream&) = delete;
  relay_stream(relay_stream&&) = delete;
  relay_stream& operator=(relay_stream&&) = delete;
  cudaStream_t get() const { return made_; }
  void wait() const { INTERLACE_CUDA_CHECK(cudaStreamSynchronize(made_)); }
  bool idle() const {
    const cudaError_t result = cudaStreamQuery(made_);
    if (result == cudaErrorNotReady) return false;
    INTERLACE_CUDA_CHECK(result);
    return true;
  }

 private:
  cudaStream_t made_ = nullptr;
};

// Page-locked host memory. Copy engines can access it while a kernel runs. With pageable memory,
// small copies would need another kernel.
class locked_bytes {
 public:
  explicit locked_bytes(std::uint64_t bytes) {
    INTERLACE_CUDA_CHECK(cudaMallocHost(&data_, bytes));
  }
  ~locked_bytes() { INTERLACE_CUDA_LOG(cudaFreeHost(data_)); }
  locked_bytes(const locked_bytes&) = delete;
  locked_bytes& operator=(const locked_bytes&) = delete;
  locked_bytes(locked_bytes&&) = delete;
  locked_bytes& operator=(locked_bytes&&) = delete;
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  void* data_ = nullptr;
};

// A memory-bound kernel on a GPU.
class memory_load {
 public:
  explicit memory_load(int gpu)
      : gpu_(gpu), runs_(gpu), beside_(gpu), word_(sizeof(unsigned long long)) {
    const cuda::current_device on(gpu);
    from_ = static_cast<uint4*>(memory_.take(gpu, streamed_bytes));
    to_ = static_cast<uint4*>(memory_.take(gpu, streamed_bytes));
    moved_ = static_cast<unsigned long long*>(memory_.take(gpu, sizeof(*moved_)));
    stop_ = static_cast<unsigned*>(memory_.take(gpu, sizeof(*stop_)));
    cuda::load_kernel(stream_memory);
    int multiprocessors = 0;
    INTERLACE_CUDA_CHECK(
        cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, gpu));
    blocks_ = static_cast<unsigned>(multiprocessors) * streaming_blocks;
  }
  ~memory_load() {
    try {
      stop();
    } catch (const device_error&) {  // the deadline will end the kernel
      return;
    }
  }
  memory_load(const memory_load&) = delete;
  memory_load& operator=(const memory_load&) = delete;
  memory_load(memory_load&&) = delete;
  memory_load& operator=(memory_load&&) = delete;

  // Returns once the kernel runs.
  void start() {
    set(moved_, 0ULL);
    set(stop_, 0U);
    {
      const cuda::current_device on(gpu_);
      stream_memory<<<blocks_, streaming_threads, 0, runs_.get()>>>(
          from_, to_, streamed_bytes / sizeof(uint4) / slice_vectors, stop_, moved_);
      INTERLACE_CUDA_CHECK(cudaGetLastError());
    }
    while (moved() == 0)
      if (runs_.idle())
        throw device_error("the kernel that runs beside the copies ended too early");
  }
  void stop() {
    set(stop_, 1U);
    runs_.wait();
  }
  // The number of bytes that the kernel has moved so far, and the time at which this number was
  // read.
  std::pair<unsigned long long, steady::time_point> progress() {
    const unsigned long long bytes = moved();
    if (runs_.idle()) throw device_error("a kernel beside copies ran into its deadline");
    return {bytes, steady::now()};
  }

 private:
  template <class T>
  void set(T* to, T value) {
    *word_.as<T>() = value;
    INTERLACE_CUDA_CHECK(
        cudaMemcpyAsync(to, word_.as<T>(), sizeof(T), cudaMemcpyDefault, beside_.get()));
    beside_.wait();
  }
  unsigned long long moved() {
    auto* const seen = word_.as<unsigned long long>();
    INTERLACE_CUDA_CHECK(
        cudaMemcpyAsync(seen, moved_, sizeof(*seen), cudaMemcpyDefault, beside_.get()));
    beside_.wait();
    return *seen;
  }

  int gpu_;
  relay_stream runs_;
  relay_stream beside_;
  locked_bytes word_;
  cuda::device_memory memory_;
  uint4* from_ = nullptr;
  uint4* to_ = nullptr;
  unsigned long long* moved_ = nullptr;
  unsigned* stop_ = nullptr;
  unsigned blocks_ = 0;
};

// Messages from the host to a GPU, sent one after another.
class relayed_messages {
 public:
  explicit relayed_messages(const relay_cost_request& request)
      : to_(request.to),
        bytes_(request.bytes),
        by_(copier_of(request.method)),
        before_(over_paths()),
        stream_(request.to),
        source_(request.bytes) {
    target_ = static_cast<std::uint8_t*>(memory_.take(to_, bytes_));
    wrong_ = static_cast<unsigned long long*>(memory_.take(to_, sizeof(*wrong_)));
    load_sample_kernels(to_);
    for (std::uint32_t k = 0; k < std::max(1U, request.warmup); ++k) one();
  }
  void prepare(std::uint64_t seed) {
    fill_with_samples(to_, source_.as<std::uint8_t>(), bytes_, seed);
    fill_with_poison(to_, target_, bytes_);
  }
  std::uint64_t wrong(std::uint64_t seed) {
    return count_wrong_samples(to_, target_, bytes_, seed, wrong_);
  }
  // Sends messages until `window_s` seconds have passed, and at least one message. Returns the mean
  // time of a message, in seconds.
  double run(double window_s) {
    const auto begin = steady::now();
    std::uint64_t count = 0;
    do {
      one();
      ++count;
    } while (seconds_since(begin) < window_s);
    return seconds_since(begin) / static_cast<double>(count);
  }
  bool relayed() const { return over_paths() > before_; }

 private:
  std::uint64_t over_paths() const {
    const copy_statistics counted = by_.statistics();
    return counted.streams + counted.graphs;
  }
  void one() {
    const cuda::current_device on(to_);
    by_.copy_async(target_, source_.as<void>(), bytes_, stream_.get());
    stream_.wait();
  }

  int to_;
  std::uint64_t bytes_;
  copier& by_;
  std::uint64_t before_;  // number of messages over several paths before this run
  relay_stream stream_;
  locked_bytes source_;
  cuda::device_memory memory_;
  std::uint8_t* target_ = nullptr;
  unsigned long long* wrong_ = nullptr;
};

using loads = std::vector<std::unique_ptr<memory_load>>;

// Appends to `rates` the rate of each kernel while `work` runs.
template <class Work>
void rates_during(const loads& of, std::vector<std::vector<double>>& rates, const Work& work) {
  std::vector<std::pair<unsigned long long, steady::time_point>> before;
  for (const auto& one : of) before.push_back(one->progress());
  work();
  for (std::size_t at = 0; at < of.size(); ++at) {
    const auto [bytes, when] = of[at]->progress();
    const std::chrono::duration<double> elapsed = when - before[at].second;
    rates[at].push_back(static_cast<double>(bytes - before[at].first) / elapsed.count());
  }
}

}  // namespace

relay_cost measure_relay_cost(const relay_cost_request& request) {
  const bool itself = std::find(request.kernels.begin(), request.kernels.end(), request.to) !=
                      request.kernels.end();
  if (request.kernels.empty() || itself || request.bytes == 0 || request.repeats == 0)
    throw usage_error("the cost of relays needs bytes, repeats, and kernels on other GPUs");
  relayed_messages messages(request);
  loads kernels;
  for (const int gpu : request.kernels) kernels.push_back(std::make_unique<memory_load>(gpu));
  relay_cost found;
  found.alone_bytes_per_s.resize(kernels.size());
  found.beside_bytes_per_s.resize(kernels.size());
  for (std::uint32_t repeat = 0; repeat < request.repeats; ++repeat) {
    const bool verified = repeat == 0 || repeat + 1 == request.repeats;
    found.message_alone_s.push_back(messages.run(request.window_s));
    if (verified) messages.prepare(repeat + 1);
    for (const auto& one : kernels) one->start();
    const auto alone = [&] {
      rates_during(kernels, found.alone_bytes_per_s, [&] {
        std::this_thread::sleep_for(std::chrono::duration<double>(request.window_s));
      });
    };
    // In every second repeat, messages alone are measured first. In the other repeats, they are
    // measured last.
    if (repeat % 2 == 0) alone();
    rates_during(kernels, found.beside_bytes_per_s,
                 [&] { found.message_beside_s.push_back(messages.run(request.window_s)); });
    if (repeat % 2 == 1) alone();
    for (const auto& one : kernels) one->stop();
    if (verified) found.wrong += messages.wrong(repeat + 1);
  }
  found.relayed = messages.relayed();
  return found;
}

}  // namespace interlace::bench
