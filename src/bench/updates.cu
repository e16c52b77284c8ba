#include "bench/updates.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "bench/random_access.cuh"
#include "cuda/rate_kernels.cuh"
#include "interlace/base/errors.hpp"
#include "interlace/base/statistics.hpp"
#include "interlace/cuda/check.hpp"
#include "interlace/cuda/memory/memory.hpp"
#include "interlace/updates_device.cuh"

namespace interlace::bench {

namespace {

using namespace random_access;  // NOLINT: of this file alone

__global__ void __launch_bounds__(threads) fill_table(word* table, std::uint64_t elements) {
  const std::uint64_t stride = std::uint64_t{gridDim.x} * threads;
  for (std::uint64_t k = std::uint64_t{blockIdx.x} * threads + threadIdx.x; k < elements;
       k += stride)
    table[k] = k;
}

__global__ void __launch_bounds__(threads)
    count_wrong(const word* table, std::uint64_t elements, unsigned long long* wrong) {
  unsigned long long own = 0;
  const std::uint64_t stride = std::uint64_t{gridDim.x} * threads;
  for (std::uint64_t k = std::uint64_t{blockIdx.x} * threads + threadIdx.x; k < elements;
       k += stride)
    own += table[k] != k ? 1 : 0;
  if (own != 0) atomicAdd(wrong, own);
}

// The kernel that one would write by hand. Each warp takes 1024 consecutive updates, and each lane
// takes every 32nd of these.
__global__ void __launch_bounds__(threads)
    hand_written(word* table, word mask, const word* starts, std::uint64_t count) {
  const std::uint64_t warps = std::uint64_t{gridDim.x} * (threads / 32);
  const std::uint32_t lane = threadIdx.x % 32;
  for (std::uint64_t w = (std::uint64_t{blockIdx.x} * threads + threadIdx.x) / 32;
       w << start_log2 < count; w += warps) {
    word r = hpcc::skip(starts[w], lane);
#pragma unroll 8
    for (std::uint64_t i = (w << start_log2) + lane; i < count && i >> start_log2 == w; i += 32) {
      atomicXor(reinterpret_cast<unsigned long long*>(table + (r & mask)), r);
      r = hpcc::skip(r, 32);
    }
  }
}

// The least bytes that an update moves. Its record is written and read. The sectors of a window are
// read and written once for all updates in the window's bin.
double bytes_an_update(const cuda::updates::sizing& s, std::uint64_t elements) {
  constexpr double sector = 32;
  const double a_bin = static_cast<double>(s.round_records) * s.groups / s.bins;
  const double sectors = sizeof(word) * static_cast<double>(elements) / s.bins / sector;
  const double touched = sectors * (1 - std::exp(-a_bin / sectors));
  return 2.0 * sizeof(word) + 2 * sector * touched / a_bin;
}

}  // namespace

update_times measure_updates(const update_request& q) {
  if (!std::has_single_bit(q.table_bytes) || q.table_bytes < (std::uint64_t{1} << 20U))
    throw usage_error("a table of RandomAccess has a power of two of bytes, at least 1 MiB");
  if (q.repeats == 0) throw usage_error("updates are measured at least once");
  const cuda::current_device on(gpu);
  const std::uint64_t elements = q.table_bytes / sizeof(word);
  update_times found;
  found.updates = q.updates != 0 ? q.updates : 4 * elements;
  cuda::device_memory memory;
  auto* const table = static_cast<word*>(memory.take(gpu, q.table_bytes));
  const std::uint64_t starts_count = (found.updates >> start_log2) + 1;
  auto* const starts = static_cast<word*>(memory.take(gpu, starts_count * sizeof(word)));
  auto* const wrong =
      static_cast<unsigned long long*>(memory.take(gpu, sizeof(unsigned long long)));
  timer timed;
  int multiprocessors = 0;
  INTERLACE_CUDA_CHECK(
      cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, gpu));
  const auto blocks = static_cast<unsigned>(multiprocessors) * 8;
  INTERLACE_CUDA_CHECK(cudaDeviceSynchronize());

