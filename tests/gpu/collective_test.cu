// Collectives on real GPUs, by every executor and in captured graphs. Every block must be in its
// place and every sum must be right. Collectives must keep the order of the caller's stream.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <type_traits>
#include <vector>

#include "delay.cuh"
#include "gpu.hpp"
#include "interlace/copy.hpp"
#include "interlace/cuda/check.hpp"
#include "random_at.hpp"

namespace interlace::collective_tests {
namespace {

constexpr std::uint64_t mebi = std::uint64_t{1} << 20U;

__global__ void hold(std::uint64_t delay_ns) { gpu_test::wait_ns(delay_ns); }

class page_locked {
 public:
  explicit page_locked(std::uint64_t bytes) : bytes_(bytes) {
    void* made = nullptr;
    INTERLACE_CUDA_CHECK(cudaMallocHost(&made, bytes));
    data = static_cast<std::uint8_t*>(made);
  }
  ~page_locked() { INTERLACE_CUDA_LOG(cudaFreeHost(data)); }
  page_locked(const page_locked&) = delete;
  page_locked& operator=(const page_locked&) = delete;
  std::uint8_t* data = nullptr;

  void fill(std::uint64_t seed) const {
    for (std::uint64_t at = 0; at < bytes_; ++at)
      data[at] = static_cast<std::uint8_t>(gpu_test::random_at(seed, at / 8) >> (at % 8 * 8));
  }

 private:
  std::uint64_t bytes_;
};

// One participant on each GPU. Each participant has the data that it sends and receives, on its GPU
// and in host memory.
class participants {
 public:
  participants(int gpus, std::uint64_t block)
      : block_(block), all_(block * static_cast<std::uint64_t>(gpus)) {
    for (int gpu = 0; gpu < gpus; ++gpu) {
      const cuda::current_device on(gpu);
      void* memory = nullptr;
      INTERLACE_CUDA_CHECK(cudaMalloc(&memory, all_));
      send_.push_back(memory);
      INTERLACE_CUDA_CHECK(cudaMalloc(&memory, all_));
      receive_.push_back(memory);
      sent_.push_back(std::make_unique<page_locked>(all_));
      received_.push_back(std::make_unique<page_locked>(all_));
    }
  }
  ~participants() {
    for (const auto* pointers : {&send_, &receive_})
      for (void* one : *pointers) INTERLACE_CUDA_LOG(cudaFree(one));
  }
  participants(const participants&) = delete;
  participants& operator=(const participants&) = delete;

