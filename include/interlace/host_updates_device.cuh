// Scattered updates of a table in the host's memory by kernels of a GPU.
//
//   interlace::host_table_updates<interlace::indexed_update<float>, interlace::combine::add>
//   updates(
//       table, elements, {.pool_bytes = std::uint64_t{8} << 30});
//   updates.run(producer, count, stream);
//
// A store of 8 bytes from a GPU to the host crosses the link by itself, and the link takes only few
// such stores per second. These kernels therefore append updates to bins in the GPU's memory. They
// send whole bins to the host. Each bin has an owner, a thread of the host that applies the bin's
// updates. The GPU never touches the table, so the table can be larger than the GPU's memory and
// need not be page-locked.
//
// `run` blocks the caller until all updates are applied. The host must not use the table during
// this time. Updates are unordered. Integer results are exact. If a kernel waits longer than the
// deadline for room in a ring, the kernel ends, and `run` throws device_error. The error names the
// ring and says how full the ring is. After this error, the table has only some of the updates. If
// an update's element does not exist, the update is not applied, and `run` throws usage_error. The
// error names one such element.
//
// interlace/updates_device.cuh describes producers, records and codecs. The codec's functions must
// run on the host, too (INTERLACE_HOST_DEVICE).
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "interlace/base/errors.hpp"
#include "interlace/cuda/updates/host_ring.cuh"
#include "interlace/cuda/updates/kernels.cuh"
#include "interlace/cuda/updates/ring_readers.hpp"
#include "interlace/cuda/updates/send_kernel.cuh"
#include "interlace/kernel.hpp"

namespace interlace {

// The options of a caller. If a number is 0, the library chooses the value.
struct host_update_options {
  std::uint64_t pool_bytes = 0;  // GPU memory for bins; 0 means a quarter of the table
  // part of the table that a bin covers; 0 means 2 MiB, or the smallest possible part
  std::uint64_t window_bytes = 0;
  // number of host threads; 0 means a power of two, at most one thread for each core
  std::uint32_t threads = 0;
  std::uint32_t slots = 1024;  // slots of each ring; a slot has 8 KiB for records of 8 bytes
  double deadline_s = 10;      // deadline of a kernel's wait for room in a ring
};

// Updates of a table in the host's memory. Record, Op and Codec mean the same as in
// scattered_updates.
template <class Record, combine Op, class Codec = cuda::updates::own_codec<Record>>
class host_table_updates {
 public:
  // The type of the table's elements.
  using value_type = typename Codec::value_type;

  // The bins lie in the memory of the current device. The table must outlive this object. One
  // object serves one thread and one stream at a time.
  host_table_updates(value_type* table, std::uint64_t elements,
                     const host_update_options& options = {}, const Codec& codec = {})
      : table_{table, codec},
        options_(options),
        threads_(threads_of(options)),
        bins_(request_of(elements, options)),
        sizes_(bins_.sizes(0, 0)),
        slots_(std::size_t{threads_} * options.slots * cuda::updates::slot_bytes<Record>()),
        words_(std::size_t{threads_} * (options.slots + line_words) * sizeof(std::uint64_t) +
               sizeof(cuda::updates::ring_failure)) {
    if (options.slots == 0) throw usage_error("a ring of updates needs at least one slot");
    cuda::device_memory& memory = bins_.memory();
    const int device = bins_.device();
    tickets_ = static_cast<std::uint64_t*>(
        memory.take(device, (std::uint64_t{threads_} + 1) * sizeof(std::uint64_t)));
    auto* words = static_cast<std::uint64_t*>(words_.data());
    for (std::uint32_t k = 0; k < threads_; ++k) {
      kernel::credit_ring r;
      r.consumed = words + std::size_t{k} * line_words;
      r.ready = words + std::size_t{threads_} * line_words + std::size_t{k} * options.slots;
      r.tickets = tickets_ + k;
      r.slots = options.slots;
      rings_.push_back(r);
    }
    failure_ = reinterpret_cast<cuda::updates::ring_failure*>(
        words + std::size_t{threads_} * (options.slots + line_words));
    auto* const rings = static_cast<kernel::credit_ring*>(
        memory.take(device, threads_ * sizeof(kernel::credit_ring)));
    INTERLACE_CUDA_CHECK(cudaMemcpy(rings, rings_.data(), threads_ * sizeof(kernel::credit_ring),
                                    cudaMemcpyDefault));
    send_.codec = codec;
    send_.rings = rings;
    send_.slots = static_cast<unsigned char*>(slots_.data());
    send_.failure = failure_;
    send_.failed = reinterpret_cast<unsigned int*>(tickets_ + threads_);
    send_.deadline_ns = static_cast<std::uint64_t>(options.deadline_s * 1e9);
    send_.ring_count = threads_;
    send_.bins = sizes_.bins;
  }

  // Applies the producer's updates [0, count).
  template <class Producer>
  void run(const Producer& producer, std::uint64_t count, cudaStream_t stream) {
    drive(producer, count, stream, table_);
    bins_.check(stream);
  }

  // The number of updates that each thread applied in the last run.
  const std::vector<std::uint64_t>& applied() const { return applied_; }
  // The sizes of the bins.
  const cuda::updates::sizing& sizes() const { return sizes_; }
  // The number of host threads.
  std::uint32_t threads() const { return threads_; }

  // --- stages, for measurements ------------------------------------------------------------------