  const std::uint64_t steps = q.table_bytes / cuda::rate::step_bytes;
  double slower = 0;
  for (int k = 0; k < 3; ++k) {
    const double written = timed([&] {
      cuda::rate::write_all<<<blocks, cuda::rate::threads, 0, timed.stream>>>(
          reinterpret_cast<uint4*>(table), steps);
    });
    const double read = timed([&] {
      cuda::rate::read_all<<<blocks, cuda::rate::threads, 0, timed.stream>>>(
          reinterpret_cast<const uint4*>(table), steps, reinterpret_cast<unsigned int*>(wrong));
    });
    const double one = static_cast<double>(q.table_bytes) / std::max(written, read);
    if (k != 0) slower = std::max(slower, one);
  }
  found.memory_bytes_per_s = slower;

  const hpcc_codec codec{elements - 1};
  scattered_updates<word, combine::bit_xor, hpcc_codec> by(table, elements, {}, codec);
  const cuda::updates::sizing& s = by.sizes();
  found.bins = s.bins;
  found.buffer_bytes = s.buffer_bytes;
  found.groups = s.groups;
  found.round_updates = s.round_records;
  const hpcc_updates stream{starts};
  fill_table<<<blocks, threads, 0, timed.stream>>>(table, elements);
  make_starts<<<blocks, threads, 0, timed.stream>>>(starts, starts_count);
  INTERLACE_CUDA_CHECK(cudaMemsetAsync(wrong, 0, sizeof(*wrong), timed.stream));
  INTERLACE_CUDA_CHECK(cudaGetLastError());
  by.report(timed.stream);
  for (std::uint32_t k = 0; k < q.repeats; ++k) {
    found.plain_s.push_back(timed([&] {
      hand_written<<<blocks, threads, 0, timed.stream>>>(table, codec.mask, starts, found.updates);
      INTERLACE_CUDA_CHECK(cudaGetLastError());
    }));
    found.binned_s.push_back(timed([&] { by.run(stream, found.updates, timed.stream); }));
    count_wrong<<<blocks, threads, 0, timed.stream>>>(table, elements, wrong);
    INTERLACE_CUDA_CHECK(cudaGetLastError());
    by.check(timed.stream);
  }
  unsigned long long seen = 0;
  INTERLACE_CUDA_CHECK(cudaMemcpy(&seen, wrong, sizeof(seen), cudaMemcpyDefault));
  found.wrong = seen;
  if (s.plain) return found;

  found.window_bytes = sizeof(word) << s.window_log2;
  found.look_ahead = s.round_records * (s.groups + 1) / 2;
  found.bytes_an_update = bytes_an_update(s, elements);
  // Measures each stage of the rounds, with as many updates as in a full run.
  const std::uint64_t round = std::min(s.round_records, found.updates);
  found.round_updates = round;
  std::vector<double> group;
  std::vector<double> append;
  std::vector<double> apply;
  for (std::uint32_t k = 0; k < 3; ++k) {
    by.bins().reset(timed.stream);
    by.report(timed.stream);
    group.push_back(timed([&] { by.group(stream, 0, round, timed.stream); }));
    by.bins().reset(timed.stream);
    found.direct = 0;
    by.report(timed.stream);
    found.combined = 0;
    for (std::uint32_t r = 0; r < (s.groups + 1) / 2; ++r) {
      const std::uint64_t first = found.updates >= (r + 1) * round ? r * round : 0;
      by.bins().plan(0, 0, r == 0, false, timed.stream);
      const double taken = timed([&] { by.append(stream, first, first + round, timed.stream); });
      if (r == 0) append.push_back(taken);
      found.combined += round;
    }
    by.bins().plan(0, s.bins, false, true, timed.stream);
    apply.push_back(timed([&] { by.append(stream, 0, 0, timed.stream); }));
    found.direct = by.report(timed.stream).direct;
  }
  found.group_s = median(std::move(group));
  found.append_s = median(std::move(append));
  found.combine_s = median(std::move(apply));
  return found;
}

}  // namespace interlace::bench
