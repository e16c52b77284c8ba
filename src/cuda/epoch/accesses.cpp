#include "cuda/epoch/accesses.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "cuda/epoch/recorder.hpp"
#include "interlace/base/errors.hpp"
#include "interlace/cuda/check.hpp"

namespace interlace::cuda {

kernel::trace_totals count_accesses(const node_gpus& gpus, node_arrays& arrays,
                                    loaded_kernels& kernels, std::uint32_t device,
                                    const kernel_operation& k) {
  gpus.require_idle("a trace");
  check_launch(gpus.count(), device, k);
  kernel::trace_totals totals;
  static_assert(sizeof(totals.counts) == kernel::trace_totals::kinds *
                                             kernel::trace_totals::spaces * 2 *
                                             sizeof(std::uint64_t));
  if (k.shape.blocks == 0) return totals;
  const current_device restore(gpus.ordinal(device));
  kernels.load(k);
  device_memory scratch;
  void* counters = scratch.take(gpus.ordinal(device), sizeof(totals.counts));
  arrays.write(counters, &totals.counts, sizeof(totals.counts));
  INTERLACE_CUDA_CHECK(cudaSetDevice(gpus.ordinal(device)));
  void* functor = const_cast<std::byte*>(k.functor.data());  // NOLINT: as in issue_kernel
  std::array<void*, 2> arguments{functor, static_cast<void*>(&counters)};
  INTERLACE_CUDA_CHECK(cudaLaunchKernel(k.entry, dim3(static_cast<unsigned int>(k.shape.blocks)),
                                        dim3(k.shape.threads), arguments.data(),
                                        k.shape.shared_bytes, gpus.streams()[device]));
  INTERLACE_CUDA_CHECK(cudaStreamSynchronize(gpus.streams()[device]));
  arrays.read(&totals.counts, counters, sizeof(totals.counts));
  return totals;
}

void record_accesses(const node_gpus& gpus, node_arrays& arrays, loaded_kernels& kernels,
                     std::uint32_t device, const kernel_operation& k,
                     const kernel::access_taker& take) {
  gpus.require_idle("a recording");
  check_launch(gpus.count(), device, k);
  if (k.shape.blocks == 0) return;
  constexpr std::uint64_t capacity = std::uint64_t{8} << 20U;  // size of the buffer in words
  const current_device restore(gpus.ordinal(device));
  kernels.load(k);
  device_memory scratch;
  kernel::access_buffer buffer;
  buffer.words = static_cast<unsigned long long*>(
      scratch.take(gpus.ordinal(device), capacity * sizeof(unsigned long long)));
  buffer.used = static_cast<unsigned long long*>(
      scratch.take(gpus.ordinal(device), sizeof(unsigned long long)));
  buffer.capacity = capacity;
  void* functor = const_cast<std::byte*>(k.functor.data());  // NOLINT: as in issue_kernel
  std::vector<unsigned long long> words;
  // The words that a block of a range records, on average. `most` is the largest such mean of all
  // ranges so far.
  std::uint64_t most = 0;
  for (std::uint64_t first = 0, count = 1; first < k.shape.blocks; first += count) {
    // Ranges grow up to the size whose accesses are expected to fill a quarter of the buffer.
    // Earlier blocks give the expected number of accesses.
    count = std::min(first == 0 ? 1 : 4 * count, k.shape.blocks - first);
    if (most != 0) count = std::min(count, std::max<std::uint64_t>(1, capacity / 4 / most));
    const unsigned long long none = 0;
    arrays.write(buffer.used, &none, sizeof(none));
    INTERLACE_CUDA_CHECK(cudaSetDevice(gpus.ordinal(device)));
    struct range {  // has the layout of device::block_range
      std::uint32_t first, total;
    } blocks{static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(k.shape.blocks)};
    std::array<void*, 3> arguments{functor, static_cast<void*>(&buffer),
                                   static_cast<void*>(&blocks)};
    INTERLACE_CUDA_CHECK(cudaLaunchKernel(k.entry, dim3(static_cast<unsigned int>(count)),
                                          dim3(k.shape.threads), arguments.data(),
                                          k.shape.shared_bytes, gpus.streams()[device]));
    INTERLACE_CUDA_CHECK(cudaStreamSynchronize(gpus.streams()[device]));
    unsigned long long used = 0;
    arrays.read(&used, buffer.used, sizeof(used));
    if (used > capacity) {
      throw device_error("blocks " + std::to_string(first) + " to " +
                         std::to_string(first + count - 1) + " make more accesses than the " +
                         std::to_string(capacity * sizeof(used) >> 20U) +
                         " MiB for a recording take");
    }
    words.resize(used);
    if (used != 0) arrays.read(words.data(), buffer.words, used * sizeof(words[0]));
    for (std::size_t at = 0; at < words.size();) {
      const auto [access, size] = kernel::access_buffer::unpack(&words[at]);
      take(access);
      at += size;
    }
    most = std::max<std::uint64_t>(most, (used + count - 1) / count);
  }
}

}  // namespace interlace::cuda
