// Scattered updates of a large table in GPU memory, faster than one atomic for each update.
//
//   interlace::scattered_updates<interlace::indexed_update<float>, interlace::combine::add>
//   updates(
//       table, elements);
//   updates.run(interlace::update_arrays{indices, values}, count, stream);
//
// A random update of a table that is larger than the GPU's L2 reads and writes a whole sector of
// memory, in an order for which memory is slow. `run` first appends each update to the bin of its
// part of the table, a window that fits in the L2 many times, and applies whole bins later
// (propagation blocking). If plain atomics are faster, for example in a table that fits in the L2,
// `run` uses plain atomics (cuda/updates/sizing.hpp).
//
// What `run` promises:
//
// - Order: `run` enqueues, and the host never waits. All updates are applied when the stream
// reaches
//   the end of the run; until then a kernel of another stream may see any of them. Updates are not
//   ordered among each other, so the last writer of `combine::store` is any of the writers.
//   Integers are exact. Sums of floating-point numbers depend on the order, which differs from run
//   to run.
// - Memory: at most `buffer_bytes`, by default a quarter of the table. A producer never waits: an
//   update without room in its bin is applied at once.
// - Errors: an element outside of the table is counted and not applied; `check` reports it. The
//   constructor throws usage_error if the bins do not fit in the buffer, and device_error if the
//   GPU has no memory for them.
//
// A producer is an object with `__device__ W begin(std::uint64_t i) const`. W walks over the
// updates i, i + 32, i + 64, ...: `get()` returns the current one, and `advance()` goes 32 further.
// So the lanes of a warp produce updates that follow each other. `update_arrays` and `each_update`
// are producers; they read arrays, or call a function object for each number.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "interlace/cuda/updates/kernels.cuh"
#include "interlace/kernel.hpp"

namespace interlace {

// The options of a caller. The library decides where a number is zero.
struct update_options {
  std::uint64_t buffer_bytes = 0;  // the most memory for bins; 0: a quarter of the table
  std::uint64_t window_bytes =
      0;  // part of the table that a bin covers; if it is set, bins are always used
  std::uint32_t groups = 0;  // the most rounds that an update waits
  cuda::updates::fetch_by fetch =
      cuda::updates::fetch_by::nothing;  // how a window is fetched before it is due
  std::uint64_t fetched_ahead = 0;       // how far ahead the table is fetched, in bytes
};

// What happened to updates.
struct update_report {
  std::uint64_t direct = 0;  // updates that found no room in their bin, and were applied at once
  std::uint64_t bad = 0;     // updates of elements that do not exist
};

// Record: what a bin stores for an update, in 8, 12 or 16 bytes. Codec: `element(record)` and
// `value(record)`; by default the record's own functions.
template <class Record, combine Op, class Codec = cuda::updates::own_codec<Record>>
class scattered_updates {
 public:
  // The type of the table's elements.
  using value_type = typename Codec::value_type;

  // The table lies in the memory of the current device, and outlives this object. One object serves
  // one stream at a time.
  scattered_updates(value_type* table, std::uint64_t elements, const update_options& options = {},
                    const Codec& codec = {})
      : apply_{table, codec},
        bins_(request_of(elements, options), options.fetch, options.fetched_ahead) {}

  // Enqueues the producer's updates [0, count).
  template <class Producer>
  void run(const Producer& producer, std::uint64_t count, cudaStream_t stream) {
    if (count == 0) return;
    const cuda::updates::sizing& s = bins_.sizes();
    if (s.plain) {
      bins_.plain(producer, count, apply_, stream);
      return;
    }
    bins_.append_all(producer, count, apply_, stream);
    bins_.plan(0, s.bins, false, true, stream);
    append(producer, 0, 0, stream);
  }

  // Waits for the stream, and returns the counts since the last report.
  update_report report(cudaStream_t stream) {
    const auto [direct, bad] = bins_.take_counts(stream);
    return {direct, bad.count};
  }

  // Waits for the stream. Throws usage_error if an update had an element that does not exist; the
  // message names the element and who produced it.
  void check(cudaStream_t stream) { bins_.check(stream); }

  // The sizes of the bins. `plain` is true if there are no bins.
  const cuda::updates::sizing& sizes() const { return bins_.sizes(); }

  // --- stages, for measurements
  // -------------------------------------------------------------------

  cuda::updates::update_bins<Record, cuda::updates::usual_shape>& bins() { return bins_; }

  // Enqueues a round: appends the updates [begin, end), and applies the chunks that the plan made
  // due.
  template <class Producer>
  void append(const Producer& producer, std::uint64_t begin, std::uint64_t end,
              cudaStream_t stream) {
    bins_.round(producer, begin, end, apply_, stream);
  }

  // Groups the updates [begin, end) by bins, and drops them. The bins must have been reset.
  template <class Producer>
  void group(const Producer& producer, std::uint64_t begin, std::uint64_t end,
             cudaStream_t stream) {
    bins_.round(producer, begin, end, cuda::updates::drop_updates<Codec>{apply_.codec}, stream);
  }

 private:
  static cuda::updates::sizing_request request_of(std::uint64_t elements,
                                                  const update_options& options) {
    cuda::updates::sizing_request r;
    r.elements = elements;
    r.value_bytes = sizeof(value_type);
    r.buffer_bytes = options.buffer_bytes;
    r.window_bytes = options.window_bytes;
    r.groups = options.groups;
    r.most_bins = cuda::updates::usual_shape::tile / 4;
    if (options.window_bytes != 0) {
      r.most_bins = 4096;
    } else {
      int device = 0;
      int cache = 0;
      INTERLACE_CUDA_CHECK(cudaGetDevice(&device));
      INTERLACE_CUDA_CHECK(cudaDeviceGetAttribute(&cache, cudaDevAttrL2CacheSize, device));
      r.cache_bytes = static_cast<std::uint64_t>(cache);
    }
    return r;
  }

  cuda::updates::apply_to_table<Codec, Op> apply_;
  cuda::updates::update_bins<Record, cuda::updates::usual_shape> bins_;
};

}  // namespace interlace
