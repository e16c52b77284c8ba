// The kernels of scattered updates, and the memory of their bins. Programs use
// interlace/updates_device.cuh.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "interlace/base/errors.hpp"
#include "interlace/cuda/check.hpp"
#include "interlace/cuda/memory/memory.hpp"
#include "interlace/cuda/updates/bins.cuh"
#include "interlace/cuda/updates/combine.cuh"
#include "interlace/cuda/updates/record.cuh"
#include "interlace/cuda/updates/sizing.hpp"
#include "interlace/kernel.hpp"

namespace interlace::cuda::updates {

// Updates of a table in the GPU's memory.
template <class Codec, combine Op>
struct apply_to_table {
  static constexpr bool by_blocks = false;
  static __device__ constexpr std::uint32_t receivers() { return 0; }
  typename Codec::value_type* table;
  Codec codec;
  template <class Record>
  __device__ __forceinline__ std::uint64_t element(const Record& r) const {
    return codec.element(r);
  }
  template <class Record>
  __device__ __forceinline__ void now(const Record& r) const {
    combine_at<Op>(table + codec.element(r), codec.value(r));
  }
  __device__ __forceinline__ const void* table_bytes() const { return table; }
};

// Drops updates, to measure the time of everything else.
template <class Codec>
struct drop_updates {
  static constexpr bool by_blocks = false;
  static __device__ constexpr std::uint32_t receivers() { return 0; }
  Codec codec;
  template <class Record>
  __device__ __forceinline__ std::uint64_t element(const Record& r) const {
    return codec.element(r);
  }
  template <class Record>
  __device__ __forceinline__ void now(const Record&) const {}
  __device__ __forceinline__ const void* table_bytes() const { return nullptr; }
};

template <class Record>
__global__ void __launch_bounds__(plan_threads)
    plan_kernel(const bin_memory<Record> m, const plan_arguments a) {
  extern __shared__ std::uint32_t plan_shared[];
  plan_round<plan_threads>(m, a, plan_shared);
}

// Empties all bins.
template <class Record>
__global__ void __launch_bounds__(plan_threads)
    reset_kernel(const bin_memory<Record> m, std::uint32_t chunks) {
  const std::uint32_t stride = gridDim.x * plan_threads;
  for (std::uint32_t k = blockIdx.x * plan_threads + threadIdx.x; k < max(chunks, m.bins);
       k += stride) {
    if (k < chunks) m.free[k] = chunks - 1 - k;
    if (k < m.bins) m.cursor[k] = m.capacity[k] = m.owned[k] = m.before[k] = 0;
    if (k == 0) {
      m.counts[0] = chunks;
      m.counts[1] = 0;
    }
  }
}

template <class Shape, class Record, class Producer, class Apply>
__global__ void __launch_bounds__(Shape::threads, Shape::blocks)
    round_kernel(const bin_memory<Record> m, const round_arguments a, const Producer producer,
                 const Apply apply) {
  extern __shared__ __align__(16) unsigned char round_memory[];
  run_round<Shape>(m, a, producer, apply, round_memory);
}

inline constexpr int plain_threads = 256;
inline constexpr int plain_each = 8;

// Applies each of the updates [0, count) by one atomic.
template <class Producer, class Apply>
__global__ void __launch_bounds__(plain_threads)
    plain_kernel(std::uint64_t count, std::uint64_t elements, bad_update* bad,
                 const Producer producer, const Apply apply) {
  constexpr std::uint64_t run = 32 * plain_each;
  const std::uint64_t warps = std::uint64_t{gridDim.x} * (plain_threads / 32);
  std::uint64_t w = (std::uint64_t{blockIdx.x} * plain_threads + threadIdx.x) / 32;
  for (; w * run < count; w += warps) {
    std::uint64_t i = w * run + threadIdx.x % 32;
    if (i >= count) continue;
    auto updates = producer.begin(i);
#pragma unroll
    for (int u = 0; u < plain_each; ++u, i += 32) {
      if (i >= count) break;
      const auto one = updates.get();
      if (apply.element(one) < elements)
        apply.now(one);
      else
        note_bad(bad, apply.element(one));
      if (u + 1 < plain_each) updates.advance();
    }
  }
}

using usual_shape = round_shape<512, 8, 2>;

// Bins in the memory of the current device, and launches of their kernels. One object serves one
// stream at a time.
template <class Record, class Shape>
class update_bins {
 public:
  // The codec's values have `value_bytes` bytes.
  update_bins(sizing_request request, fetch_by fetch, std::uint64_t fetched_ahead)
      : elements_(request.elements),
        value_bytes_(request.value_bytes),
        fetched_ahead_(fetched_ahead) {
    INTERLACE_CUDA_CHECK(cudaGetDevice(&device_));
    int shared = 0;
    INTERLACE_CUDA_CHECK(
        cudaDeviceGetAttribute(&multiprocessors_, cudaDevAttrMultiProcessorCount, device_));
    INTERLACE_CUDA_CHECK(
        cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, device_));
    most_shared_ = static_cast<std::uint64_t>(shared);
    request.record_bytes = sizeof(Record);
    request.tile_records = Shape::tile;
    sizes_ = size_bins(request);
    auto* words = static_cast<unsigned char*>(memory_.take(device_, bytes_in_all));
    bins_.direct = reinterpret_cast<unsigned long long*>(words);
    bins_.counts = reinterpret_cast<std::uint32_t*>(words + 8);
    bins_.bad = reinterpret_cast<bad_update*>(words + 16);
    bins_.elements = elements_;
    bins_.fetch = fetch;
    INTERLACE_CUDA_CHECK(cudaMemset(words, 0, bytes_in_all));
    if (!sizes_.plain) {
      take(bins_.pool, sizes_.pool_records());
      take(bins_.cursor, std::uint64_t{4} * sizes_.bins);
      bins_.capacity = bins_.cursor + sizes_.bins;
      bins_.owned = bins_.capacity + sizes_.bins;
      bins_.before = bins_.owned + sizes_.bins;
      take(bins_.lists, std::uint64_t{sizes_.bins} * sizes_.list_entries);
      take(bins_.free, sizes_.chunks);
      take(bins_.due, sizes_.chunks);
      bins_.bins = sizes_.bins;
      bins_.window_log2 = sizes_.window_log2;
      bins_.chunk_log2 = sizes_.chunk_log2;
      bins_.list_entries = sizes_.list_entries;
    }
    INTERLACE_CUDA_CHECK(cudaDeviceSynchronize());  // cudaMemset may return before it has finished
  }

