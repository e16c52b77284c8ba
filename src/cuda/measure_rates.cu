#include "cuda/measure_rates.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "cuda/rate_kernels.cuh"
#include "interlace/base/errors.hpp"
#include "interlace/base/statistics.hpp"
#include "interlace/cuda/check.hpp"
#include "interlace/cuda/memory/memory.hpp"

namespace interlace::cuda {

namespace {

// The number of launches between two events. With several launches, the start of the first launch
// takes a small share of the time.
constexpr std::uint32_t launches = 4;
// The number of rounds in a launch, chosen so that a launch computes for at least a millisecond.
constexpr unsigned int rounds = 500;
constexpr unsigned int blocks_a_multiprocessor = 8;
// A launch reads and writes at least this many times the size of the L2. Data that is still in the
// L2 is therefore at most a few percent of the launch's data.
constexpr std::uint64_t least_caches = 16;

class rate_bench {
 public:
  explicit rate_bench(const rate_options& o) : options_(o) {
    if (o.repetitions == 0) throw usage_error("a rate needs at least one repetition");
    int multiprocessors = 0;
    int cache = 0;
    INTERLACE_CUDA_CHECK(
        cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, o.ordinal));
    INTERLACE_CUDA_CHECK(cudaDeviceGetAttribute(&cache, cudaDevAttrL2CacheSize, o.ordinal));
    blocks_ = static_cast<unsigned int>(multiprocessors) * blocks_a_multiprocessor;
    cache_bytes_ = static_cast<std::uint64_t>(cache);
    std::size_t free = 0;
    std::size_t total = 0;
    INTERLACE_CUDA_CHECK(cudaMemGetInfo(&free, &total));
    const std::uint64_t bytes = std::min<std::uint64_t>(o.bytes, free / 2);
    steps_ = bytes / rate::step_bytes;
    const std::uint64_t least = std::max(least_caches * cache_bytes_, blocks_ * rate::step_bytes);
    if (bytes < least) {
      throw device_error("measuring the rate of GPU " + std::to_string(o.ordinal) +
                         "'s memory needs " + std::to_string(least >> 20U) + " MiB, and only " +
                         std::to_string(bytes >> 20U) + " MiB can be used");
    }
    data_ = static_cast<uint4*>(memory_.take(o.ordinal, steps_ * rate::step_bytes));
    kept_ = memory_.take(o.ordinal, sizeof(double));
    INTERLACE_CUDA_CHECK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    INTERLACE_CUDA_CHECK(cudaEventCreate(&start_));
    INTERLACE_CUDA_CHECK(cudaEventCreate(&stop_));
  }
  ~rate_bench() {
    INTERLACE_CUDA_LOG(cudaStreamSynchronize(stream_));
    INTERLACE_CUDA_LOG(cudaEventDestroy(start_));
    INTERLACE_CUDA_LOG(cudaEventDestroy(stop_));
    INTERLACE_CUDA_LOG(cudaStreamDestroy(stream_));
  }
  rate_bench(const rate_bench&) = delete;
  rate_bench& operator=(const rate_bench&) = delete;
  rate_bench(rate_bench&&) = delete;
  rate_bench& operator=(rate_bench&&) = delete;

  device_rates measure() {
    device_rates found;
    found.cache_bytes = cache_bytes_;
    const auto bytes = static_cast<double>(steps_ * rate::step_bytes);
    // Tries both a few blocks that live long and many short blocks. Which of the two is faster
    // depends on the GPU.
    for (const std::uint64_t grid : {std::uint64_t{blocks_}, steps_}) {
      const auto blocks = static_cast<unsigned int>(std::min<std::uint64_t>(grid, 1U << 30U));
      const double written =
          median_s([&] { rate::write_all<<<blocks, rate::threads, 0, stream_>>>(data_, steps_); });
      const double read = median_s([&] {
        rate::read_all<<<blocks, rate::threads, 0, stream_>>>(
            const_cast<const uint4*>(data_), steps_, static_cast<unsigned int*>(kept_));
      });
      found.write_bytes_per_s = std::max(found.write_bytes_per_s, bytes / written);
      found.read_bytes_per_s = std::max(found.read_bytes_per_s, bytes / read);
    }
    found.fp32_per_s = operations_per_s<rate::multiply_add_f32>();
    found.fp64_per_s = operations_per_s<rate::multiply_add_f64>();
    found.integer_per_s =
        std::max({operations_per_s<rate::add_or_xor>(), operations_per_s<rate::multiply_add_u32>(),
                  operations_per_s<rate::any_u32>()});
    found.together_per_s = std::max({found.fp32_per_s, found.fp64_per_s, found.integer_per_s,
                                     operations_per_s<rate::f32_and_u32>()});
    return found;
  }

 private:
  // The time of one launch in seconds.
  template <class Launch>
  double median_s(const Launch& launch) {
    std::vector<double> times;
    for (std::uint32_t k = 0; k <= options_.repetitions; ++k) {
      INTERLACE_CUDA_CHECK(cudaEventRecord(start_, stream_));
      for (std::uint32_t n = 0; n < launches; ++n) {
        launch();
        INTERLACE_CUDA_CHECK(cudaGetLastError());
      }
      INTERLACE_CUDA_CHECK(cudaEventRecord(stop_, stream_));
      INTERLACE_CUDA_CHECK(cudaEventSynchronize(stop_));
      float ms = 0;
      INTERLACE_CUDA_CHECK(cudaEventElapsedTime(&ms, start_, stop_));
      if (k == 0) continue;  // the first repetition is the warm-up
      times.push_back(static_cast<double>(ms) * 1e-3 / launches);
    }
    const double seconds = median(std::move(times));
    if (!(seconds > 0)) throw device_error("a kernel that measures a rate took no time");
    return seconds;
  }

  template <class Mix>
  double operations_per_s() {
    using type = typename Mix::type;
    const double seconds = median_s([&] {
      rate::compute<Mix><<<blocks_, rate::threads, 0, stream_>>>(
          rounds, static_cast<type>(3), static_cast<type>(5), static_cast<type*>(kept_));
    });
    return static_cast<double>(blocks_) * rate::threads * rounds * rate::operations_a_round /
           seconds;
  }

  rate_options options_;
  unsigned int blocks_ = 0;
  std::uint64_t cache_bytes_ = 0;
  std::uint64_t steps_ = 0;
  device_memory memory_;
  uint4* data_ = nullptr;
  void* kept_ = nullptr;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t start_ = nullptr;
  cudaEvent_t stop_ = nullptr;
};

}  // namespace

device_rates measure_rates(const rate_options& o) {
  const current_device there(o.ordinal);
  return rate_bench(o).measure();
}

}  // namespace interlace::cuda