  // Does the same as `run`, but the threads drop the updates that arrive.
  template <class Producer>
  void send(const Producer& producer, std::uint64_t count, cudaStream_t stream) {
    drive(producer, count, stream, cuda::updates::drop_on_host{});
  }

  // Makes the threads apply the contents of the slots once more. Nothing is sent. Returns the
  // number of updates that were applied.
  std::uint64_t unpack() {
    clear_words();
    std::vector<std::uint64_t> filled(threads_);
    for (std::uint32_t k = 0; k < threads_; ++k) {
      filled[k] = std::min<std::uint64_t>(tickets_read_[k], options_.slots);
      for (std::uint64_t t = 0; t < filled[k]; ++t) kernel::publish_slot(rings_[k], t);
    }
    cuda::updates::ring_readers<Record, apply_on_host> readers(
        rings_, static_cast<const unsigned char*>(slots_.data()), table_);
    readers.finish(filled);
    std::uint64_t all = 0;
    for (const std::uint64_t one : readers.applied()) all += one;
    return all;
  }

 private:
  using apply_on_host = cuda::updates::apply_on_host<Codec, Op>;
  // Small tiles leave shared memory for many bins. The size of tiles does not limit the speed,
  // because the host is slower than the GPU with tiles of any size.
  using shape = cuda::updates::append_shape<512, 8, 1>;
  static constexpr std::uint32_t most_bins = 4096;
  static constexpr std::uint64_t least_window_bytes = std::uint64_t{2} << 20U;
  // The number of words in 128 bytes. The words of each ring begin at a multiple of 128 bytes, so
  // no two rings share a cache line.
  static constexpr std::size_t line_words = 16;

  void clear_words() {
    std::fill_n(static_cast<std::uint64_t*>(words_.data()),
                std::size_t{threads_} * (options_.slots + line_words), 0);
    *failure_ = {};
  }

  template <class Producer, class Apply>
  void drive(const Producer& producer, std::uint64_t count, cudaStream_t stream,
             const Apply& apply) {
    clear_words();
    INTERLACE_CUDA_CHECK(cudaMemsetAsync(
        tickets_, 0, (std::uint64_t{threads_} + 1) * sizeof(std::uint64_t), stream));
    cuda::updates::ring_readers<Record, Apply> readers(
        rings_, static_cast<const unsigned char*>(slots_.data()), apply);
    auto* const kernel = &cuda::updates::send_kernel<Record, Codec>;
    const unsigned grid = bins_.prepared(kernel, cuda::updates::send_threads, 0);
    for (std::uint64_t begin = 0; begin < count; begin += sizes_.round_updates) {
      const std::uint64_t end = std::min(count, begin + sizes_.round_updates);
      bins_.append(sizes_, 0, producer, begin, end, send_, stream);
      kernel<<<grid, cuda::updates::send_threads, 0, stream>>>(bins_.bins(sizes_, 0), send_);
      INTERLACE_CUDA_CHECK(cudaGetLastError());
    }
    wait(stream);
    tickets_read_.resize(threads_);
    INTERLACE_CUDA_CHECK(cudaMemcpy(tickets_read_.data(), tickets_,
                                    threads_ * sizeof(std::uint64_t), cudaMemcpyDefault));
    if (failure_->failed != 0) {
      readers.stop();
      throw device_error("a kernel waited " + std::to_string(options_.deadline_s) +
                         " s for room in ring " + std::to_string(failure_->ring) + " of " +
                         std::to_string(threads_) + ", which has " +
                         std::to_string(options_.slots) + " slots: it wanted to write ticket " +
                         std::to_string(failure_->ticket) + ", and the host has read " +
                         std::to_string(failure_->consumed) + " tickets");
    }
    readers.finish(tickets_read_);
    applied_ = readers.applied();
  }

  static std::uint32_t threads_of(const host_update_options& options) {
    if (options.threads > 256) throw usage_error("at most 256 threads of the host apply updates");
    if (options.threads != 0) return options.threads;
    // With a power of two of threads, each thread gets an equal part of a group of bins.
    return std::bit_floor(std::clamp(std::thread::hardware_concurrency(), 1U, 64U));
  }

  static cuda::updates::sizing_request request_of(std::uint64_t elements,
                                                  const host_update_options& options) {
    auto r =
        cuda::updates::request_of<value_type>(elements, options.pool_bytes, options.window_bytes);
    r.most_bins = most_bins;
    r.one_pass = true;
    if (r.window_bytes == 0) {
      r.window_bytes = least_window_bytes;
      while ((elements * sizeof(value_type) + r.window_bytes - 1) / r.window_bytes > most_bins)
        r.window_bytes *= 2;
    }
    return r;
  }

  // Waits without occupying a core, because the threads need the cores.
  static void wait(cudaStream_t stream) {
    for (;;) {
      const cudaError_t state = cudaStreamQuery(stream);
      if (state == cudaSuccess) return;
      if (state != cudaErrorNotReady) INTERLACE_CUDA_CHECK(state);
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }

  apply_on_host table_;
  host_update_options options_;
  std::uint32_t threads_;
  cuda::updates::update_bins<Record, shape> bins_;
  cuda::updates::sizing sizes_;
  cuda::mapped_memory slots_;
  cuda::mapped_memory words_;
  std::vector<kernel::credit_ring> rings_;
  cuda::updates::ring_failure* failure_ = nullptr;
  std::uint64_t* tickets_ = nullptr;
  cuda::updates::send_to_host<Codec> send_{};
  std::vector<std::uint64_t> tickets_read_;
  std::vector<std::uint64_t> applied_;
};

}  // namespace interlace