  void fill(std::uint64_t seed) const {
    for (std::size_t gpu = 0; gpu < send_.size(); ++gpu) {
      sent_[gpu]->fill(seed + gpu);
      std::memset(received_[gpu]->data, 0xA5, all_);
    }
  }
  // Enqueues a delayed write of the sources, the collective, and a read of the destinations.
  void enqueue(copier& by, bool gather, cudaStream_t stream) const {
    hold<<<1, 1, 0, stream>>>(200'000);
    for (std::size_t gpu = 0; gpu < send_.size(); ++gpu) {
      copy(send_[gpu], sent_[gpu]->data, stream);
      copy(receive_[gpu], received_[gpu]->data, stream);
    }
    const std::vector<const void*> send(send_.begin(), send_.end());
    if (gather)
      by.all_gather_async(send, receive_, block_, stream);
    else
      by.all_to_all_async(send, receive_, block_, stream);
    for (std::size_t gpu = 0; gpu < send_.size(); ++gpu)
      copy(received_[gpu]->data, receive_[gpu], stream);
  }
  std::uint64_t wrong_blocks(bool gather) const {
    std::uint64_t wrong = 0;
    for (std::size_t to = 0; to < send_.size(); ++to)
      for (std::size_t from = 0; from < send_.size(); ++from) {
        const std::uint8_t* wanted = sent_[from]->data + (gather ? 0 : to * block_);
        wrong += std::memcmp(received_[to]->data + from * block_, wanted, block_) == 0 ? 0 : 1;
      }
    return wrong;
  }

 private:
  void copy(void* to, const void* from, cudaStream_t stream) const {
    INTERLACE_CUDA_CHECK(cudaMemcpyAsync(to, from, all_, cudaMemcpyDefault, stream));
  }

  std::uint64_t block_;
  std::uint64_t all_;
  std::vector<void*> send_;
  std::vector<void*> receive_;
  std::vector<std::unique_ptr<page_locked>> sent_;
  std::vector<std::unique_ptr<page_locked>> received_;
};

copier copier_of(copy_executor executor) {
  copy_options options;
  options.executor = executor;
  options.threshold_bytes = 1;
  return copier(options);
}

class stream_of {
 public:
  explicit stream_of(int gpu) {
    const cuda::current_device on(gpu);
    INTERLACE_CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  }
  ~stream_of() { INTERLACE_CUDA_LOG(cudaStreamDestroy(stream)); }
  stream_of(const stream_of&) = delete;
  stream_of& operator=(const stream_of&) = delete;
  cudaStream_t stream = nullptr;
};

TEST(collective, every_block_arrives_in_stream_order_by_every_executor) {
  const auto count = static_cast<int>(gpu_test::gpus_here());
  INTERLACE_NEED_DISTINCT_GPUS(2);
  for (const copy_executor executor : {copy_executor::automatic, copy_executor::direct,
                                       copy_executor::streams, copy_executor::graphs}) {
    copier by = copier_of(executor);
    for (const int gpus : {2, count})
      for (const std::uint64_t block : {std::uint64_t{1}, 64 * 1024 + std::uint64_t{3}, 9 * mebi}) {
        const participants all(gpus, block);
        const stream_of own(gpus - 1);
        const cuda::current_device on(gpus - 1);
        for (std::uint64_t turn = 0; turn < 3; ++turn)
          for (const bool gather : {false, true}) {
            all.fill(turn * 100 + block);
            all.enqueue(by, gather, own.stream);
            INTERLACE_CUDA_CHECK(cudaStreamSynchronize(own.stream));
            EXPECT_EQ(all.wrong_blocks(gather), 0U) << gpus << " GPUs, " << block << " bytes";
          }
      }
    const copy_statistics counted = by.statistics();
    EXPECT_EQ(counted.streams + counted.graphs > 0, executor != copy_executor::direct);
  }
}

TEST(collective, captured_collectives_run_in_the_callers_graph_again_and_again) {
  const auto gpus = static_cast<int>(gpu_test::gpus_here());
  INTERLACE_NEED_DISTINCT_GPUS(2);
  for (const bool gather : {false, true}) {
    copier by = copier_of(copy_executor::automatic);
    by.prepare();
    const participants all(gpus, 5 * mebi + 7);
    const stream_of own(0);
    const cuda::current_device on(0);
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    INTERLACE_CUDA_CHECK(cudaStreamBeginCapture(own.stream, cudaStreamCaptureModeGlobal));
    all.enqueue(by, gather, own.stream);
    INTERLACE_CUDA_CHECK(cudaStreamEndCapture(own.stream, &graph));
    EXPECT_EQ(by.statistics().captured, 1U);
    INTERLACE_CUDA_CHECK(cudaGraphInstantiate(&executable, graph, 0));
    INTERLACE_CUDA_CHECK(cudaGraphDestroy(graph));
    for (std::uint64_t launch = 1; launch <= 3; ++launch) {
      all.fill(launch * 1000);
      INTERLACE_CUDA_CHECK(cudaGraphLaunch(executable, own.stream));
      INTERLACE_CUDA_CHECK(cudaStreamSynchronize(own.stream));
      EXPECT_EQ(all.wrong_blocks(gather), 0U);
    }
    INTERLACE_CUDA_CHECK(cudaGraphExecDestroy(executable));
  }
}

// A type of elements, and the type with which the host combines them.
template <class T>
struct element {
  using as = std::conditional_t<std::is_integral_v<T>, T, double>;
  static constexpr bool exact = std::is_integral_v<T>;
  static T random(std::uint64_t seed, std::uint64_t at) {
    const std::uint64_t bits = gpu_test::random_at(seed, at);
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(bits);
    else
      return static_cast<T>(static_cast<double>(bits >> 11U) * 0x1p-52 - 1.0);
  }
  static as value(T one) { return one; }
};
// The 16-bit numbers are small multiples of a quarter, so that all sums of up to 16 numbers are
// exact.
template <class T>
struct short_element {
  using as = double;
  static constexpr bool exact = true;
  static T random(std::uint64_t seed, std::uint64_t at) {
    return T(static_cast<float>(gpu_test::random_at(seed, at) % 32) / 4.0F - 4.0F);
  }
  static as value(T one) { return static_cast<float>(one); }
};
template <>
struct element<__half> : short_element<__half> {};
template <>
struct element<__nv_bfloat16> : short_element<__nv_bfloat16> {};

template <class As>
As combine(reduce_by by, As a, As b) {
  if (by == reduce_by::min) return std::min(a, b);
  if (by == reduce_by::max) return std::max(a, b);
  if constexpr (std::is_integral_v<As>) {
    using bits = std::make_unsigned_t<As>;
    return static_cast<As>(static_cast<bits>(a) + static_cast<bits>(b));
  } else {
    return a + b;
  }
}

// One participant on each GPU. Each participant has its summands and its results, on its GPU and in
// host memory.
template <class T>
class summands {
 public:
  summands(int gpus, std::uint64_t count, bool in_place) : count_(count) {
    for (int gpu = 0; gpu < gpus; ++gpu) {
      const cuda::current_device on(gpu);
      void* memory = nullptr;
      INTERLACE_CUDA_CHECK(cudaMalloc(&memory, bytes()));
      send_.push_back(memory);
      if (!in_place) INTERLACE_CUDA_CHECK(cudaMalloc(&memory, bytes()));
      receive_.push_back(memory);
      sent_.push_back(std::make_unique<page_locked>(bytes()));
      received_.push_back(std::make_unique<page_locked>(bytes()));
    }
  }
  ~summands() {
    for (std::size_t at = 0; at < send_.size(); ++at) {
      INTERLACE_CUDA_LOG(cudaFree(send_[at]));
      if (receive_[at] != send_[at]) INTERLACE_CUDA_LOG(cudaFree(receive_[at]));
    }
  }
  summands(const summands&) = delete;
  summands& operator=(const summands&) = delete;

