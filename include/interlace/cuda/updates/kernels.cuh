// The kernels of scattered updates, and the memory of their bins. Programs use
// interlace/updates_device.cuh.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <bit>
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
#include "interlace/cuda/updates/windows.cuh"
#include "interlace/kernel.hpp"

namespace interlace::cuda::updates {

// Applies updates to a table in the GPU's memory.
template <class Codec, combine Op>
struct apply_to_table {
  static constexpr bool by_blocks = false;
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
  template <class Record>
  __device__ __forceinline__ void within(typename Codec::value_type* at, const Record& r) const {
    combine_shared<Op>(at, codec.value(r));
  }
};

// Drops updates. A measurement that uses this struct measures all work except applying the updates.
template <class Codec>
struct drop_updates {
  static constexpr bool by_blocks = false;
  Codec codec;
  template <class Record>
  __device__ __forceinline__ std::uint64_t element(const Record& r) const {
    return codec.element(r);
  }
  template <class Record>
  __device__ __forceinline__ void now(const Record&) const {}
};

// The shape of blocks that append from memory. Two such blocks share a multiprocessor. On GPUs with
// the least shared memory, a multiprocessor holds only one such block.
template <class Record>
using usual_shape = append_shape<256, sizeof(Record) <= 8 ? 32 : 16, 2>;

template <class Shape, class Record, class Producer, class Apply>
__global__ void __launch_bounds__(Shape::threads, Shape::blocks)
    append_kernel(const bin_set<Record> to, const chosen_updates<Producer> from, const Apply apply,
                  unsigned long long* direct) {
  extern __shared__ __align__(16) unsigned char update_memory[];
  constexpr std::uint64_t warps = Shape::threads / 32;
  const std::uint32_t without_room =
      append_block<Shape>(to, from, gridDim.x * warps, blockIdx.x * warps, apply, update_memory);
  if (without_room != 0) atomicAdd(direct, static_cast<unsigned long long>(without_room));
}

// Splits each of gridDim.y bins of `from` into smaller bins, one for each window. The first of the
// gridDim.y bins has the number `first_bin`. The results go to `to`. gridDim.x blocks share a
// source bin.
template <class Shape, class Record, class Apply>
__global__ void __launch_bounds__(Shape::threads, Shape::blocks)
    split_kernel(bin_set<Record> to, const bin_set<Record> from, std::uint32_t first_bin,
                 const Apply apply, unsigned long long* direct) {
  extern __shared__ __align__(16) unsigned char update_memory[];
  constexpr std::uint64_t warps = Shape::threads / 32;
  const std::uint32_t bin = first_bin + blockIdx.y;
  to.first = from.first + (std::uint64_t{bin} << from.log2);
  to.pool += std::uint64_t{blockIdx.y} * to.bins * to.room;
  to.filled += blockIdx.y * to.bins;
  const stored_updates<Record> updates{from.pool + std::uint64_t{bin} * from.room,
                                       min(from.filled[bin], from.room)};
  const std::uint32_t without_room =
      append_block<Shape>(to, updates, gridDim.x * warps, blockIdx.x * warps, apply, update_memory);
  if (without_room != 0) atomicAdd(direct, static_cast<unsigned long long>(without_room));
}

inline constexpr int combine_threads = 1024;

// The number of updates that a thread of combine_kernel loads ahead.
template <class Record>
inline constexpr int combine_ahead = sizeof(Record) <= 8 ? 8 : 4;

// Combines the windows of a set of bins with their updates.
template <class Record, class Apply>
__global__ void __launch_bounds__(combine_threads)
    combine_kernel(const bin_set<Record> from, std::uint32_t windows, std::uint64_t elements,
                   const Apply apply) {
  extern __shared__ __align__(16) unsigned char update_memory[];
  combine_windows<combine_threads, combine_ahead<Record>>(apply.table, from, windows, elements,
                                                          apply, update_memory);
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

// The largest size of a window, in bytes, on the current device. The size is a power of two. A
// thread block can use nearly all of a multiprocessor's shared memory.
inline std::uint64_t usual_window_bytes() {
  int device = 0;
  int shared = 0;
  INTERLACE_CUDA_CHECK(cudaGetDevice(&device));
  INTERLACE_CUDA_CHECK(
      cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  return std::bit_floor(static_cast<std::uint64_t>(shared));
}

// The stages of a run that measurements distinguish.
enum class stage : std::uint32_t { append, split, combine };

// Bins in the memory of the current device, and the launches of the kernels that use them. One
// object serves one stream at a time.
template <class Record, class Shape>
class update_bins {
 public:
  // Allocates the memory of the bins. This memory suffices for any number of updates and any
  // producer.
  explicit update_bins(sizing_request request) : request_(request) {
    INTERLACE_CUDA_CHECK(cudaGetDevice(&device_));
    int shared = 0;
    INTERLACE_CUDA_CHECK(
        cudaDeviceGetAttribute(&multiprocessors_, cudaDevAttrMultiProcessorCount, device_));
    INTERLACE_CUDA_CHECK(
        cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, device_));
    most_shared_ = static_cast<std::uint64_t>(shared);
    request_.record_bytes = sizeof(Record);
    if (request_.buffer_bytes == 0)
      request_.buffer_bytes = request_.elements * request_.value_bytes / 4;
    counts_ = static_cast<counts*>(memory_.take(device_, sizeof(counts)));
    INTERLACE_CUDA_CHECK(cudaMemset(counts_, 0, sizeof(counts)));
    if (!size_bins(request_).plain)
      pool_ = static_cast<unsigned char*>(memory_.take(device_, request_.buffer_bytes));
    INTERLACE_CUDA_CHECK(cudaDeviceSynchronize());  // cudaMemset returns before it is done
  }

  int device() const { return device_; }
  device_memory& memory() { return memory_; }

  // The sizes for a run of `updates` updates. The producer reads `produced_bytes` bytes for each
  // update.
  sizing sizes(std::uint64_t updates, std::uint32_t produced_bytes) const {
    sizing_request r = request_;
    r.updates = updates;
    r.produced_bytes = produced_bytes;
    return size_bins(r);
  }

  // The bins of slice `slice`.
  bin_set<Record> bins(const sizing& s, std::uint32_t slice) const {
    bin_set<Record> b;
    b.pool = reinterpret_cast<Record*>(pool_);
    b.filled = reinterpret_cast<std::uint32_t*>(
        pool_ + aligned(std::uint64_t{s.bins} * s.room * sizeof(Record)));
    b.first = slice * s.slice();
    b.bins = s.bins;
    b.log2 = s.bin_log2();
    b.room = s.room;
    return b;
  }

  // Returns the smaller bins, one for each window, into which a group of bins is split. `first` is
  // the first bin of the group.
  bin_set<Record> parts(const sizing& s, std::uint32_t slice, std::uint32_t first) const {
    const bin_set<Record> all = bins(s, slice);
    bin_set<Record> b;
    auto* const from = reinterpret_cast<unsigned char*>(all.filled) + aligned(s.bins * 4);
    b.pool = reinterpret_cast<Record*>(from);
    b.filled = reinterpret_cast<std::uint32_t*>(
        from + aligned(std::uint64_t{s.parts()} * s.part_room * sizeof(Record)));
    b.first = all.first + (std::uint64_t{first} << all.log2);
    b.bins = 1U << s.parts_log2;
    b.log2 = s.window_log2;
    b.room = s.part_room;
    return b;
  }

  // Appends to empty bins the producer's updates [begin, end) that belong to slice `slice`.
  template <class Producer, class Apply>
  void append(const sizing& s, std::uint32_t slice, const Producer& producer, std::uint64_t begin,
              std::uint64_t end, const Apply& apply, cudaStream_t stream) {
    const bin_set<Record> to = bins(s, slice);
    empty(to.filled, s.bins, stream);
    // The last slice also gets the updates whose element does not exist.
    const chosen_updates<Producer> from{
        producer,
        begin,
        end,
        slice + 1 == s.passes ? ~std::uint32_t{0} - slice * s.bins : s.bins - 1,
        request_.elements,
        &counts_->bad};
    auto* const kernel = &append_kernel<Shape, Record, Producer, Apply>;
    const unsigned grid = prepared(kernel, Shape::threads, append_shared(s.bins));
    kernel<<<grid, Shape::threads, append_shared(s.bins), stream>>>(to, from, apply,
                                                                    &counts_->direct);
    INTERLACE_CUDA_CHECK(cudaGetLastError());
  }

  // Combines the table with the updates in the bins of slice `slice`. Calls mark(stage) after it
  // has enqueued a stage.
  template <class Apply, class Mark>
  void combine_slice(const sizing& s, std::uint32_t slice, const Apply& apply, const Mark& mark,
                     cudaStream_t stream) {
    const bin_set<Record> all = bins(s, slice);
    if (s.parts_log2 == 0) {
      combine(all, s.bins, apply, stream);
      mark(stage::combine);
      return;
    }
    auto* const kernel = &split_kernel<Shape, Record, Apply>;
    for (std::uint32_t first = 0; first < s.bins; first += s.group) {
      const std::uint32_t here = std::min(s.group, s.bins - first);
      const bin_set<Record> to = parts(s, slice, first);
      empty(to.filled, here << s.parts_log2, stream);
      const unsigned grid = prepared(kernel, Shape::threads, append_shared(to.bins));
      kernel<<<dim3(std::max(1U, grid / here), here), Shape::threads, append_shared(to.bins),
               stream>>>(to, all, first, apply, &counts_->direct);
      INTERLACE_CUDA_CHECK(cudaGetLastError());
      mark(stage::split);
      combine(to, here << s.parts_log2, apply, stream);
      mark(stage::combine);
    }
  }

  // Applies the updates [0, count) by plain atomics.
  template <class Producer, class Apply>
  void plain(const Producer& producer, std::uint64_t count, const Apply& apply,
             cudaStream_t stream) {
    const std::uint64_t a_block = std::uint64_t{plain_threads} * plain_each;
    const auto blocks = static_cast<unsigned>(std::min<std::uint64_t>(
        (count + a_block - 1) / a_block, static_cast<unsigned>(multiprocessors_) * 8U));
    plain_kernel<<<blocks, plain_threads, 0, stream>>>(count, request_.elements, &counts_->bad,
                                                       producer, apply);
    INTERLACE_CUDA_CHECK(cudaGetLastError());
  }

  // Waits for the stream. Returns the number of updates that had no room, and the bad updates, and
  // resets both counts.
  std::pair<std::uint64_t, bad_update> take_counts(cudaStream_t stream) {
    counts found{};
    INTERLACE_CUDA_CHECK(cudaStreamSynchronize(stream));
    INTERLACE_CUDA_CHECK(cudaMemcpy(&found, counts_, sizeof(found), cudaMemcpyDefault));
    INTERLACE_CUDA_CHECK(cudaMemset(counts_, 0, sizeof(found)));
    INTERLACE_CUDA_CHECK(cudaDeviceSynchronize());
    return {found.direct, found.bad};
  }

  // Waits for the stream. Throws usage_error if an update had an element that does not exist.
  void check(cudaStream_t stream) {
    const bad_update bad = take_counts(stream).second;
    if (bad.count == 0) return;
    throw usage_error(std::to_string(bad.count) +
                      " updates have elements outside of the table of " +
                      std::to_string(request_.elements) + ", such as element " +
                      std::to_string(bad.element) + " from thread " + std::to_string(bad.thread) +
                      " of block " + std::to_string(bad.block) + "; they were not applied");
  }

  // Allows the kernel to use `bytes` bytes of shared memory. Returns how many of its blocks the GPU
  // holds at a time.
  template <class Kernel>
  unsigned prepared(Kernel* kernel, int threads, std::uint64_t shared) {
    if (shared > most_shared_)
      throw usage_error("a thread block of updates needs " + std::to_string(shared) +
                        " bytes of shared memory, and the GPU has " + std::to_string(most_shared_) +
                        "; take other windows");
    INTERLACE_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                              static_cast<int>(shared)));
    int blocks = 0;
    INTERLACE_CUDA_CHECK(
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, threads, shared));
    return static_cast<unsigned>(blocks * multiprocessors_);
  }

 private:
  struct counts {
    unsigned long long direct;
    bad_update bad;
  };

  static std::uint64_t aligned(std::uint64_t bytes) {
    return (bytes + aligned_bytes - 1) / aligned_bytes * aligned_bytes;
  }
  static std::uint64_t append_shared(std::uint32_t bins) {
    return append_shared_bytes<Record>(bins, Shape::tile);
  }
  static void empty(std::uint32_t* filled, std::uint32_t bins, cudaStream_t stream) {
    INTERLACE_CUDA_CHECK(cudaMemsetAsync(filled, 0, std::uint64_t{bins} * 4, stream));
  }

  template <class Apply>
  void combine(const bin_set<Record>& from, std::uint32_t windows, const Apply& apply,
               cudaStream_t stream) {
    // The windows of the last slice can reach beyond the end of the table.
    const std::uint64_t window = std::uint64_t{1} << from.log2;
    if (from.first >= request_.elements) return;
    const std::uint64_t there = (request_.elements - from.first + window - 1) / window;
    auto* const kernel = &combine_kernel<Record, Apply>;
    const std::uint64_t shared = window * request_.value_bytes;
    const std::uint64_t grid = prepared(kernel, combine_threads, shared);
    kernel<<<static_cast<unsigned>(std::min<std::uint64_t>({windows, there, grid})),
             combine_threads, shared, stream>>>(from, windows, request_.elements, apply);
    INTERLACE_CUDA_CHECK(cudaGetLastError());
  }

  sizing_request request_;
  int device_ = 0;
  int multiprocessors_ = 0;
  std::uint64_t most_shared_ = 0;
  device_memory memory_;
  counts* counts_ = nullptr;
  unsigned char* pool_ = nullptr;
};

}  // namespace interlace::cuda::updates
