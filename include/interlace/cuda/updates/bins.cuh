// Bins of scattered updates in GPU memory, and the two kernels of a round.
// interlace/updates_device.cuh says how programs use them.
//
// The pool is cut into chunks. A bin owns a list of chunks, and its cursor counts the updates that
// were appended since the bin was emptied. A round runs two kernels:
//
//   plan   one thread block: takes back the chunks that the last round emptied, makes the list of
//          the chunks of the group that is due, and gives each bin chunks for the next updates
//   round  all thread blocks, in turns: append a tile of updates to bins, and apply due chunks
//
// No thread ever waits for another block. An update for which its bin has no room is applied at
// once, by an atomic of its own. So no update is lost, and no distribution of updates can stop a
// round. A very skewed distribution runs as fast as plain atomics.
#pragma once

#include <cstdint>

#include "interlace/cuda/updates/record.cuh"

namespace interlace::cuda::updates {

// A part of a chunk that is due.
struct alignas(16) due_chunk {
  std::uint32_t chunk;
  std::uint32_t count;  // its updates
  std::uint32_t line;   // lines of 128 bytes of the table to fetch meanwhile, or the chunk's bin
  std::uint32_t lines;
};

// Updates whose element does not exist.
struct bad_update {
  unsigned long long count;
  unsigned long long element;  // the element of the first bad update
  unsigned int block;          // the block that produced it
  unsigned int thread;
};

__device__ __forceinline__ void note_bad(bad_update* bad, std::uint64_t element) {
  if (atomicAdd(&bad->count, 1ULL) != 0) return;
  bad->element = element;
  bad->block = blockIdx.x;
  bad->thread = threadIdx.x;
}

// How the block brings lines of a window into the L2.
enum class fetch_by : std::uint32_t {
  nothing,
  bulk,     // one thread requests all lines
  loads,    // each thread loads lines, and does not wait for them
  touches,  // atomics that change nothing; each sector is then written back, as whole lines
};

template <class Record>
struct bin_memory {
  Record* pool;
  std::uint32_t* cursor;       // [bins] updates appended since the bin was emptied
  std::uint32_t* capacity;     // [bins] updates for which the bin has chunks
  std::uint32_t* owned;        // [bins] chunks
  std::uint32_t* before;       // [bins] the cursor at the last plan
  std::uint32_t* lists;        // [bins x list_entries] chunks
  std::uint32_t* free;         // [chunks] a stack
  due_chunk* due;              // [chunks]
  std::uint32_t* counts;       // [2] free chunks, due chunks
  unsigned long long* direct;  // updates that were applied at once
  bad_update* bad;
  std::uint64_t elements;
  std::uint32_t bins;
  std::uint32_t window_log2;
  std::uint32_t chunk_log2;
  std::uint32_t list_entries;
  fetch_by fetch;
};

// --- plan
// -----------------------------------------------------------------------------------------

struct plan_arguments {
  std::uint32_t begin;  // the bins that are due
  std::uint32_t end;
  std::uint32_t
      expected;  // updates for which each bin gets room; 0: slightly more than it got last time
  bool last;     // no more updates follow
  std::uint32_t ahead;  // how many bins ahead the table is fetched
  std::uint32_t lines;  // lines of 128 bytes of a window; 0: nothing is fetched
  std::uint32_t table_lines;
};

inline constexpr std::uint32_t plan_threads = 1024;

// Returns the sum of `value` over all threads of the block with lower numbers. `total` gets the sum
// over all threads. `sums` has 33 words of shared memory. All threads of the block must call it.
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

__device__ __forceinline__ std::uint32_t chunks_for(std::uint32_t records, std::uint32_t log2) {
  return (records >> log2) + ((records & ((1U << log2) - 1)) != 0 ? 1U : 0U);
}

// Runs in one block of Threads threads. `shared` has bins + 33 words.
template <std::uint32_t Threads, class Record>
__device__ void plan_round(const bin_memory<Record>& m, const plan_arguments& a,
                           std::uint32_t* shared) {
  std::uint32_t* const start = shared;  // [bins] where a bin's due chunks begin in the list
  std::uint32_t* const sums = shared + m.bins;
  const std::uint32_t tid = threadIdx.x;
  const std::uint32_t emptied = m.counts[1];
  const std::uint32_t had = m.counts[0];
  for (std::uint32_t k = tid; k < emptied; k += Threads) m.free[had + k] = m.due[k].chunk;
  std::uint32_t due = 0;
  for (std::uint32_t first = 0; first < m.bins; first += Threads) {
    const std::uint32_t b = first + tid;
    std::uint32_t own = 0;
    if (b < m.bins) {
      const std::uint32_t cursor = m.cursor[b];
      const std::uint32_t kept = min(cursor, m.capacity[b]);
      m.before[b] = cursor - m.before[b];  // the updates that the bin got in the last round
      m.cursor[b] = kept;
      if (b >= a.begin && b < a.end) own = chunks_for(kept, m.chunk_log2);
    }
    std::uint32_t total = 0;
    const std::uint32_t at = sum_before(own, sums, total);
    if (b < m.bins) start[b] = due + at;
    due += total;
  }
  __syncthreads();  // makes the lists and `start` visible to the block
  const std::uint32_t lane = tid % 32;
  for (std::uint32_t b = a.begin + tid / 32; b < a.end; b += Threads / 32) {
    const std::uint32_t kept = m.cursor[b];
    const std::uint32_t chunks = chunks_for(kept, m.chunk_log2);
    const std::uint32_t left = m.owned[b] - chunks;
    std::uint32_t* const list = m.lists + std::uint64_t{b} * m.list_entries;
    const std::uint32_t target = b + a.ahead;
    for (std::uint32_t k = lane; k < chunks; k += 32) {
      due_chunk d;
      d.chunk = list[k];
      d.count = min(kept - (k << m.chunk_log2), 1U << m.chunk_log2);
      d.line = b;
      d.lines = 0;
      if (a.lines != 0 && target < a.end) {
        const std::uint64_t from = std::uint64_t{a.lines} * k / chunks;
        const std::uint64_t to = std::uint64_t{a.lines} * (k + 1) / chunks;
        const std::uint64_t begin = std::uint64_t{a.lines} * target + from;
        const std::uint64_t limit = a.table_lines;
        d.line = static_cast<std::uint32_t>(begin);
        d.lines = begin >= limit ? 0 : static_cast<std::uint32_t>(min(to - from, limit - begin));
      }
      m.due[start[b] + k] = d;
    }
    __syncwarp();
    for (std::uint32_t k = 0; k < left; k += 32) {
      const std::uint32_t moved = k + lane < left ? list[chunks + k + lane] : 0;
      __syncwarp();
      if (k + lane < left) list[k + lane] = moved;
      __syncwarp();
    }
    if (lane == 0) {
      m.owned[b] = left;
      m.cursor[b] = 0;
    }
  }
  __syncthreads();
  const std::uint32_t free = had + emptied;
  std::uint32_t given = 0;
  for (std::uint32_t first = 0; first < m.bins && !a.last; first += Threads) {
    const std::uint32_t b = first + tid;
    std::uint32_t need = 0;
    std::uint32_t owned = 0;
    if (b < m.bins) {
      owned = m.owned[b];
      const std::uint32_t got = m.before[b];
      const std::uint32_t chunk = 1U << m.chunk_log2;
      const std::uint32_t want = a.expected != 0 ? a.expected : got + got / 16 + chunk / 2;
      const std::uint32_t wanted =
          min(chunks_for(m.cursor[b] + want, m.chunk_log2), m.list_entries);
      need = wanted > owned ? wanted - owned : 0;
    }
    std::uint32_t total = 0;
    const std::uint32_t at = given + sum_before(need, sums, total);
    given += total;
    if (b < m.bins) {
      const std::uint32_t room = at < free ? free - at : 0;
      const std::uint32_t taken = min(need, room);
      std::uint32_t* const list = m.lists + std::uint64_t{b} * m.list_entries + owned;
      for (std::uint32_t k = 0; k < taken; ++k) list[k] = m.free[free - 1 - at - k];
      m.owned[b] = owned + taken;
      m.capacity[b] = (owned + taken) << m.chunk_log2;
      m.before[b] = m.cursor[b];
    }
  }
  if (tid == 0) {
    m.counts[0] = given < free ? free - given : 0;
    m.counts[1] = due;
  }
}

// --- round
// ----------------------------------------------------------------------------------------

// The range [begin, end) of a producer's updates.
struct round_arguments {
  std::uint64_t begin;
  std::uint64_t end;
};

// A round's thread blocks: `threads` threads, `each` updates of a tile for each thread, and at
// least `blocks` thread blocks for each multiprocessor.
template <int Threads, int Each, int Blocks>
struct round_shape {
  static constexpr int threads = Threads;
  static constexpr int each = Each;
  static constexpr int blocks = Blocks;
  static constexpr std::uint32_t tile = Threads * Each;
};

// The shared memory of a block of the round kernel.
template <class Record>
struct round_shared {
  Record* stage;  // [tile] the tile's records, sorted by bin
  uint2*
      place;  // [bins] x: the place of a bin's first record, minus the record's number in the tile
              //        y: from this number in the tile on, records go to the place in `second`
  std::uint32_t* second;  // [bins] the same as x, for the bin's next chunk
  std::uint32_t*
      offset;  // [bins] first a count, then the number in the tile of the bin's first record
  std::uint32_t* base;  // [bins] the cursor before the tile, minus `offset`
  std::uint32_t* sums;  // [33]
};

template <class Record>
constexpr std::uint64_t round_shared_bytes(std::uint32_t bins, std::uint32_t tile) {
  return (std::uint64_t{tile} * sizeof(Record) + 7) / 8 * 8 + std::uint64_t{bins} * 20 + 34 * 4;
}

template <class Record>
__device__ __forceinline__ round_shared<Record> cut_shared(unsigned char* memory,
                                                           std::uint32_t bins, std::uint32_t tile) {
  round_shared<Record> s;
  s.stage = reinterpret_cast<Record*>(memory);
  memory += (std::uint64_t{tile} * sizeof(Record) + 7) / 8 * 8;
  s.place = reinterpret_cast<uint2*>(memory);
  s.second = reinterpret_cast<std::uint32_t*>(memory + std::uint64_t{bins} * 8);
  s.offset = s.second + bins;
  s.base = s.offset + bins;
  s.sums = s.base + bins;
  return s;
}

inline constexpr std::uint32_t nowhere = ~std::uint32_t{0};

// Appends one tile of updates, from `first` on, to the bins. `apply.now` applies
// an update for which there is no room, and `apply.element` says an update's element. Returns how
// many updates found no room.
template <class Shape, class Record, class Producer, class Apply>
__device__ __forceinline__ std::uint32_t append_tile(const bin_memory<Record>& m,
                                                     const round_shared<Record>& s,
                                                     const Producer& producer, std::uint64_t first,
                                                     std::uint64_t end, const Apply& apply) {
  constexpr int Threads = Shape::threads;
  constexpr int Each = Shape::each;
  const std::uint32_t tid = threadIdx.x;
  for (std::uint32_t b = tid; b < m.bins; b += Threads) s.offset[b] = 0;
  __syncthreads();
  Record records[Each];
  std::uint32_t rank[Each];
  {
    std::uint64_t i = first + tid / 32 * (32 * Each) + tid % 32;
    auto updates = producer.begin(i < end ? i : first);
    INTERLACE_UNROLL
    for (int u = 0; u < Each; ++u) {
      rank[u] = nowhere;
      if (i < end) {
        records[u] = updates.get();
        const std::uint64_t element = apply.element(records[u]);
        if (element < m.elements) {
          rank[u] = atomicAdd(s.offset + (element >> m.window_log2), 1U);
        } else {
          note_bad(m.bad, element);
        }
      }
      i += 32;
      if (u + 1 < Each) updates.advance();
    }
  }
  __syncthreads();
  // Each thread handles `width` consecutive bins.
  const std::uint32_t width = (m.bins + Threads - 1) / Threads;
  std::uint32_t count = 0;
  for (std::uint32_t k = 0; k < width; ++k) {
    const std::uint32_t b = tid * width + k;
    if (b >= m.bins) break;
    const std::uint32_t own = s.offset[b];
    count += own;
    if (own != 0) s.base[b] = atomicAdd(m.cursor + b, own);
  }
  std::uint32_t total = 0;
  std::uint32_t offset = sum_before(count, s.sums, total);
  for (std::uint32_t k = 0; k < width; ++k) {
    const std::uint32_t b = tid * width + k;
    if (b >= m.bins) break;
    const std::uint32_t own = s.offset[b];
    s.offset[b] = offset;
    if (own != 0) {
      const std::uint32_t base = s.base[b];
      const std::uint32_t capacity = m.capacity[b];
      uint2 place = make_uint2(0, offset);
      std::uint32_t second = nowhere;
      if (base < capacity) {
        const std::uint32_t chunk = 1U << m.chunk_log2;
        const std::uint32_t used = base & (chunk - 1);
        const std::uint32_t fits = min(own, chunk - used);
        const std::uint32_t* const list =
            m.lists + std::uint64_t{b} * m.list_entries + (base >> m.chunk_log2);
        place.x = (list[0] << m.chunk_log2) + used - offset;
        place.y = offset + fits;
        if (fits < own && own - fits <= chunk && base + fits < capacity)
          second = (list[1] << m.chunk_log2) - place.y;
      }
      s.place[b] = place;
      s.second[b] = second;
      s.base[b] = base - offset;
    }
    offset += own;
  }
  __syncthreads();
  INTERLACE_UNROLL
  for (int u = 0; u < Each; ++u) {
    if (rank[u] != nowhere) {
      const auto b = static_cast<std::uint32_t>(apply.element(records[u]) >> m.window_log2);
      s.stage[s.offset[b] + rank[u]] = records[u];
    }
  }
  __syncthreads();
  std::uint32_t direct = 0;
  bool left = false;
  for (std::uint32_t k = tid; k < total; k += Threads) {
    const Record r = s.stage[k];
    const auto b = static_cast<std::uint32_t>(apply.element(r) >> m.window_log2);
    const uint2 place = s.place[b];
    std::uint32_t to = place.x + k;
    bool room = true;
    if (k >= place.y) {
      const std::uint32_t second = s.second[b];
      to = second + k;
      if (second == nowhere) {
        const std::uint32_t at = s.base[b] + k;
        room = at < m.capacity[b];
        if (room)
          to = (m.lists[std::uint64_t{b} * m.list_entries + (at >> m.chunk_log2)] << m.chunk_log2) +
               (at & ((1U << m.chunk_log2) - 1));
      }
    }
    if (room) {
      m.pool[to] = r;
    } else {
      if constexpr (Apply::by_blocks)
        left = true;
      else
        apply.now(r);
      ++direct;
    }
  }
  if constexpr (Apply::by_blocks) {
    // The updates of a bin are consecutive. Updates without room come last.
    if (__syncthreads_or(left ? 1 : 0) != 0) {
      for (std::uint32_t b = 0; b < m.bins; ++b) {
        const std::uint32_t begin = s.offset[b];
        const std::uint32_t limit = b + 1 < m.bins ? s.offset[b + 1] : total;
        if (begin == limit) continue;
        const std::uint32_t cursor = s.base[b] + begin;
        const std::uint32_t capacity = m.capacity[b];
        const std::uint32_t from = begin + (cursor < capacity ? capacity - cursor : 0);
        for (std::uint32_t k = from; k < limit; k += 1U << m.chunk_log2)
          apply.send(b, s.stage + k, min(limit - k, 1U << m.chunk_log2));
      }
      __syncthreads();  // all threads must be done before the next tile overwrites the offsets
    }
  }
  return direct;
}

template <int Threads>
__device__ __forceinline__ void fetch_lines(fetch_by how, const void* table, std::uint32_t line,
                                            std::uint32_t lines) {
#if defined(__CUDA_ARCH__)
  const char* const from = static_cast<const char*>(table) + std::uint64_t{line} * 128;
  if (how == fetch_by::touches) {
    for (std::uint32_t k = threadIdx.x; k < lines * 4; k += Threads)
      asm volatile("red.relaxed.gpu.global.or.b32 [%0], %1;" ::"l"(from + std::uint64_t{k} * 32),
                   "r"(0)
                   : "memory");
  } else if (how == fetch_by::loads) {
    for (std::uint32_t k = threadIdx.x; k < lines * 8; k += Threads) {
      unsigned int v[4];
      asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
                   : "l"(from + std::uint64_t{k} * 16));
    }
#if __CUDA_ARCH__ >= 900
  } else if (how == fetch_by::bulk && threadIdx.x == 0 && lines != 0) {
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(lines * 128)
                 : "memory");
#endif
  }
