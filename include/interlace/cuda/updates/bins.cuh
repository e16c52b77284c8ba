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

// Counts the updates whose element does not exist, and describes the first of them.
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
  // [bins]; for each bin, the number of updates that came for it. The updates after the first
  // `room` updates found no room.
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
  return (std::uint64_t{tile} * sizeof(Record) + 7) / 8 * 8 + std::uint64_t{bins} * 12 +
         (32 + 34) * 4;
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

// Selects, from the updates [begin, end) of a producer, the updates whose element belongs to a bin
// of a set. The set's bins go up to bin `last_bin`, even if the set has memory for fewer bins.
template <class Producer>
struct chosen_updates {
  static constexpr bool all = false;
  Producer producer;
  std::uint64_t begin;
  std::uint64_t end;
  std::uint32_t last_bin;  // number of the last bin; the set's first bin has the number 0
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

// A place in shared memory. `store_if` takes no branch, so the lanes of a warp stay together.
template <class T>
class shared_place {
 public:
#if defined(__CUDA_ARCH__)
  __device__ __forceinline__ explicit shared_place(T* at)
      : at_(static_cast<unsigned int>(__cvta_generic_to_shared(at))) {}
  __device__ __forceinline__ shared_place operator+(std::uint32_t n) const {
    shared_place to = *this;
    to.at_ += n * static_cast<unsigned int>(sizeof(T));
    return to;
  }
  __device__ __forceinline__ std::uint32_t operator-(const shared_place& from) const {
    return (at_ - from.at_) / static_cast<unsigned int>(sizeof(T));
  }
  __device__ __forceinline__ void store_if(bool really, const T& value) const {
    word_of<T> words[sizeof(T) / sizeof(word_of<T>)];
    memcpy(words, &value, sizeof(T));
    INTERLACE_UNROLL
    for (unsigned k = 0; k < sizeof(T) / sizeof(word_of<T>); ++k) {
      const unsigned int to = at_ + k * static_cast<unsigned int>(sizeof(word_of<T>));
      if constexpr (sizeof(word_of<T>) == 8)
        asm volatile("{ .reg .pred p; setp.ne.u32 p, %0, 0; @p st.shared.u64 [%1], %2; }" ::"r"(
                         static_cast<unsigned int>(really)),
                     "r"(to), "l"(words[k])
                     : "memory");
      else
        asm volatile("{ .reg .pred p; setp.ne.u32 p, %0, 0; @p st.shared.u32 [%1], %2; }" ::"r"(
                         static_cast<unsigned int>(really)),
                     "r"(to), "r"(words[k])
                     : "memory");
    }
  }

 private:
  unsigned int at_;
#else
  __device__ __forceinline__ explicit shared_place(T* at) : at_(at) {}
  __device__ __forceinline__ shared_place operator+(std::uint32_t n) const {
    return shared_place(at_ + n);
  }
  __device__ __forceinline__ std::uint32_t operator-(const shared_place& from) const {
    return static_cast<std::uint32_t>(at_ - from.at_);
  }
  __device__ __forceinline__ void store_if(bool really, const T& value) const {
    if (really) *at_ = value;
  }

