#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <thread>

#include "bench/random_access.cuh"
#include "bench/updates.hpp"
#include "interlace/base/errors.hpp"
#include "interlace/cuda/memory/memory.hpp"
#include "interlace/host_updates_device.cuh"

namespace interlace::bench {

namespace {

using namespace random_access;  // NOLINT: only in this file

unsigned cores() { return std::clamp(std::thread::hardware_concurrency(), 1U, 64U); }

// Calls work(begin, end) for parts of [0, count), in one thread for each core.
template <class Work>
void by_all_cores(std::uint64_t count, const Work& work) {
  std::vector<std::thread> all;
  for (unsigned k = 0; k < cores(); ++k)
    all.emplace_back([&, k] { work(count * k / cores(), count * (k + 1) / cores()); });
  for (std::thread& one : all) one.join();
}

double seconds_of(const auto& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Host memory in large pages, if the system has large pages.
class host_table {
 public:
  explicit host_table(std::uint64_t bytes) : bytes_(bytes) {
    void* const made = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (made == MAP_FAILED)
      throw device_error("the host has no " + std::to_string(bytes >> 20U) + " MiB for the table");
    data = static_cast<word*>(made);
    madvise(made, bytes, MADV_HUGEPAGE);
    fill();
  }
  ~host_table() {
    for (const std::uint64_t at : locked_)
      INTERLACE_CUDA_LOG(cudaHostUnregister(reinterpret_cast<char*>(data) + at));
    munmap(data, bytes_);
  }
  host_table(const host_table&) = delete;
  host_table& operator=(const host_table&) = delete;
  host_table(host_table&&) = delete;
  host_table& operator=(host_table&&) = delete;

  std::uint64_t elements() const { return bytes_ / sizeof(word); }
  void fill() {
    by_all_cores(elements(), [&](std::uint64_t begin, std::uint64_t end) {
      for (std::uint64_t k = begin; k < end; ++k) data[k] = k;
    });
  }
  std::uint64_t wrong() const {
    std::atomic<std::uint64_t> wrong{0};
    by_all_cores(elements(), [&](std::uint64_t begin, std::uint64_t end) {
      std::uint64_t own = 0;
      for (std::uint64_t k = begin; k < end; ++k) own += data[k] != k ? 1 : 0;
      wrong += own;
    });
    return wrong;
  }
  void lock() {
    const std::uint64_t piece = std::min<std::uint64_t>(bytes_, std::uint64_t{64} << 20U);
    std::atomic<int> failed{cudaSuccess};
    by_all_cores(bytes_ / piece, [&](std::uint64_t begin, std::uint64_t end) {
      for (std::uint64_t k = begin; k < end && failed == cudaSuccess; ++k) {
        const cudaError_t error = cudaHostRegister(reinterpret_cast<char*>(data) + k * piece, piece,
                                                   cudaHostRegisterDefault);
        if (error != cudaSuccess) failed = error;
      }
    });
    INTERLACE_CUDA_CHECK(static_cast<cudaError_t>(failed.load()));
    for (std::uint64_t k = 0; k < bytes_ / piece; ++k) locked_.push_back(k * piece);
  }

  word* data = nullptr;

 private:
  std::uint64_t bytes_;
  std::vector<std::uint64_t> locked_;
};

template <bool Atomic>
__global__ void __launch_bounds__(threads)
    over_the_link(word* table, word mask, const word* starts, std::uint64_t count) {
  walk_updates(starts, count, [&](word r) {
    word* const at = table + (r & mask);
    if constexpr (Atomic)
      atomicXor(reinterpret_cast<unsigned long long*>(at), r);
    else
      *at = r;
  });
}

// Makes the updates by the host alone. Every core makes the updates of one part of the stream. A
// core prefetches 64 elements before it updates these elements by atomics.
double host_alone(word* table, word mask, std::uint64_t count) {
  constexpr std::uint64_t ahead = 64;
  return seconds_of([&] {
    by_all_cores(count / ahead, [&](std::uint64_t begin, std::uint64_t end) {
      word r = hpcc::number(begin * ahead + 1);
      for (std::uint64_t k = begin; k < end; ++k) {
        word waiting[ahead];
        for (word& one : waiting) {
          one = r;
          __builtin_prefetch(table + (r & mask), 1);
          r = hpcc::next(r);
        }
        for (const word one : waiting)
          __atomic_fetch_xor(table + (one & mask), one, __ATOMIC_RELAXED);
      }
    });
  });
}

}  // namespace

host_update_times measure_host_updates(const host_update_request& q) {
  if (!std::has_single_bit(q.table_bytes) || q.table_bytes < (std::uint64_t{1} << 20U))
    throw usage_error(
        "the bytes of a table of RandomAccess must be a power of two and at least 1 MiB");
  if (q.repeats == 0) throw usage_error("a measurement of updates needs at least one repeat");
  const cuda::current_device on(gpu);
  host_table table(q.table_bytes);
  const std::uint64_t elements = table.elements();
  const hpcc_codec codec{elements - 1};
  host_update_times found;
  found.updates = (q.updates != 0 ? q.updates : 4 * elements) / 1024 * 1024;
  const std::uint64_t linked = std::min(q.link_updates, found.updates) / 1024 * 1024;
  found.link_updates = linked;
  cuda::device_memory memory;
  const std::uint64_t starts_count = (found.updates >> start_log2) + 1;
  auto* const starts = static_cast<word*>(memory.take(gpu, starts_count * sizeof(word)));
  timer timed;
  make_starts<<<264, threads, 0, timed.stream>>>(starts, starts_count);
  INTERLACE_CUDA_CHECK(cudaGetLastError());
  {
    constexpr std::uint64_t bytes = std::uint64_t{128} << 20U;
    const cuda::mapped_memory near(bytes);
    void* const far = memory.take(gpu, bytes);
    for (int k = 0; k < 2; ++k)
      found.link_bytes_per_s = static_cast<double>(bytes) / timed([&] {
                                 INTERLACE_CUDA_CHECK(cudaMemcpyAsync(
                                     near.data(), far, bytes, cudaMemcpyDefault, timed.stream));
                               });
    timer back;
    const double both = seconds_of([&] {
      INTERLACE_CUDA_CHECK(
          cudaMemcpyAsync(near.data(), far, bytes / 2, cudaMemcpyDefault, timed.stream));
      INTERLACE_CUDA_CHECK(cudaMemcpyAsync(static_cast<char*>(far) + bytes / 2,
                                           static_cast<char*>(near.data()) + bytes / 2, bytes / 2,
                                           cudaMemcpyDefault, back.stream));
      INTERLACE_CUDA_CHECK(cudaStreamSynchronize(timed.stream));
      INTERLACE_CUDA_CHECK(cudaStreamSynchronize(back.stream));
    });
    found.table_copy_s = both * static_cast<double>(q.table_bytes) / (bytes / 2.0);
  }
  table.lock();
  found.stores_s = timed([&] {
    over_the_link<false>
        <<<1056, threads, 0, timed.stream>>>(table.data, codec.mask, starts, linked);
    INTERLACE_CUDA_CHECK(cudaGetLastError());
  });
  found.atomics_s = timed([&] {
    over_the_link<true><<<1056, threads, 0, timed.stream>>>(table.data, codec.mask, starts, linked);
    INTERLACE_CUDA_CHECK(cudaGetLastError());
  });
  table.fill();
  host_table_updates<word, combine::bit_xor, hpcc_codec> by(table.data, elements, {}, codec);
  found.bins = by.sizes().bins;
  found.window_bytes = sizeof(word) << by.sizes().window_log2;
  found.pool_bytes = by.sizes().buffer_bytes;
  found.threads = by.threads();
  for (std::uint32_t k = 0; k < q.repeats; ++k)
    found.sent_s.push_back(
        seconds_of([&] { by.run(hpcc_updates{starts}, found.updates, timed.stream); }));
  std::uint64_t most = 0;
  std::uint64_t all = 0;
  for (const std::uint64_t one : by.applied()) {
    most = std::max(most, one);
    all += one;
  }
  found.busiest_share =
      all == 0 ? 0 : static_cast<double>(most * by.threads()) / static_cast<double>(all);
  // Two runs of the same updates cancel out and leave the table as it was.
  for (int k = 0; k < 2; ++k) found.unpack_s = seconds_of([&] { found.unpacked = by.unpack(); });
  found.send_s = seconds_of([&] { by.send(hpcc_updates{starts}, found.updates, timed.stream); });
  // Two runs with the same updates cancel out and leave the table as it was.
  found.host_s = host_alone(table.data, codec.mask, found.updates);
  if (q.repeats % 2 == 0) host_alone(table.data, codec.mask, found.updates);
  found.wrong = table.wrong() + (all == found.updates ? 0 : 1);
  return found;
}

}  // namespace interlace::bench
