// All-gathers and all-to-alls on real GPUs: every block in its place, in the order of the caller's
// stream, by every executor and in captured graphs.
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "cuda/check.hpp"
#include "delay.cuh"
#include "gpu.hpp"
#include "interlace/copy.hpp"
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

// A participant on each GPU: what it sends, what it receives, and both in the host's memory.
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
  // The collective between what writes its sources, late, and what reads its destinations.
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
  if (count < 2) GTEST_SKIP() << "needs 2 GPUs";
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
  if (gpus < 2) GTEST_SKIP() << "needs 2 GPUs";
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

}  // namespace
}  // namespace interlace::collective_tests