 private:
  T* at_;
#endif
};

// The lanes of the warp that precede this thread.
__device__ __forceinline__ std::uint32_t lanes_before() {
#if defined(__CUDA_ARCH__)
  std::uint32_t lanes;
  asm("mov.u32 %0, %%lanemask_lt;" : "=r"(lanes));
  return lanes;
#else
  return (1U << threadIdx.x % 32) - 1;
#endif
}

// Takes chosen updates of a warp until another row might not fit in `segment`. `capacity` is the
// number of updates for which `segment` has room, and must be a multiple of 32. Returns the number
// of updates taken. All lanes must call this function.
template <class Record, class Walk, class Choose>
__device__ __forceinline__ std::uint32_t take_chosen(Walk& walk, std::uint64_t& left,
                                                     Record* segment, std::uint32_t capacity,
                                                     const Choose& chosen) {
  constexpr std::uint32_t at_once = 4;
  const std::uint32_t before = lanes_before();
  const shared_place<Record> begin(segment);
  shared_place<Record> end = begin;
  const auto keep = [&](const Record& r, bool take) {
    const std::uint32_t taken = __ballot_sync(0xffffffffU, take);
    (end + __popc(taken & before)).store_if(take, r);
    end = end + __popc(taken);
  };
  // A row has one update for each lane. The last row can have fewer updates.
  auto rows = static_cast<std::uint32_t>(min(left / 32, std::uint64_t{1} << 26U));
  const std::uint32_t had = rows;
  while (rows >= at_once && end - begin + at_once * 32 <= capacity) {
    INTERLACE_UNROLL
    for (std::uint32_t u = 0; u < at_once; ++u) {
      const Record r = walk.get();
      walk.advance();
      keep(r, chosen(r));
    }
    rows -= at_once;
  }
  while (rows != 0 && end - begin + 32 <= capacity) {
    const Record r = walk.get();
    walk.advance();
    keep(r, chosen(r));
    --rows;
  }
  left -= std::uint64_t{had - rows} * 32;
  if (left < 32 && left != 0 && end - begin + 32 <= capacity) {
    Record r{};
    const bool there = threadIdx.x % 32 < left;
    if (there) r = walk.get();
    keep(r, there && chosen(r));
    left = 0;
  }
  return end - begin;
}

// A word holds two numbers for each record: bin_unit times the number of the record's bin, plus the
// number of the record among the tile's records of this bin.
inline constexpr std::uint32_t bin_unit = 1U << 18U;

// Appends updates of `source` to the bins, by one block. The block's warps begin at `first_warp`,
// and `warps` warps share the work. `apply` says which element an update belongs to. If a bin has
// no room for updates, `apply` applies these updates. An `apply` that works by blocks takes all
// such updates of a bin together (`send`). Any other `apply` takes one update at a time (`now`).
// The function returns the number of updates that had no room.
template <class Shape, class Record, class Source, class Apply>
__device__ __forceinline__ std::uint32_t append_block(const bin_set<Record>& to,
                                                      const Source& source, std::uint64_t warps,
                                                      std::uint64_t first_warp, const Apply& apply,
                                                      unsigned char* memory) {
  constexpr int Threads = Shape::threads;
  constexpr int Each = Shape::each;
  constexpr std::uint32_t segment = Each * 32;  // number of records of a warp
  constexpr std::uint32_t at_once = 4;          // number of records that a thread copies together
  constexpr std::uint32_t bins_at_once = 4;     // number of bins that a thread reserves together
  auto* const stage = reinterpret_cast<Record*>(memory);  // [tile]
  // For each bin, `x` is the place in the pool of the bin's first record, minus the record's number
  // in the tile. A record has no room in the bin if its number in the tile is `y` or more.
  auto* const place = reinterpret_cast<uint2*>(
      memory + (std::uint64_t{Shape::tile} * sizeof(Record) + 7) / 8 * 8);  // [bins]
  // For each bin, this array first has the number of the bin's records. Later it has the position
  // of the bin's first record in the tile.
  auto* const offset = reinterpret_cast<std::uint32_t*>(place + to.bins);  // [bins + 32]
  std::uint32_t* const sums = offset + to.bins + 32;                       // [33]
  const std::uint32_t tid = threadIdx.x;
  const std::uint32_t lane = tid % 32;
  const std::uint32_t warp = tid / 32;
  // Bin numbers in the whole table fit in 32 bits. An element beyond the end of the table can have
  // a larger bin number. The cast drops the upper bits of this number. The 32-bit numbers are
  // divided among the slices (see append in kernels.cuh), so exactly one slice takes each update,
  // even an update of such an element.
  const auto first_bin = static_cast<std::uint32_t>(to.first >> to.log2);
  const auto bin_of = [&](const Record& r) {
    return static_cast<std::uint32_t>(apply.element(r) >> to.log2) - first_bin;
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
    for (std::uint32_t b = tid; b < to.bins + 32; b += Threads) offset[b] = 0;
    std::uint32_t count = mine.left < segment ? static_cast<std::uint32_t>(mine.left) : segment;
    if constexpr (!Source::all)
      count = take_chosen(walk, mine.left, own_segment, segment,
                          [&](const Record& r) { return bin_of(r) <= source.last_bin; });
    __syncthreads();
    Record records[Each];
    // For each of the thread's updates: bin * bin_unit + number of the record among the tile's
    // records of this bin.
    std::uint32_t rank[Each];
    INTERLACE_UNROLL
    for (std::uint32_t u = 0; u < Each; ++u) {
      const std::uint32_t k = u * 32 + lane;
      if constexpr (Source::all) {
        if (k < count) records[u] = load_streaming(walk + u * 32);
      } else {
        records[u] = own_segment[k];  // places from `count` on keep old contents
      }
    }
    if constexpr (Source::all) {
      walk += segment;
      mine.left -= count;
    }
    // A lane without an update adds to a count after the counts of all bins, so that no lane takes
    // a branch.
    const std::uint32_t own_limit = count > lane ? count - lane : 0;
    std::uint32_t existing = 0;
    INTERLACE_UNROLL
    for (std::uint32_t u = 0; u < Each; ++u) {
      unsigned there = own_limit > u * 32 ? 1 : 0;
      if constexpr (!Source::all) there &= apply.element(records[u]) < source.elements ? 1U : 0U;
      const std::uint32_t bin = bin_of(records[u]);
      const std::uint32_t b = there != 0 ? bin : to.bins + lane;
      rank[u] = b * bin_unit + atomicAdd(offset + b, 1U);
      if constexpr (!Source::all) existing += there;
    }
    if constexpr (!Source::all) {
      if (existing != (own_limit + 31) / 32) {
        INTERLACE_NO_UNROLL
        for (std::uint32_t k = lane; k < count; k += 32)
          if (apply.element(own_segment[k]) >= source.elements)
            note_bad(source.bad, apply.element(own_segment[k]));
      }
    }
    __syncthreads();
    // Each thread has `width` consecutive bins.
    const std::uint32_t width = (to.bins + Threads - 1) / Threads;
    const std::uint32_t begin = min(tid * width, to.bins);
    const std::uint32_t limit = min(begin + width, to.bins);
    // Reserves room. The lanes of a warp take consecutive bins, so that an instruction reaches few
    // sectors of the L2. The block computes its sums while the atomics are under way.
    std::uint32_t base[bins_at_once];
    INTERLACE_UNROLL
    for (std::uint32_t k = 0; k < bins_at_once; ++k) {
      const std::uint32_t b = k * Threads + tid;
      const std::uint32_t own = b < to.bins ? offset[b] : 0;
      base[k] = own != 0 ? atomicAdd(to.filled + b, own) : 0;
    }
    for (std::uint32_t b = bins_at_once * Threads + tid; b < to.bins; b += Threads)
      place[b].x = offset[b] != 0 ? atomicAdd(to.filled + b, offset[b]) : 0;
    std::uint32_t sum = 0;
    for (std::uint32_t b = begin; b < limit; ++b) sum += offset[b];
    std::uint32_t total = 0;
    std::uint32_t start = sum_before(sum, sums, total);
    INTERLACE_UNROLL
    for (std::uint32_t k = 0; k < bins_at_once; ++k) {
      const std::uint32_t b = k * Threads + tid;
      if (b < to.bins) place[b].x = base[k];
    }
    __syncthreads();
    for (std::uint32_t b = begin; b < limit; ++b) {
      const std::uint32_t own = offset[b];
      const std::uint32_t reserved = place[b].x;
      const std::uint32_t fits = reserved < to.room ? min(own, to.room - reserved) : 0;
      offset[b] = start;
      place[b] = make_uint2(b * to.room + reserved - start, start + fits);
      start += own;
    }
    __syncthreads();
    INTERLACE_UNROLL
    for (int u = 0; u < Each; ++u)
      if (rank[u] < to.bins * bin_unit)
        stage[offset[rank[u] / bin_unit] + rank[u] % bin_unit] = records[u];
    __syncthreads();
    std::uint32_t without_room = 0;
    const auto copy = [&](std::uint32_t k, const Record& r, const uint2& p) {
      if (k < p.y)
        to.pool[p.x + k] = r;
      else
        ++without_room;
    };
    std::uint32_t k = tid;
    for (; k + (at_once - 1) * Threads < total; k += at_once * Threads) {
      Record r[at_once];
      uint2 p[at_once];
      INTERLACE_UNROLL
      for (std::uint32_t u = 0; u < at_once; ++u) r[u] = stage[k + u * Threads];
      INTERLACE_UNROLL
      for (std::uint32_t u = 0; u < at_once; ++u) p[u] = place[bin_of(r[u])];
      INTERLACE_UNROLL
      for (std::uint32_t u = 0; u < at_once; ++u) copy(k + u * Threads, r[u], p[u]);
    }
    for (; k < total; k += Threads) copy(k, stage[k], place[bin_of(stage[k])]);
    if constexpr (!Apply::by_blocks) {
      for (k = tid; without_room != 0 && k < total; k += Threads)
        if (k >= place[bin_of(stage[k])].y) apply.now(stage[k]);
    }
    direct += without_room;
    if constexpr (Apply::by_blocks) {
      if (__syncthreads_or(without_room != 0 ? 1 : 0) != 0) {
        for (std::uint32_t b = 0; b < to.bins; ++b) {
          const std::uint32_t end = b + 1 < to.bins ? offset[b + 1] : total;
          for (std::uint32_t first = place[b].y; first < end; first += Apply::most_records)
            apply.send(b, stage + first, min(end - first, Apply::most_records));
        }
      }
    }
    if (__syncthreads_or(mine.left != 0 ? 1 : 0) == 0) break;
  }
  return direct;
}

}  // namespace interlace::cuda::updates