  void fill(std::uint64_t seed) const {
    for (std::size_t gpu = 0; gpu < send_.size(); ++gpu) {
      for (std::uint64_t at = 0; at < count_; ++at)
        sent(gpu)[at] = element<T>::random(seed + gpu, at);
      std::memset(received_[gpu]->data, 0xA5, bytes());
    }
  }
  // Enqueues a delayed write of the summands, the all-reduce, and a read of the results. If these
  // run in another order, the results are wrong.
  void enqueue(copier& with, reduced_type type, reduce_by by, cudaStream_t stream) const {
    hold<<<1, 1, 0, stream>>>(200'000);
    for (std::size_t gpu = 0; gpu < send_.size(); ++gpu) {
      copy(receive_[gpu], received_[gpu]->data, stream);
      copy(send_[gpu], sent_[gpu]->data, stream);
    }
    const std::vector<const void*> send(send_.begin(), send_.end());
    with.all_reduce_async(send, receive_, count_, type, by, stream);
    for (std::size_t gpu = 0; gpu < send_.size(); ++gpu)
      copy(received_[gpu]->data, receive_[gpu], stream);
  }
  // Returns the number of elements that differ from the host's results. The host computes in double
  // precision unless the elements are integers.
  std::uint64_t wrong(reduce_by by) const {
    using as = typename element<T>::as;
    std::uint64_t wrong = 0;
    for (std::uint64_t at = 0; at < count_; ++at) {
      as all = element<T>::value(sent(0)[at]);
      double magnitude = std::fabs(static_cast<double>(all));
      for (std::size_t gpu = 1; gpu < send_.size(); ++gpu) {
        const as one = element<T>::value(sent(gpu)[at]);
        magnitude += std::fabs(static_cast<double>(one));
        all = combine(by, all, one);
      }
      const T found = reinterpret_cast<const T*>(received_[0]->data)[at];
      if constexpr (element<T>::exact) {
        wrong += element<T>::value(found) == all ? 0 : 1;
      } else {
        const double most = by == reduce_by::sum ? static_cast<double>(send_.size()) * magnitude *
                                                       std::numeric_limits<T>::epsilon()
                                                 : 0;
        wrong += std::fabs(found - all) <= most ? 0 : 1;
      }
    }
    return wrong;
  }
  bool same_everywhere() const {
    return std::all_of(received_.begin(), received_.end(), [&](const auto& one) {
      return std::memcmp(one->data, received_[0]->data, bytes()) == 0;
    });
  }

 private:
  std::uint64_t bytes() const { return count_ * sizeof(T); }
  T* sent(std::size_t gpu) const { return reinterpret_cast<T*>(sent_[gpu]->data); }
  void copy(void* to, const void* from, cudaStream_t stream) const {
    INTERLACE_CUDA_CHECK(cudaMemcpyAsync(to, from, bytes(), cudaMemcpyDefault, stream));
  }

  std::uint64_t count_;
  std::vector<void*> send_;
  std::vector<void*> receive_;  // the send buffers, if the results replace the summands
  std::vector<std::unique_ptr<page_locked>> sent_;
  std::vector<std::unique_ptr<page_locked>> received_;
};

template <class T>
void expect_reduced(copier& by, int gpus, reduced_type type) {
  for (const std::uint64_t count : {std::uint64_t{1}, std::uint64_t{4'097}, std::uint64_t{700'003}})
    for (const reduce_by how : {reduce_by::sum, reduce_by::min, reduce_by::max}) {
      const summands<T> all(gpus, count, how == reduce_by::min);
      const stream_of own(gpus - 1);
      const cuda::current_device on(gpus - 1);
      all.fill(count);
      all.enqueue(by, type, how, own.stream);
      INTERLACE_CUDA_CHECK(cudaStreamSynchronize(own.stream));
      EXPECT_EQ(all.wrong(how), 0U) << gpus << " GPUs, " << count << " elements";
      EXPECT_TRUE(all.same_everywhere());
    }
}

TEST(collective, all_reduces_of_every_type_are_right_and_the_same_on_all_gpus) {
  const auto count = static_cast<int>(gpu_test::gpus_here());
  INTERLACE_NEED_DISTINCT_GPUS(2);
  copier by = copier_of(copy_executor::automatic);
  for (const int gpus : {2, count}) {
    expect_reduced<float>(by, gpus, reduced_type::float32);
    expect_reduced<double>(by, gpus, reduced_type::float64);
    expect_reduced<__half>(by, gpus, reduced_type::float16);
    expect_reduced<__nv_bfloat16>(by, gpus, reduced_type::bfloat16);
    expect_reduced<std::int32_t>(by, gpus, reduced_type::int32);
    expect_reduced<std::int64_t>(by, gpus, reduced_type::int64);
  }
}

TEST(collective, an_all_reduce_goes_in_pieces_in_stream_order_by_every_executor) {
  const auto gpus = static_cast<int>(gpu_test::gpus_here());
  INTERLACE_NEED_DISTINCT_GPUS(2);
  for (const copy_executor executor : {copy_executor::automatic, copy_executor::direct,
                                       copy_executor::streams, copy_executor::graphs}) {
    copy_options options;
    options.executor = executor;
    options.threshold_bytes = 1;
    options.staging_bytes = 4 * mebi;
    copier by(options);
    for (const bool in_place : {false, true}) {
      const summands<float> all(gpus, 5 * mebi + 3, in_place);
      const stream_of own(0);
      const cuda::current_device on(0);
      for (std::uint64_t turn = 0; turn < 2; ++turn) {
        all.fill(turn * 100);
        all.enqueue(by, reduced_type::float32, reduce_by::sum, own.stream);
        INTERLACE_CUDA_CHECK(cudaStreamSynchronize(own.stream));
        EXPECT_EQ(all.wrong(reduce_by::sum), 0U);
        EXPECT_TRUE(all.same_everywhere());
      }
    }
    EXPECT_LE(by.statistics().staging_bytes, (gpus + 1U) * 4 * mebi);
  }
}

TEST(collective, a_captured_all_reduce_runs_in_the_callers_graph_again_and_again) {
  const auto gpus = static_cast<int>(gpu_test::gpus_here());
  INTERLACE_NEED_DISTINCT_GPUS(2);
  for (const bool in_pieces : {false, true}) {
    copy_options options;
    options.threshold_bytes = 1;
    if (in_pieces) options.staging_bytes = 2 * mebi;
    copier by(options);
    by.prepare();
    const summands<float> all(gpus, mebi + 5, false);
    const stream_of own(0);
    const cuda::current_device on(0);
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    INTERLACE_CUDA_CHECK(cudaStreamBeginCapture(own.stream, cudaStreamCaptureModeGlobal));
    all.enqueue(by, reduced_type::float32, reduce_by::sum, own.stream);
    INTERLACE_CUDA_CHECK(cudaStreamEndCapture(own.stream, &graph));
    EXPECT_GE(by.statistics().captured, 2U);
    INTERLACE_CUDA_CHECK(cudaGraphInstantiate(&executable, graph, 0));
    INTERLACE_CUDA_CHECK(cudaGraphDestroy(graph));
    for (std::uint64_t launch = 1; launch <= 3; ++launch) {
      all.fill(launch * 1000);
      INTERLACE_CUDA_CHECK(cudaGraphLaunch(executable, own.stream));
      INTERLACE_CUDA_CHECK(cudaStreamSynchronize(own.stream));
      EXPECT_EQ(all.wrong(reduce_by::sum), 0U);
      EXPECT_TRUE(all.same_everywhere());
    }
    INTERLACE_CUDA_CHECK(cudaGraphExecDestroy(executable));
  }
}

}  // namespace
}  // namespace interlace::collective_tests
