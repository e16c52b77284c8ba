// A thread block combines a window of a table with the window's updates, in shared memory.
//
// The block reads and writes the window once, in whole cache lines. Between reading and writing, an
// update costs two accesses to shared memory, no matter where its element lies.
#pragma once

#include <cstdint>

#include "interlace/cuda/updates/record.cuh"

namespace interlace::cuda::updates {

// If a window has fewer updates than one for this many elements, atomics move fewer bytes than
// reading and writing the window.
inline constexpr std::uint32_t sparse_share = 16;

// Begins to copy 16 aligned bytes to shared memory. wait_for_copies ends the copy.
__device__ __forceinline__ void begin_copy(void* to, const void* from) {
#if defined(__CUDA_ARCH__)
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                   static_cast<unsigned int>(__cvta_generic_to_shared(to))),
               "l"(from)
               : "memory");
#else
  memcpy(to, from, 16);
#endif
}

__device__ __forceinline__ void wait_for_copies() {
#if defined(__CUDA_ARCH__)
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

// 16 bytes.
struct alignas(16) four_words {
  unsigned int words[4];
};

// Combines the elements [first, first + size) of `table` with `count` updates. The whole block must
// call this function. `apply` has three functions: `element(record)`, `now(record)`, which updates
// the table by an atomic, and `within(element, record)`, which updates an element in shared memory
// by an atomic. `shared` is aligned to 16 bytes and has room for the window. While a thread
// combines `Ahead` updates, it loads the next `Ahead` updates.
template <int Threads, int Ahead, class T, class Record, class Apply>
__device__ __forceinline__ void combine_window(T* table, std::uint64_t first, std::uint32_t size,
                                               const Record* updates, std::uint32_t count,
                                               const Apply& apply, unsigned char* shared) {
  const std::uint32_t tid = threadIdx.x;
  if (count < size / sparse_share) {
    for (std::uint32_t k = tid; k < count; k += Threads) apply.now(load_streaming(updates + k));
    return;
  }
  auto* const window = reinterpret_cast<T*>(shared);
  T* const at = table + first;
  constexpr std::uint32_t a_line = 16 / sizeof(T);
  // The number of whole pieces of 16 bytes. If the window is not aligned, there is no such piece.
  const std::uint32_t lines = reinterpret_cast<std::uintptr_t>(at) % 16 == 0 ? size / a_line : 0;
  for (std::uint32_t k = tid; k < lines; k += Threads)
    begin_copy(window + k * a_line, at + k * a_line);
  for (std::uint32_t k = lines * a_line + tid; k < size; k += Threads) window[k] = at[k];
  Record now[Ahead];
  INTERLACE_UNROLL
  for (std::uint32_t u = 0; u < Ahead; ++u) {
    const std::uint32_t k = u * Threads + tid;
    if (k < count) now[u] = load_streaming(updates + k);
  }
  wait_for_copies();
  __syncthreads();
  for (std::uint32_t begin = tid; begin < count; begin += Ahead * Threads) {
    Record next[Ahead];
    INTERLACE_UNROLL
    for (std::uint32_t u = 0; u < Ahead; ++u) {
      const std::uint32_t k = begin + (Ahead + u) * Threads;
      if (k < count) next[u] = load_streaming(updates + k);
    }
    INTERLACE_UNROLL
    for (std::uint32_t u = 0; u < Ahead; ++u)
      if (begin + u * Threads < count)
        apply.within(window + static_cast<std::uint32_t>(apply.element(now[u]) - first), now[u]);
    INTERLACE_UNROLL
    for (int u = 0; u < Ahead; ++u) now[u] = next[u];
  }
  __syncthreads();
  const auto* const from = reinterpret_cast<const four_words*>(shared);
  auto* const to = reinterpret_cast<four_words*>(at);
  for (std::uint32_t k = tid; k < lines; k += Threads) to[k] = from[k];
  for (std::uint32_t k = lines * a_line + tid; k < size; k += Threads) at[k] = window[k];
}

}  // namespace interlace::cuda::updates
