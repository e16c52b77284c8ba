// Copies that threads of a kernel make from their device's replica to the replicas of other
// devices.
#pragma once

#if !defined(__CUDACC__)
#error "interlace/copy_device.cuh is for nvcc"
#endif

#include <cstddef>
#include <cstdint>

#include "interlace/replicas.hpp"

namespace interlace::device {

inline constexpr std::uint32_t vector_bytes = 16;
// The number of loads that a thread has in flight at a time.
inline constexpr std::uint32_t vectors_at_once = 8;

// Copies bytes [begin, end) of a replica to every device in `peers` (bit d stands for device d).
// Each of the `threads` threads must call this function and pass its number as `thread`. Each byte
// is loaded once. Loads go to the L2, because the producers' stores are there. Memory ordering: the
// stores are weak, so the caller must order them.
__device__ __forceinline__ void copy_bytes(const kernel::replicas& r, std::uint64_t begin,
                                           std::uint64_t end, std::uint32_t peers,
                                           std::uint32_t thread, std::uint32_t threads) {
  // Copies the bytes before the first vector boundary and after the last vector boundary one by
  // one.
  const std::uint64_t first = min(end, (begin + vector_bytes - 1) / vector_bytes * vector_bytes);
  const std::uint64_t last = max(first, end / vector_bytes * vector_bytes);
  const auto copy_ends = [&](std::uint64_t from, std::uint64_t to) {
    for (std::uint64_t at = from + thread; at < to; at += threads) {
      const std::byte value = r.from[at];
      for (std::uint32_t rest = peers; rest != 0; rest &= rest - 1) {
        r.to[__ffs(static_cast<int>(rest)) - 1][at] = value;
      }
    }
  };
  copy_ends(begin, first);
  copy_ends(last, end);
  const std::uint64_t stride = std::uint64_t{threads} * vector_bytes;
  std::uint64_t at = first + std::uint64_t{thread} * vector_bytes;
  for (; at + (vectors_at_once - 1) * stride < last; at += vectors_at_once * stride) {
    uint4 values[vectors_at_once];
#pragma unroll
    for (std::uint32_t k = 0; k < vectors_at_once; ++k) {
      values[k] = __ldcg(reinterpret_cast<const uint4*>(r.from + at + k * stride));
    }
    for (std::uint32_t rest = peers; rest != 0; rest &= rest - 1) {
      std::byte* to = r.to[__ffs(static_cast<int>(rest)) - 1] + at;
#pragma unroll
      for (std::uint32_t k = 0; k < vectors_at_once; ++k) {
        *reinterpret_cast<uint4*>(to + k * stride) = values[k];
      }
    }
  }
  for (; at < last; at += stride) {
    const uint4 value = __ldcg(reinterpret_cast<const uint4*>(r.from + at));
    for (std::uint32_t rest = peers; rest != 0; rest &= rest - 1) {
      *reinterpret_cast<uint4*>(r.to[__ffs(static_cast<int>(rest)) - 1] + at) = value;
    }
  }
}

// Bytes [begin, end) of a replica. `cut_slice` divides the bytes at boundaries of vectors into
// `slices` parts and returns part number `slice`.
struct byte_range {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};
__device__ __forceinline__ byte_range cut_slice(byte_range all, std::uint32_t slice,
                                                std::uint32_t slices) {
  const std::uint64_t vectors = (all.end - all.begin + vector_bytes - 1) / vector_bytes;
  return {all.begin + vectors * slice / slices * vector_bytes,
          min(all.end, all.begin + vectors * (slice + 1) / slices * vector_bytes)};
}

}  // namespace interlace::device