  const sizing& sizes() const { return sizes_; }
  int device() const { return device_; }
  std::uint32_t first_bin(std::uint32_t group) const {
    return static_cast<std::uint32_t>(std::uint64_t{sizes_.bins} * group / sizes_.groups);
  }

  // Empties all bins. Their updates are lost.
  void reset(cudaStream_t stream) {
    reset_kernel<<<static_cast<unsigned>(multiprocessors_), plan_threads, 0, stream>>>(
        bins_, sizes_.chunks);
    INTERLACE_CUDA_CHECK(cudaGetLastError());
  }

  // Plans the next round: it will empty the bins [begin, end).
  void plan(std::uint32_t begin, std::uint32_t end, bool first, bool last, cudaStream_t stream) {
    const std::uint64_t window = std::uint64_t{value_bytes_} << sizes_.window_log2;
    plan_arguments a{};
    a.begin = begin;
    a.end = end;
    a.expected = first ? static_cast<std::uint32_t>(sizes_.expected) : 0;
    a.last = last;
    if (bins_.fetch != fetch_by::nothing && window % 128 == 0) {
      a.ahead = static_cast<std::uint32_t>((fetched_ahead_ + window - 1) / window);
      a.lines = static_cast<std::uint32_t>(window / 128);
      a.table_lines = static_cast<std::uint32_t>(elements_ * value_bytes_ / 128);
    }
    const std::uint32_t shared = (sizes_.bins + 33) * 4;
    plan_kernel<<<1, plan_threads, shared, stream>>>(bins_, a);
    INTERLACE_CUDA_CHECK(cudaGetLastError());
  }

