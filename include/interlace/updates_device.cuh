// Scattered updates of a large table in GPU memory, faster than one atomic for each update.
//
//   interlace::scattered_updates<interlace::indexed_update<float>, interlace::combine::add>
//   updates(
//       table, elements);
//   updates.run(interlace::update_arrays{indices, values}, count, stream);
//
// If a table is larger than the GPU's L2, a random update costs a read and a write of a sector of
// memory, in an order that makes memory slow. A window is a part of the table that fits in a thread
// block's shared memory. `run` first appends each update to the bin of the update's window. A block
// then reads the window, combines the window with its updates, and writes it back. Where plain
// atomics are faster, for example for a table that fits in the L2, `run` uses plain atomics
// (cuda/updates/sizing.hpp).
//
// The promises of `run`:
//
// - Order: `run` enqueues, and the host never waits. All updates are applied when the stream
//   reaches the end of the run. Until then other kernels must not write the table, and may see any
//   of the updates. Updates are not ordered among each other, so with `combine::store` any of the
//   writers can be the last. Integer results are exact. Sums of floating-point numbers depend on
//   the order, which differs from run to run.
// - Memory: at most `buffer_bytes`, by default a quarter of the table. A producer never waits. An
//   update that finds no room in its bin is applied at once.
// - Errors: an element outside of the table is counted and not applied; `check` reports it. The
//   constructor throws usage_error if the bins do not fit in the buffer, and device_error if the
//   GPU has no memory for them.
//
// A producer is an object with `__device__ W begin(std::uint64_t i) const`. W walks over the
// updates i, i + 32, i + 64, ...: `get()` returns the current update, and `advance()` moves 32
// updates further. The lanes of a warp therefore produce consecutive updates. `run` may produce an
// update several times, and the producer must return the same update each time. A producer can have
// a static member `bytes`, the number of bytes of memory that it reads for an update. `run` then
// weighs these bytes against the bytes of the table. Two producers are ready to use:
// `update_arrays` reads arrays, and `each_update` calls a function object for each number.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "interlace/cuda/updates/kernels.cuh"
#include "interlace/kernel.hpp"

namespace interlace {

// The options of a caller. If a number is 0, the library chooses the value.
struct update_options {
  std::uint64_t buffer_bytes = 0;  // most memory for bins; 0 means a quarter of the table
  std::uint64_t window_bytes = 0;  // bytes of a window of the table; if not 0, bins are always used
};

// Counts of updates that did not go through a bin.
struct update_report {
  std::uint64_t direct = 0;  // updates that found no room in their bin, and were applied at once
  std::uint64_t bad = 0;     // updates of elements that do not exist
};

// Record is the form in which a bin stores an update. A record has 8, 12 or 16 bytes. Codec has the
// functions `element(record)` and `value(record)`. By default these are the record's own functions.
template <class Record, combine Op, class Codec = cuda::updates::own_codec<Record>>
class scattered_updates {
 public:
  // The type of the table's elements.
  using value_type = typename Codec::value_type;

  // The table must lie in the memory of the current device and must outlive this object. One object
  // serves one stream at a time.
  scattered_updates(value_type* table, std::uint64_t elements, const update_options& options = {},
                    const Codec& codec = {})
      : apply_{table, codec}, bins_(request_of(elements, options)) {}

  // Enqueues the producer's updates [0, count).
  template <class Producer>
  void run(const Producer& producer, std::uint64_t count, cudaStream_t stream) {
    run_in_stages(producer, count, stream, [](cuda::updates::stage) {});
  }

  // Waits for the stream. Returns the counts since the last report.
  update_report report(cudaStream_t stream) {
    const auto [direct, bad] = bins_.take_counts(stream);
    return {direct, bad.count};
  }

  // Waits for the stream. Throws usage_error if an update had an element that does not exist. The
  // message names the element and the block that produced the update.
  void check(cudaStream_t stream) { bins_.check(stream); }

  // The sizes of the bins for a run of `count` updates of a producer. If the run uses no bins,
  // `plain` is set.
  template <class Producer>
  cuda::updates::sizing sizes(std::uint64_t count) const {
    return bins_.sizes(count, cuda::updates::produced_bytes<Producer>());
  }

  // --- stages, for measurements ------------------------------------------------------------------

  // Does the same as `run`, and calls mark(stage) whenever a stage has been enqueued.
  template <class Producer, class Mark>
  void run_in_stages(const Producer& producer, std::uint64_t count, cudaStream_t stream,
                     const Mark& mark) {
    if (count == 0) return;
    const cuda::updates::sizing s = sizes<Producer>(count);
    if (s.plain) {
      bins_.plain(producer, count, apply_, stream);
      return;
    }
    for (std::uint64_t begin = 0; begin < count; begin += s.round_updates) {
      const std::uint64_t end = std::min(count, begin + s.round_updates);
      for (std::uint32_t slice = 0; slice < s.passes; ++slice) {
        bins_.append(s, slice, producer, begin, end, apply_, stream);
        mark(cuda::updates::stage::append);
        bins_.combine_slice(s, slice, apply_, mark, stream);
      }
    }
  }

  // Groups the first round's updates of the first slice by bins, and drops them.
  template <class Producer>
  void group(const Producer& producer, std::uint64_t count, cudaStream_t stream) {
    cuda::updates::sizing s = sizes<Producer>(count);
    s.room = 0;
    bins_.append(s, 0, producer, 0, std::min(count, s.round_updates),
                 cuda::updates::drop_updates<Codec>{apply_.codec}, stream);
  }

 private:
  static cuda::updates::sizing_request request_of(std::uint64_t elements,
                                                  const update_options& options) {
    auto r =
        cuda::updates::request_of<value_type>(elements, options.buffer_bytes, options.window_bytes);
    if (options.window_bytes == 0) {
      int device = 0;
      int cache = 0;
      INTERLACE_CUDA_CHECK(cudaGetDevice(&device));
      INTERLACE_CUDA_CHECK(cudaDeviceGetAttribute(&cache, cudaDevAttrL2CacheSize, device));
      r.cache_bytes = static_cast<std::uint64_t>(cache);
      r.window_bytes = cuda::updates::usual_window_bytes();
    }
    return r;
  }

  cuda::updates::apply_to_table<Codec, Op> apply_;
  cuda::updates::update_bins<Record, cuda::updates::usual_shape<Record>> bins_;
};

}  // namespace interlace
