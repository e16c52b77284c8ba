// HPCC's RandomAccess on a GPU: its stream of updates, and a stopwatch.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "interlace/cuda/check.hpp"
#include "interlace/kernel.hpp"
#include "kernel/hpcc_stream.hpp"

namespace interlace::bench::random_access {

namespace hpcc = kernel::hpcc;
using word = std::uint64_t;

constexpr int gpu = 0;
constexpr unsigned threads = 256;
// `starts` has one entry for every 2^start_log2 = 1024 updates.
constexpr std::uint32_t start_log2 = 10;

// Decodes update i. The random number of update i is computed from starts[i >> 10] by i modulo 1024
// steps of the stream.
struct hpcc_codec {
  using value_type = word;
  word mask = 0;
  INTERLACE_HOST_DEVICE std::uint64_t element(word r) const { return r & mask; }
  INTERLACE_HOST_DEVICE word value(word r) const { return r; }
};

struct hpcc_updates {
  static constexpr std::uint32_t bytes = 0;
  const word* starts;
  struct walk {
    word r;
    __device__ __forceinline__ word get() const { return r; }
    __device__ __forceinline__ void advance() { r = hpcc::skip(r, 32); }
  };
  __device__ __forceinline__ walk begin(std::uint64_t i) const {
    const auto low = static_cast<std::uint32_t>(i) & ((1U << start_log2) - 1);
    return {hpcc::skip_some(starts[i >> start_log2], low)};
  }
};

static __global__ void __launch_bounds__(threads) make_starts(word* starts, std::uint64_t count) {
  const std::uint64_t stride = std::uint64_t{gridDim.x} * threads;
  for (std::uint64_t k = std::uint64_t{blockIdx.x} * threads + threadIdx.x; k < count; k += stride)
    starts[k] = hpcc::number((k << start_log2) + 1);
}

// Calls update(r) for the random numbers of `count` updates. Each warp takes 1024 consecutive
// updates, and each lane takes every 32nd of these updates.
template <class Update>
__device__ __forceinline__ void walk_updates(const word* starts, std::uint64_t count,
                                             const Update& update) {
  const std::uint64_t warps = std::uint64_t{gridDim.x} * (threads / 32);
  const std::uint32_t lane = threadIdx.x % 32;
  for (std::uint64_t w = (std::uint64_t{blockIdx.x} * threads + threadIdx.x) / 32;
       w << start_log2 < count; w += warps) {
    word r = hpcc::skip(starts[w], lane);
#pragma unroll 8
    for (std::uint64_t i = (w << start_log2) + lane; i < count && i >> start_log2 == w; i += 32) {
      update(r);
      r = hpcc::skip(r, 32);
    }
  }
}

class timer {
 public:
  timer() {
    INTERLACE_CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    INTERLACE_CUDA_CHECK(cudaEventCreate(&begin_));
    INTERLACE_CUDA_CHECK(cudaEventCreate(&end_));
  }
  ~timer() {
    INTERLACE_CUDA_LOG(cudaStreamSynchronize(stream));
    INTERLACE_CUDA_LOG(cudaEventDestroy(begin_));
    INTERLACE_CUDA_LOG(cudaEventDestroy(end_));
    INTERLACE_CUDA_LOG(cudaStreamDestroy(stream));
  }
  timer(const timer&) = delete;
  timer& operator=(const timer&) = delete;
  timer(timer&&) = delete;
  timer& operator=(timer&&) = delete;

  template <class Work>
  double operator()(const Work& work) {
    INTERLACE_CUDA_CHECK(cudaEventRecord(begin_, stream));
    work();
    INTERLACE_CUDA_CHECK(cudaEventRecord(end_, stream));
    INTERLACE_CUDA_CHECK(cudaEventSynchronize(end_));
    float ms = 0;
    INTERLACE_CUDA_CHECK(cudaEventElapsedTime(&ms, begin_, end_));
    return static_cast<double>(ms) * 1e-3;
  }
  cudaStream_t stream = nullptr;

 private:
  cudaEvent_t begin_ = nullptr;
  cudaEvent_t end_ = nullptr;
};

}  // namespace interlace::bench::random_access