  // A round: appends the producer's updates [begin, end), and applies the chunks that the plan made
  // due.
  template <class Producer, class Apply>
  void round(const Producer& producer, std::uint64_t begin, std::uint64_t end, const Apply& apply,
             cudaStream_t stream) {
    auto* const kernel = &round_kernel<Shape, Record, Producer, Apply>;
    const std::uint64_t shared = round_shared_bytes<Record>(sizes_.bins, Shape::tile);
    if (prepared_ != reinterpret_cast<const void*>(kernel)) {
      if (shared > most_shared_)
        throw usage_error(std::to_string(sizes_.bins) + " bins need " + std::to_string(shared) +
                          " bytes of a thread block's shared memory, and the GPU has " +
                          std::to_string(most_shared_) + "; take larger windows");
      INTERLACE_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                static_cast<int>(shared)));
      int blocks = 0;
      INTERLACE_CUDA_CHECK(
          cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, Shape::threads, shared));
      grid_ = static_cast<unsigned>(blocks * multiprocessors_);
      prepared_ = reinterpret_cast<const void*>(kernel);
    }
    kernel<<<grid_, Shape::threads, shared, stream>>>(bins_, round_arguments{begin, end}, producer,
                                                      apply);
    INTERLACE_CUDA_CHECK(cudaGetLastError());
  }

  // Runs all rounds for the updates [0, count). The bins must be empty at the start. The updates
  // that the last rounds appended remain in the bins.
  template <class Producer, class Apply>
  void append_all(const Producer& producer, std::uint64_t count, const Apply& apply,
                  cudaStream_t stream) {
    reset(stream);
    std::uint32_t due = 0;
    for (std::uint64_t begin = 0; begin < count; begin += sizes_.round_records) {
      if (begin == 0)
        plan(0, 0, true, false, stream);
      else
        plan(first_bin(due), first_bin(due + 1), false, false, stream);
      round(producer, begin, std::min(count, begin + sizes_.round_records), apply, stream);
      due = (due + 1) % sizes_.groups;
    }
  }

  // Plain atomics for the updates [0, count).
  template <class Producer, class Apply>
  void plain(const Producer& producer, std::uint64_t count, const Apply& apply,
             cudaStream_t stream) {
    const std::uint64_t a_block = std::uint64_t{plain_threads} * plain_each;
    const auto blocks = static_cast<unsigned>(std::min<std::uint64_t>(
        (count + a_block - 1) / a_block, static_cast<unsigned>(multiprocessors_) * 8U));
    plain_kernel<<<blocks, plain_threads, 0, stream>>>(count, elements_, bins_.bad, producer,
                                                       apply);
    INTERLACE_CUDA_CHECK(cudaGetLastError());
  }

  // Waits for the stream. Returns the numbers of updates without room and of bad updates, and
  // resets both numbers.
  std::pair<std::uint64_t, bad_update> take_counts(cudaStream_t stream) {
    unsigned long long direct = 0;
    bad_update bad{};
    INTERLACE_CUDA_CHECK(cudaStreamSynchronize(stream));
    INTERLACE_CUDA_CHECK(cudaMemcpy(&direct, bins_.direct, sizeof(direct), cudaMemcpyDefault));
    INTERLACE_CUDA_CHECK(cudaMemcpy(&bad, bins_.bad, sizeof(bad), cudaMemcpyDefault));
    INTERLACE_CUDA_CHECK(cudaMemset(bins_.direct, 0, sizeof(direct)));
    INTERLACE_CUDA_CHECK(cudaMemset(bins_.bad, 0, sizeof(bad)));
    INTERLACE_CUDA_CHECK(cudaDeviceSynchronize());
    return {direct, bad};
  }

  // Waits for the stream. Throws usage_error if an update had an element that does not exist.
  void check(cudaStream_t stream) {
    const bad_update bad = take_counts(stream).second;
    if (bad.count == 0) return;
    throw usage_error(std::to_string(bad.count) +
                      " updates have elements outside of the table of " +
                      std::to_string(elements_) + ", such as element " +
                      std::to_string(bad.element) + " from thread " + std::to_string(bad.thread) +
                      " of block " + std::to_string(bad.block) + "; they were not applied");
  }

  device_memory& memory() { return memory_; }

 private:
  template <class T>
  void take(T*& to, std::uint64_t count) {
    to = static_cast<T*>(memory_.take(device_, count * sizeof(T)));
  }

  std::uint64_t elements_;
  std::uint32_t value_bytes_;
  std::uint64_t fetched_ahead_;  // how far ahead the table is fetched, in bytes
  int device_ = 0;
  int multiprocessors_ = 0;
  std::uint64_t most_shared_ = 0;
  sizing sizes_;
  device_memory memory_;
  bin_memory<Record> bins_{};
  const void* prepared_ = nullptr;
  unsigned grid_ = 0;
};

}  // namespace interlace::cuda::updates
