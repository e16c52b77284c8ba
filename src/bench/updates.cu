#include "bench/updates.hpp"

#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

#include "bench/random_access.cuh"
#include "cuda/rate_kernels.cuh"
#include "interlace/base/errors.hpp"
#include "interlace/cuda/check.hpp"
#include "interlace/cuda/memory/memory.hpp"
#include "interlace/updates_device.cuh"

namespace interlace::bench {

namespace {

using namespace random_access;  // NOLINT: only in this file

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

// The kernel that a program without bins would use. The kernel makes each update by an atomic.
__global__ void __launch_bounds__(threads)
    hand_written(word* table, word mask, const word* starts, std::uint64_t count) {
  walk_updates(starts, count, [&](word r) {
    atomicXor(reinterpret_cast<unsigned long long*>(table + (r & mask)), r);
  });
}

// The least number of bytes that are moved for an update. Each level of bins writes and reads the
// update's record. Each round reads and writes the table once.
double bytes_an_update(const cuda::updates::sizing& s, std::uint64_t elements,
                       std::uint64_t updates) {
  const double levels = s.parts_log2 == 0 ? 1 : 2;
  const double table = 2.0 * sizeof(word) * static_cast<double>(elements * s.rounds(updates));
  return levels * 2 * sizeof(word) + table / static_cast<double>(updates);
}

// Adds up the seconds of each stage of a run.
class stage_timer {
 public:
  explicit stage_timer(cudaStream_t stream) : stream_(stream) { note({}); }
  ~stage_timer() {
    for (const auto& one : marks_) INTERLACE_CUDA_LOG(cudaEventDestroy(one.second));
  }
  stage_timer(const stage_timer&) = delete;
  stage_timer& operator=(const stage_timer&) = delete;
  stage_timer(stage_timer&&) = delete;
  stage_timer& operator=(stage_timer&&) = delete;

  // Marks the end of a stage in the stream.
  void note(cuda::updates::stage ended) {
    cudaEvent_t event = nullptr;
    INTERLACE_CUDA_CHECK(cudaEventCreate(&event));
    marks_.emplace_back(ended, event);
    INTERLACE_CUDA_CHECK(cudaEventRecord(event, stream_));
  }
  // The time of a stage in seconds. Waits for the stream.
  double seconds(cuda::updates::stage of) const {
    INTERLACE_CUDA_CHECK(cudaEventSynchronize(marks_.back().second));
    double sum = 0;
    for (std::size_t k = 1; k < marks_.size(); ++k) {
      if (marks_[k].first != of) continue;
      float ms = 0;
      INTERLACE_CUDA_CHECK(cudaEventElapsedTime(&ms, marks_[k - 1].second, marks_[k].second));
      sum += static_cast<double>(ms) * 1e-3;
    }
    return sum;
  }

 private:
  cudaStream_t stream_;
  std::vector<std::pair<cuda::updates::stage, cudaEvent_t>> marks_;
};

}  // namespace

update_times measure_updates(const update_request& q) {
  if (!std::has_single_bit(q.table_bytes) || q.table_bytes < (std::uint64_t{1} << 20U))
    throw usage_error(
        "the bytes of a table of RandomAccess must be a power of two and at least 1 MiB");
  if (q.repeats == 0) throw usage_error("a measurement of updates needs at least one repeat");
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
  const hpcc_updates stream{starts};
  const cuda::updates::sizing s = by.sizes<hpcc_updates>(found.updates);
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

  found.bins = s.bins;
  found.windows_a_bin = std::uint64_t{1} << s.parts_log2;
  found.window_bytes = sizeof(word) << s.window_log2;
  found.passes = s.passes;
  found.round_updates = s.round_updates;
  found.buffer_bytes = s.buffer_bytes;
  found.look_ahead = s.round_updates;
  found.bytes_an_update = bytes_an_update(s, elements, found.updates);
  const double part = static_cast<double>(found.updates) / static_cast<double>(s.round_updates);
  for (int k = 0; k < 2; ++k)  // the first run also loads the kernel
    found.group_s = part * s.passes * timed([&] { by.group(stream, found.updates, timed.stream); });
  by.report(timed.stream);
  stage_timer stages(timed.stream);
  by.run_in_stages(stream, found.updates, timed.stream,
                   [&](cuda::updates::stage ended) { stages.note(ended); });
  found.append_s = stages.seconds(cuda::updates::stage::append);
  found.split_s = stages.seconds(cuda::updates::stage::split);
  found.combine_s = stages.seconds(cuda::updates::stage::combine);
  found.direct = by.report(timed.stream).direct;
  return found;
}

}  // namespace interlace::bench
