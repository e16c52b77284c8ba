// Bins of scattered updates, and how thread blocks append updates to them. The kernels are in
// kernels.cuh.
//
// All bins of a set have room for the same number of updates. A thread block takes a tile of
// updates and counts them by bin. It sorts the tile by bin in shared memory, and reserves room in
// each bin by one atomic. It then copies the updates of each bin as one run.
//
// No thread ever waits for another block. If a bin has no room for an update, the block applies the
// update at once. Nothing is therefore lost, and no distribution of updates can stop a block.
// Updates with a very skewed distribution run as plain atomics.
#pragma once

#include <cstdint>

#include "interlace/cuda/updates/record.cuh"

namespace interlace::cuda::updates {

// The updates whose element does not exist.
struct bad_update {
  unsigned long long count;
  unsigned long long element;  // element of the first bad update
  unsigned int block;          // the thread block that produced the first bad update
  unsigned int thread;
};

__device__ __forceinline__ void note_bad(bad_update* bad, std::uint64_t element) {
  if (atomicAdd(&bad->count, 1ULL) != 0) return;
  bad->element = element;
  bad->block = blockIdx.x;
  bad->thread = threadIdx.x;
}

template <class Record>
struct bin_set {
  Record* pool;  // [bins][room]
  // [bins]; number of updates that came; the bin had no room for those beyond `room`
  std::uint32_t* filled;
  std::uint64_t first;  // the first element of the first bin
  std::uint32_t bins;
  std::uint32_t log2;  // log2 of the number of elements of a bin
  std::uint32_t room;
};

// Returns the sum of `value` over the threads of the block that precede this thread. `total`
// becomes the sum over all threads. `sums` must have 33 words of shared memory. All threads of the
// block must call this function.
__device__ __forceinline__ std::uint32_t sum_before(std::uint32_t value, std::uint32_t* sums,
                                                    std::uint32_t& total) {
  const std::uint32_t lane = threadIdx.x % 32;
  const std::uint32_t warp = threadIdx.x / 32;
  const std::uint32_t warps = blockDim.x / 32;
  std::uint32_t scan = value;
  INTERLACE_UNROLL
  for (std::uint32_t d = 1; d < 32; d *= 2) {
    const std::uint32_t other = __shfl_up_sync(0xffffffffU, scan, d);
    if (lane >= d) scan += other;
  }
  if (lane == 31) sums[warp] = scan;
  __syncthreads();
  std::uint32_t others = lane < warps ? sums[lane] : 0;
  INTERLACE_UNROLL
  for (std::uint32_t d = 1; d < 32; d *= 2) {
    const std::uint32_t other = __shfl_up_sync(0xffffffffU, others, d);
    if (lane >= d) others += other;
  }
  total = __shfl_sync(0xffffffffU, others, 31);
  const std::uint32_t before = __shfl_sync(0xffffffffU, others, warp == 0 ? 0 : warp - 1);
  __syncthreads();
  return scan - value + (warp == 0 ? 0 : before);
}

// The shape of thread blocks that append. A block has `threads` threads, and a tile has `each`
// updates for each thread. A multiprocessor holds at least `blocks` of these thread blocks.
template <int Threads, int Each, int Blocks>
struct append_shape {
  static constexpr int threads = Threads;
  static constexpr int each = Each;
  static constexpr int blocks = Blocks;
  static constexpr std::uint32_t tile = Threads * Each;
  static_assert(Each % 4 == 0 && tile <= 65536);
};

// The shared memory of a block that appends: the tile, and 12 bytes for each bin.
template <class Record>
constexpr std::uint64_t append_shared_bytes(std::uint32_t bins, std::uint32_t tile) {
  return (std::uint64_t{tile} * sizeof(Record) + 7) / 8 * 8 + std::uint64_t{bins} * 12 + 34 * 4;
}

// The updates that a warp still has to take: [at, at + left).
struct warp_part {
  std::uint64_t at;
  std::uint64_t left;
};

// The part of [begin, end) that belongs to warp `number` of `warps` warps.
__device__ __forceinline__ warp_part part_of(std::uint64_t begin, std::uint64_t end,
                                             std::uint64_t warps, std::uint64_t number) {
  const std::uint64_t each = ((end - begin + warps - 1) / warps + 31) / 32 * 32;
  const std::uint64_t at = begin + number * each;
  if (at >= end) return {begin, 0};
  return {at, min(each, end - at)};
}

// Those updates [begin, end) of a producer whose element is in [first, last].
template <class Producer>
struct chosen_updates {
  static constexpr bool all = false;
  Producer producer;
  std::uint64_t begin;
  std::uint64_t end;
  std::uint64_t first;
  std::uint64_t last;
  std::uint64_t elements;  // number of elements of the table
  bad_update* bad;
};

// Updates that lie in memory. All of them are taken.
template <class Record>
struct stored_updates {
  static constexpr bool all = true;
  const Record* records;
  std::uint64_t count;
};

// Takes chosen updates of a warp, as many as `segment` is sure to have room for. `capacity` must be
// a multiple of 128. Returns the number of updates taken. All lanes must call this function.
template <class Record, class Walk, class Choose>
__device__ __forceinline__ std::uint32_t take_chosen(Walk& walk, std::uint64_t& left,
                                                     Record* segment, std::uint32_t capacity,
                                                     const Choose& chosen) {
  constexpr std::uint32_t at_once = 4;
  constexpr std::uint32_t batch = at_once * 32;
  const std::uint32_t lane = threadIdx.x % 32;
  const std::uint32_t before = (1U << lane) - 1;
  std::uint32_t count = 0;
  const auto keep = [&](const Record& r, bool take) {
    const std::uint32_t taken = __ballot_sync(0xffffffffU, take);
    if (take) segment[count + __popc(taken & before)] = r;
    count += __popc(taken);
  };
  // Whole batches lie within the end, so their updates need no test against it.
  std::uint32_t whole = static_cast<std::uint32_t>(
      min(left / batch, static_cast<std::uint64_t>(~std::uint32_t{0} / batch)));
  const std::uint32_t had = whole;
  while (whole != 0 && count + batch <= capacity) {
    INTERLACE_UNROLL
    for (std::uint32_t u = 0; u < at_once; ++u) {
      const Record r = walk.get();
      walk.advance();
      keep(r, chosen(r));
    }
    --whole;
  }
  left -= std::uint64_t{had - whole} * batch;
  if (left < batch && left != 0 && count + batch <= capacity) {
    INTERLACE_UNROLL
    for (std::uint32_t u = 0; u < at_once; ++u) {
      Record r;
      bool take = false;
      if (u * 32 + lane < left) {
        r = walk.get();
        take = chosen(r);
        walk.advance();
      }
      keep(r, take);
    }
    left = 0;
  }
  return count;
}

inline constexpr std::uint32_t nowhere = ~std::uint32_t{0};

// Appends updates of `source` to the bins, by one block. The block's warps begin at `first_warp`,
// and `warps` warps share the work. `apply` says which element an update belongs to. If a bin has
// no room for updates, `apply` applies them: one update at a time by `now`, or, if `apply` works by
// blocks, all such updates of a bin together by `send`. Returns the number of updates that had no
// room.
template <class Shape, class Record, class Source, class Apply>
__device__ __forceinline__ std::uint32_t append_block(const bin_set<Record>& to,
                                                      const Source& source, std::uint64_t warps,
                                                      std::uint64_t first_warp, const Apply& apply,
                                                      unsigned char* memory) {
  constexpr int Threads = Shape::threads;
  constexpr int Each = Shape::each;
  constexpr std::uint32_t segment = Each * 32;  // number of records of a warp
  constexpr std::uint32_t at_once = 4;          // number of bins that a thread handles together
  auto* const stage = reinterpret_cast<Record*>(memory);  // [tile]
  // x: the place in the pool of the bin's first record, minus the record's number in the tile; y:
  // the number in the tile from which on the bin has no room
  auto* const place = reinterpret_cast<uint2*>(
      memory + (std::uint64_t{Shape::tile} * sizeof(Record) + 7) / 8 * 8);  // [bins]
  // First a count; later the number in the tile of the bin's first record.
  auto* const offset = reinterpret_cast<std::uint32_t*>(place + to.bins);  // [bins]
  std::uint32_t* const sums = offset + to.bins;                            // [33]
  const std::uint32_t tid = threadIdx.x;
  const std::uint32_t lane = tid % 32;
  const std::uint32_t warp = tid / 32;
  const auto bin_of = [&](const Record& r) {
    return static_cast<std::uint32_t>((apply.element(r) - to.first) >> to.log2);
  };
  Record* const own_segment = stage + warp * segment;

  warp_part mine{};
  if constexpr (Source::all)
    mine = part_of(0, source.count, warps, first_warp + warp);
  else
    mine = part_of(source.begin, source.end, warps, first_warp + warp);
  auto walk = [&] {
    if constexpr (Source::all)
      return source.records + mine.at + lane;
    else
      return source.producer.begin(mine.left > lane ? mine.at + lane : source.begin);
  }();
  std::uint32_t direct = 0;
  for (;;) {
    for (std::uint32_t b = tid; b < to.bins; b += Threads) offset[b] = 0;
    std::uint32_t count = mine.left < segment ? static_cast<std::uint32_t>(mine.left) : segment;
    if constexpr (!Source::all)
      count = take_chosen(walk, mine.left, own_segment, segment, [&](const Record& r) {
        return apply.element(r) - source.first <= source.last - source.first;
      });
    __syncthreads();
    Record records[Each];
    // Bin << 16 | number of the record among the tile's records of this bin.
    std::uint32_t rank[Each];
    INTERLACE_UNROLL
    for (std::uint32_t u = 0; u < Each; ++u) {
      const std::uint32_t k = u * 32 + lane;
      rank[u] = nowhere;
      if (k < count) {
        if constexpr (Source::all)
          records[u] = load_streaming(walk + u * 32);
        else
          records[u] = own_segment[k];
        rank[u] = 0;
        if constexpr (!Source::all) {
          const std::uint64_t element = apply.element(records[u]);
          if (element >= source.elements) {
            note_bad(source.bad, element);
            rank[u] = nowhere;
          }
        }
      }
    }
    if constexpr (Source::all) {
      walk += segment;
      mine.left -= count;
    }
    INTERLACE_UNROLL
    for (int u = 0; u < Each; ++u) {
      if (rank[u] == nowhere) continue;
      const std::uint32_t b = bin_of(records[u]);
      rank[u] = b << 16U | atomicAdd(offset + b, 1U);
    }
    __syncthreads();
    // Each thread has `width` consecutive bins.
    const std::uint32_t width = (to.bins + Threads - 1) / Threads;
    const std::uint32_t begin = min(tid * width, to.bins);
    const std::uint32_t limit = min(begin + width, to.bins);
    std::uint32_t sum = 0;
    for (std::uint32_t b = begin; b < limit; b += at_once) {
      std::uint32_t base[at_once];
      INTERLACE_UNROLL
      for (std::uint32_t k = 0; k < at_once; ++k) {
        const std::uint32_t own = b + k < limit ? offset[b + k] : 0;
        sum += own;
        base[k] = own != 0 ? atomicAdd(to.filled + b + k, own) : 0;
      }
      INTERLACE_UNROLL
      for (std::uint32_t k = 0; k < at_once; ++k)
        if (b + k < limit) place[b + k].x = base[k];
    }
    std::uint32_t total = 0;
    std::uint32_t start = sum_before(sum, sums, total);
    for (std::uint32_t b = begin; b < limit; ++b) {
      const std::uint32_t own = offset[b];
      const std::uint32_t base = place[b].x;
      const std::uint32_t fits = base < to.room ? min(own, to.room - base) : 0;
      offset[b] = start;
      place[b] = make_uint2(b * to.room + base - start, start + fits);
      start += own;
    }
    __syncthreads();
    INTERLACE_UNROLL
    for (int u = 0; u < Each; ++u)
      if (rank[u] != nowhere) stage[offset[rank[u] >> 16U] + (rank[u] & 0xffffU)] = records[u];
    __syncthreads();
    std::uint32_t without_room = 0;
#if defined(__CUDACC__)
#pragma unroll 4
#endif
    for (std::uint32_t k = tid; k < total; k += Threads) {
      const Record r = stage[k];
      const uint2 p = place[bin_of(r)];
      if (k < p.y) {
        to.pool[p.x + k] = r;
      } else {
        if constexpr (!Apply::by_blocks) apply.now(r);
        ++without_room;
      }
    }
    direct += without_room;
    if constexpr (Apply::by_blocks) {
      if (__syncthreads_or(without_room != 0 ? 1 : 0) != 0) {
        for (std::uint32_t b = 0; b < to.bins; ++b) {
          const std::uint32_t end = b + 1 < to.bins ? offset[b + 1] : total;
          for (std::uint32_t k = place[b].y; k < end; k += Apply::most_records)
            apply.send(b, stage + k, min(end - k, Apply::most_records));
        }
      }
    }
    if (__syncthreads_or(mine.left != 0 ? 1 : 0) == 0) break;
  }
  return direct;
}

}  // namespace interlace::cuda::updates