#else
  (void)how;
  (void)table;
  (void)line;
  (void)lines;
#endif
}

// The whole block applies `chunks` due chunks. Their numbers are first, first + gridDim.x, and so
// on, up to `due`. While the block applies a chunk, it loads the next one.
template <int Threads, class Record, class Apply>
__device__ __forceinline__ void apply_chunks(const bin_memory<Record>& m, std::uint64_t first,
                                             std::uint32_t chunks, std::uint32_t due,
                                             const Apply& apply) {
  const std::uint32_t tid = threadIdx.x;
  const auto entry = [&](std::uint32_t k) {
    const std::uint64_t at = first + std::uint64_t{k} * gridDim.x;
    return k < chunks && at < due ? m.due[at] : due_chunk{0, 0, 0, 0};
  };
  const auto records = [&](const due_chunk& d) {
    return m.pool + (std::uint64_t{d.chunk} << m.chunk_log2);
  };
  const auto load = [&](const due_chunk& d, std::uint32_t k) {
    return load_streaming(records(d) + (k < d.count ? k : 0));
  };
  due_chunk now = entry(0);
  due_chunk next = entry(1);
  Record one = load(now, tid);
  Record other = load(now, tid + Threads);
  for (std::uint32_t k = 0; k < chunks && now.count != 0; ++k) {
    const due_chunk after = entry(k + 2);
    const Record next_one = load(next, tid);
    const Record next_other = load(next, tid + Threads);
    if (m.fetch != fetch_by::nothing)
      fetch_lines<Threads>(m.fetch, apply.table_bytes(), now.line, now.lines);
    if (tid < now.count) apply.now(one);
    if (tid + Threads < now.count) apply.now(other);
    for (std::uint32_t n = tid + 2 * Threads; n < now.count; n += Threads)
      apply.now(load_streaming(records(now) + n));
    now = next;
    next = after;
    one = next_one;
    other = next_other;
  }
}

