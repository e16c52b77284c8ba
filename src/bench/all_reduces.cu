#include "bench/all_reduces.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <memory>
#include <mutex>
#include <numeric>
#include <thread>

#include "bench/sample_bytes.hpp"
#include "bench/take_turns.hpp"
#include "cuda/library.hpp"
#include "cuda/transfer/nccl_library.hpp"
#include "interlace/base/errors.hpp"
#include "interlace/cuda/memory/memory.hpp"

namespace interlace::bench {

namespace {

constexpr std::uint64_t piece_numbers = std::uint64_t{1} << 20U;

// The number that a GPU adds at position `at`. It has 24 random bits and lies in [-1, 1), so
// float32 represents it exactly.
float number_of(std::uint32_t gpu, std::uint64_t at) {
  std::uint64_t bits = (at * 64 + gpu + 1) * 0x9E3779B97F4A7C15U;
  bits = (bits ^ bits >> 30U) * 0xBF58476D1CE4E5B9U;
  bits = (bits ^ bits >> 27U) * 0x94D049BB133111EBU;
  return static_cast<float>(bits >> 40U) * 0x1p-23F - 1.0F;
}

// Calls `work(begin, count)` for pieces that together cover all numbers, in several threads of the
// host.
template <class Work>
void over_pieces(std::uint64_t numbers, const Work& work) {
  std::atomic<std::uint64_t> next{0};
  std::mutex mutex;
  std::exception_ptr failure;
  const auto serve = [&] {
    try {
      for (std::uint64_t begin = next.fetch_add(piece_numbers); begin < numbers;
           begin = next.fetch_add(piece_numbers))
        work(begin, std::min(piece_numbers, numbers - begin));
    } catch (...) {
      const std::lock_guard lock(mutex);
      failure = std::current_exception();
      next = numbers;
    }
  };
  std::vector<std::thread> threads;
  for (unsigned k = 0; k < std::clamp(std::thread::hardware_concurrency(), 1U, 16U); ++k)
    threads.emplace_back(serve);
  for (std::thread& one : threads) one.join();
  if (failure) std::rethrow_exception(failure);
}

// The numbers that each GPU sends, and the sums that it receives.
class summands {
 public:
  explicit summands(const collective_request& request)
      : gpus_(request.gpus), bytes_(request.gpus * request.bytes) {
    for (std::uint32_t gpu = 0; gpu < gpus_; ++gpu) {
      const auto number = static_cast<int>(gpu);
      send_.push_back(static_cast<float*>(memory_.take(number, bytes_)));
      receive_.push_back(static_cast<float*>(memory_.take(number, bytes_)));
      load_sample_kernels(number);
    }
    over_pieces(count(), [&](std::uint64_t begin, std::uint64_t numbers) {
      std::vector<float> made(numbers);
      for (std::uint32_t gpu = 0; gpu < gpus_; ++gpu) {
        for (std::uint64_t k = 0; k < numbers; ++k) made[k] = number_of(gpu, begin + k);
        INTERLACE_CUDA_CHECK(cudaMemcpy(send_[gpu] + begin, made.data(), numbers * sizeof(float),
                                        cudaMemcpyDefault));
      }
    });
  }

  std::uint64_t count() const { return bytes_ / sizeof(float); }
  std::vector<const void*> send() const { return {send_.begin(), send_.end()}; }
  std::vector<void*> receive() const { return {receive_.begin(), receive_.end()}; }

  void prepare() const {
    for (std::uint32_t gpu = 0; gpu < gpus_; ++gpu)
      fill_with_poison(static_cast<int>(gpu), reinterpret_cast<std::uint8_t*>(receive_[gpu]),
                       bytes_);
  }
  // Counts wrong sums. The error of a float32 sum of n numbers, in any order, is at most n
  // roundings of the sum of the numbers' magnitudes.
  std::uint64_t wrong() const {
    std::atomic<std::uint64_t> wrong{0};
    over_pieces(count(), [&](std::uint64_t begin, std::uint64_t numbers) {
      std::vector<double> sum(numbers, 0);
      std::vector<double> magnitude(numbers, 0);
      for (std::uint32_t gpu = 0; gpu < gpus_; ++gpu)
        for (std::uint64_t k = 0; k < numbers; ++k) {
          const double one = number_of(gpu, begin + k);
          sum[k] += one;
          magnitude[k] += std::fabs(one);
        }
      std::vector<float> found(numbers);
      std::uint64_t own = 0;
      for (std::uint32_t gpu = 0; gpu < gpus_; ++gpu) {
        INTERLACE_CUDA_CHECK(cudaMemcpy(found.data(), receive_[gpu] + begin,
                                        numbers * sizeof(float), cudaMemcpyDefault));
        for (std::uint64_t k = 0; k < numbers; ++k) {
          const double most = gpus_ * 0x1p-24 * magnitude[k];
          // The comparison is negated so that NaN counts as wrong, too.
          if (!(std::fabs(static_cast<double>(found[k]) - sum[k]) <= most)) ++own;
        }
      }
      wrong += own * sizeof(float);
    });
    return wrong;
  }

 private:
  std::uint32_t gpus_;
  std::uint64_t bytes_;
  cuda::device_memory memory_;
  std::vector<float*> send_;
  std::vector<float*> receive_;
};

class planned_sums : public timed_method {
 public:
  planned_sums(const summands& on, const std::string& by)
      : by_(copier_of(by)),
        send_(on.send()),
        receive_(on.receive()),
        count_(on.count()),
        stream_(add_stream(0)) {}
  void enqueue() override {
    by_.all_reduce_async(send_, receive_, count_, reduced_type::float32, reduce_by::sum, stream_);
  }

 private:
  copier& by_;
  std::vector<const void*> send_;
  std::vector<void*> receive_;
  std::uint64_t count_;
  cudaStream_t stream_;
};

class nccl_sums : public timed_method {
 public:
  nccl_sums(const summands& on, const std::vector<int>& gpus)
      : communicators_(communicators_of(gpus)),
        send_(on.send()),
        receive_(on.receive()),
        count_(on.count()) {
    for (const int gpu : gpus) add_stream(gpu);
  }
  void enqueue() override {
    communicators_.sum_float32(send_, receive_, count_, {streams().begin(), streams().end()});
  }

 private:
  const cuda::nccl_communicators& communicators_;
  std::vector<const void*> send_;
  std::vector<void*> receive_;
  std::uint64_t count_;
};

}  // namespace

std::vector<copy_times> measure_all_reduce(const collective_request& request) {
  if (request.bytes % sizeof(float) != 0)
    throw usage_error(
        "blocks of an all-reduce must have a multiple of 4 bytes: it adds float32 numbers");
  std::vector<int> gpus(request.gpus);
  std::iota(gpus.begin(), gpus.end(), 0);
  const summands memory(request);
  timed_methods by;
  for (const std::string& name : request.methods) {
    if (name == "memcpy") throw usage_error("a plain copy cannot make an all-reduce");
    if (name == "nccl")
      by.push_back(std::make_unique<nccl_sums>(memory, gpus));
    else
      by.push_back(std::make_unique<planned_sums>(memory, name));
  }
  return take_turns(
      request, by, [&](std::uint64_t) { memory.prepare(); },
      [&](std::uint64_t) { return memory.wrong(); });
}

}  // namespace interlace::bench
