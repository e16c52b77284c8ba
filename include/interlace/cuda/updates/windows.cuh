// A thread block combines a window of a table with the window's updates, in shared memory.
//
// The block reads and writes the window once, in whole cache lines. Between reading and writing, an
// update costs two accesses to shared memory, no matter where its element lies.
#pragma once

#include <cstdint>

#include "interlace/cuda/updates/bins.cuh"
#include "interlace/cuda/updates/record.cuh"

namespace interlace::cuda::updates {

// If a window has fewer than one update for every `sparse_share` elements, atomics move fewer bytes
// than reading and writing the window.
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

// Part of a table, and the updates in its bin.
template <class T, class Record>
struct filled_window {
  static constexpr std::uint32_t a_line = 16 / sizeof(T);
  T* at = nullptr;  // null if there is no such window
  std::uint64_t first = 0;
  std::uint32_t size = 0;
  // The number of whole pieces of 16 bytes. The elements after them are copied one by one.
  std::uint32_t lines = 0;
  const Record* updates = nullptr;
  std::uint32_t count = 0;
};

// Returns the next window of the block that has many updates, from window number `w` on. Before
// that window, the block can have windows with few updates; the function applies their updates by
// atomics. A block has every gridDim.x-th window. Sets `w` to the number of the block's window
// after the returned one.
template <int Threads, class T, class Record, class Apply>
__device__ __forceinline__ filled_window<T, Record> next_window(
    T* table, const bin_set<Record>& from, std::uint32_t windows, std::uint64_t elements,
    const Apply& apply, std::uint32_t& w) {
  filled_window<T, Record> found;
  while (w < windows && found.at == nullptr) {
    const std::uint32_t number = w;
    w += gridDim.x;
    const std::uint64_t first = from.first + (std::uint64_t{number} << from.log2);
    if (first >= elements) break;
    const std::uint32_t count = min(from.filled[number], from.room);
    const auto size = static_cast<std::uint32_t>(
        min(std::uint64_t{1} << from.log2, static_cast<std::uint64_t>(elements - first)));
    const Record* const updates = from.pool + std::uint64_t{number} * from.room;
    if (count < size / sparse_share) {
      for (std::uint32_t k = threadIdx.x; k < count; k += Threads)
        apply.now(load_streaming(updates + k));
      continue;
    }
    if (count == 0) continue;
    T* const at = table + first;
    const bool aligned = reinterpret_cast<std::uintptr_t>(at) % 16 == 0;
    found = {at, first, size, aligned ? size / found.a_line : 0, updates, count};
  }
  return found;
}

// Combines windows of `table` with their updates, one window after another. The whole block must
// call this function. `apply` has three functions: `element(record)`, `now(record)`, which updates
// the table by an atomic, and `within(element, record)`, which updates an element in shared memory
// by an atomic. `shared` is aligned to 16 bytes and has room for a window. While a thread combines
// `Ahead` updates, it loads the next `Ahead` updates. While the block writes a window back, it
// reads the next window.
template <int Threads, int Ahead, class T, class Record, class Apply>
__device__ __forceinline__ void combine_windows(T* table, const bin_set<Record>& from,
                                                std::uint32_t windows, std::uint64_t elements,
                                                const Apply& apply, unsigned char* shared) {
  const std::uint32_t tid = threadIdx.x;
  auto* const window = reinterpret_cast<T*>(shared);
  auto* const line = reinterpret_cast<four_words*>(shared);
  std::uint32_t w = blockIdx.x;
  auto own = next_window<Threads>(table, from, windows, elements, apply, w);
  if (own.at == nullptr) return;
  const auto read_all = [&](const filled_window<T, Record>& of) {
    for (std::uint32_t k = tid; k < of.lines; k += Threads)
      begin_copy(line + k, of.at + k * of.a_line);
    for (std::uint32_t k = of.lines * of.a_line + tid; k < of.size; k += Threads)
      window[k] = of.at[k];
  };
  read_all(own);
  for (;;) {
    Record now[Ahead];
    INTERLACE_UNROLL
    for (std::uint32_t u = 0; u < Ahead; ++u) {
      const std::uint32_t k = u * Threads + tid;
      if (k < own.count) now[u] = load_streaming(own.updates + k);
    }
    wait_for_copies();
    __syncthreads();
    for (std::uint32_t begin = tid; begin < own.count; begin += Ahead * Threads) {
      Record next[Ahead];
      INTERLACE_UNROLL
      for (std::uint32_t u = 0; u < Ahead; ++u) {
        const std::uint32_t k = begin + (Ahead + u) * Threads;
        if (k < own.count) next[u] = load_streaming(own.updates + k);
      }
      INTERLACE_UNROLL
      for (std::uint32_t u = 0; u < Ahead; ++u)
        if (begin + u * Threads < own.count)
          apply.within(window + static_cast<std::uint32_t>(apply.element(now[u]) - own.first),
                       now[u]);
      INTERLACE_UNROLL
      for (int u = 0; u < Ahead; ++u) now[u] = next[u];
    }
    __syncthreads();
    const auto after = next_window<Threads>(table, from, windows, elements, apply, w);
    // A thread reads only the lines that it has written back itself.
    const bool together = after.at != nullptr && after.lines == own.lines && after.size == own.size;
    auto* const to = reinterpret_cast<four_words*>(own.at);
    for (std::uint32_t k = tid; k < own.lines; k += Threads) {
      to[k] = line[k];
      if (together) begin_copy(line + k, after.at + k * own.a_line);
    }
    for (std::uint32_t k = own.lines * own.a_line + tid; k < own.size; k += Threads) {
      own.at[k] = window[k];
      if (together) window[k] = after.at[k];
    }
    if (after.at == nullptr) return;
    if (!together) {
      __syncthreads();
      read_all(after);
    }
    own = after;
  }
}

}  // namespace interlace::cuda::updates