// Whole blocks send due chunks, in the way in which apply_chunks applies them. The list is sorted
// by bin, and neighbouring bins go to the same receiver. To keep all receivers busy, blocks take
// chunks from as many places of the list as there are receivers.
template <class Record, class Apply>
__device__ __forceinline__ void send_chunks(const bin_memory<Record>& m, std::uint64_t first,
                                            std::uint32_t chunks, std::uint32_t due,
                                            const Apply& apply) {
  const std::uint32_t receivers = apply.receivers();
  const std::uint32_t part = (due + receivers - 1) / receivers;
  for (std::uint32_t k = 0; k < chunks; ++k) {
    const std::uint64_t turn = first + std::uint64_t{k} * gridDim.x;
    if (turn / receivers >= part) break;
    const std::uint64_t at = turn % receivers * part + turn / receivers;
    if (at >= due) continue;
    const due_chunk d = m.due[at];
    apply.send(d.line, m.pool + (std::uint64_t{d.chunk} << m.chunk_log2), d.count);
  }
}

// One block's part of a round.
template <class Shape, class Record, class Producer, class Apply>
__device__ __forceinline__ void run_round(const bin_memory<Record>& m, const round_arguments& a,
                                          const Producer& producer, const Apply& apply,
                                          unsigned char* shared) {
  constexpr std::uint32_t tile = Shape::tile;
  const round_shared<Record> s = cut_shared<Record>(shared, m.bins, tile);
  const std::uint64_t tiles = (a.end - a.begin + tile - 1) / tile;
  const std::uint32_t due = m.counts[1];
  const std::uint32_t chunks_a_step = tile >> m.chunk_log2;
  // The number of chunks is rounded up at each of these places of the list, so a few more chunks
  // are counted than exist.
  const std::uint64_t due_places = due == 0 ? 0 : std::uint64_t{due} + apply.receivers();
  const std::uint64_t turns = max((tiles + gridDim.x - 1) / gridDim.x,
                                  (due_places + std::uint64_t{chunks_a_step} * gridDim.x - 1) /
                                      (std::uint64_t{chunks_a_step} * gridDim.x));
  std::uint32_t direct = 0;
  for (std::uint64_t turn = 0; turn < turns; ++turn) {
    // Half of the blocks append first, so that both kinds of work run at the same time.
    for (std::uint32_t half = 0; half < 2; ++half) {
      if ((half == 0) == (blockIdx.x % 2 == 0)) {
        const std::uint64_t step = turn * gridDim.x + blockIdx.x;
        if (step < tiles)
          direct += append_tile<Shape>(m, s, producer, a.begin + step * tile, a.end, apply);
      } else {
        // At any time, all blocks work on neighbouring chunks.
        const std::uint64_t first = turn * chunks_a_step * gridDim.x + blockIdx.x;
        if constexpr (Apply::by_blocks) {
          send_chunks(m, first, chunks_a_step, due, apply);
        } else {
          if (first < due) apply_chunks<Shape::threads>(m, first, chunks_a_step, due, apply);
        }
      }
    }
  }
  if (direct != 0) atomicAdd(m.direct, static_cast<unsigned long long>(direct));
}

}  // namespace interlace::cuda::updates
