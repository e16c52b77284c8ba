// Runs a kernel of the model (interlace/kernel.hpp) on CUDA. A block is a thread block, and a lane
// is a thread. After inlining, the result is the same code as a hand-written kernel.
//
// Launches differ in two template parameters:
//   Policy  what a store to a replicated view does (untracked, inline_stores), whether blocks
//           announce what they have written (tracked), whether accesses are counted (traced), and
//           whether updates of partitioned views are packed (packed_updates)
//   Place   which block of the grid a thread block is (whole_grid, block_range, tracked_grid,
//           launching_grid, packing_grid, traced_grid)
//
// Indices are passed by value, because a kernel's constexpr members have no address on a device.
//
// Memory ordering: loads and stores are weak, and unordered between lanes except by the barriers of
// `each`, `each_warp` and `warp.each`. Atomics are relaxed at device scope (at block scope on
// shared memory); only the atomic of `last_to_arrive` acquires and releases. Nothing here orders
// anything between GPUs, except the announcements of tracked blocks (tracked_grid::add). The
// exchange is a later kernel of the same stream. It acquires and releases at system scope for
// everything that earlier kernels stored.
#pragma once

#if !defined(__CUDACC__)
#error "interlace/kernel_device.cuh is for nvcc; host code includes interlace/kernel.hpp"
#endif

#include <cstdint>
#include <type_traits>

#include "interlace/copy_device.cuh"
#include "interlace/early_launch.cuh"
#include "interlace/kernel.hpp"
#include "interlace/kernel/chunk_table.hpp"
#include "interlace/kernel/trace.hpp"
#include "interlace/update_packer.cuh"

namespace interlace::device {

inline constexpr std::uint32_t warp_lanes = 32;
inline constexpr std::uint32_t all_lanes = 0xffffffffU;

// Stores reach only the device's own replica. Other code delivers them to the other devices.
struct untracked {
  static constexpr bool stores_inline = false;
  static constexpr bool announces = false;
  static constexpr bool counts = false;
  static constexpr bool packs = false;
};

// A store goes to the device's own replica and to every subscriber's replica, by one weak store for
// each replica. A subscriber sees the store only after the next exchange in its stream.
struct inline_stores {
  static constexpr bool stores_inline = true;
  static constexpr bool announces = false;
  static constexpr bool counts = false;
  static constexpr bool packs = false;
};

// Stores reach only the device's own replica. When a block ends or publishes, it adds the number of
// elements that it has written to the counters of its chunks. The block's `Place` has these
// counters. The mover of the chunks waits for the counters.
struct tracked {
  static constexpr bool stores_inline = false;
  static constexpr bool announces = true;
  static constexpr bool counts = false;
  static constexpr bool packs = false;
};

// Like untracked, but the place records every access to a view. Loops of lane.range are not
// unrolled, because lanes with different numbers of iterations would diverge. An iteration is
// therefore one instruction of the warp, as on the simulated node. This policy is only for
// measurements, because it is many times slower.
struct traced {
  static constexpr bool stores_inline = false;
  static constexpr bool announces = false;
  static constexpr bool counts = true;
  static constexpr bool packs = false;
};

// Like traced, but stores to a region also go to its subscribers.
struct traced_inline {
  static constexpr bool stores_inline = true;
  static constexpr bool announces = false;
  static constexpr bool counts = true;
  static constexpr bool packs = false;
};

// Like untracked, but the warps of a block pack updates of a partitioned view. The block's `Place`
// has the queues.
struct packed_updates {
  static constexpr bool stores_inline = false;
  static constexpr bool announces = false;
  static constexpr bool counts = false;
  static constexpr bool packs = true;
};

struct whole_grid {
  __device__ __forceinline__ std::uint64_t index() const { return blockIdx.x; }
  __device__ __forceinline__ std::uint64_t count() const { return gridDim.x; }
};

// Thread block 0 is block `first` of `total` blocks.
struct block_range {
  std::uint32_t first;
  std::uint32_t total;
  __device__ __forceinline__ std::uint64_t index() const { return first + blockIdx.x; }
  __device__ __forceinline__ std::uint64_t count() const { return total; }
};

// The whole grid, whose blocks announce the elements that they have written (kernel/chunks.hpp).
// `Place` is the derived class. Its function `add` adds to a chunk's counter.
template <class Place>
struct announcing_grid : whole_grid {
  kernel::chunk_table launch;

  __device__ __forceinline__ explicit announcing_grid(const kernel::chunk_table& t) : launch(t) {}

  // Announces the elements to which block `index` is mapped. The first warp calls this function,
  // after a barrier of the block.
  __device__ __forceinline__ void announce_block() const {
    const std::uint32_t last = launch.first[blockIdx.x + 1];
    for (std::uint32_t e = launch.first[blockIdx.x]; e < last; e += warp_lanes) {
      const std::uint32_t mine = e + threadIdx.x;
      const kernel::publication p = mine < last ? launch.entries[mine] : kernel::publication{};
      static_cast<const Place*>(this)->add(p.chunk, p.elements);
    }
  }

  // Announces elements [begin, end). The first warp calls this function, after a barrier of the
  // block.
  __device__ __forceinline__ void announce_range(std::uint64_t begin, std::uint64_t end) const {
    std::uint32_t low = 0;  // the first chunk that ends after `begin`
    for (std::uint32_t high = launch.count; low < high;) {
      const std::uint32_t middle = (low + high) / 2;
      if (launch.chunks[middle].end > begin) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    for (; low < launch.count && launch.chunks[low].begin < end; low += warp_lanes) {
      const std::uint32_t c = low + threadIdx.x;
      std::uint32_t elements = 0;
      if (c < launch.count) {
        const kernel::chunk at = launch.chunks[c];
        const std::uint64_t from = begin > at.begin ? begin : at.begin;
        const std::uint64_t to = end < at.end ? end : at.end;
        if (from < to) elements = static_cast<std::uint32_t>(to - from);
      }
      static_cast<const Place*>(this)->add(c, elements);
    }
  }

 protected:
  // Adds to a chunk's counter. Acquires and releases at device scope. Returns whether this addition
  // completes the chunk. If it does, all stores to the chunk that any block announced happen before
  // the next operation of this lane.
  __device__ __forceinline__ bool add_and_look(std::uint32_t chunk, std::uint32_t elements) const {
    unsigned long long seen = 0;
    asm volatile("atom.acq_rel.gpu.global.add.u64 %0, [%1], %2;"
                 : "=l"(seen)
                 : "l"(launch.counters + chunk), "l"(static_cast<unsigned long long>(elements))
                 : "memory");
    return seen + elements == (*launch.launches + 1) * launch.targets[chunk];
  }
};

// The grid of a launch whose chunks another kernel or a stream awaits.
struct tracked_grid : announcing_grid<tracked_grid> {
  using announcing_grid::announcing_grid;

  // Adds to a chunk's counter. The addition releases at device scope, cumulatively over the barrier
  // before it. An observer that acquires the counter therefore sees the stores of all lanes of the
  // block. If flags are used, the addition also acquires. With flags, the addition that completes
  // the chunk sets the chunk's flag with release at system scope. All announced stores to the chunk
  // therefore happen before the end of a wait for the flag.
  __device__ __forceinline__ void add(std::uint32_t chunk, std::uint32_t elements) const {
    if (elements == 0) return;
    if (launch.flags == nullptr) {
      asm volatile("red.release.gpu.global.add.u64 [%0], %1;" ::"l"(launch.counters + chunk),
                   "l"(static_cast<unsigned long long>(elements))
                   : "memory");
    } else if (add_and_look(chunk, elements)) {
      asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(launch.flags + chunk), "r"(1U)
                   : "memory");
    }
  }
};

#if defined(__CUDACC_RDC__)

inline constexpr std::uint32_t copy_threads = 256;

// Copies a chunk to its devices. launching_grid launches this kernel. The kernel is a template so
// that every object file may contain it.
template <class = void>
__global__ void __launch_bounds__(copy_threads)
    copy_chunk(const __grid_constant__ kernel::replicas r, byte_range bytes, std::uint32_t peers) {
  const byte_range own = cut_slice(bytes, blockIdx.x, gridDim.x);
  copy_bytes(r, own.begin, own.end, peers, threadIdx.x, blockDim.x);
}

// The block that completes a chunk launches a grid that copies the chunk, and does not wait for
// that grid (CUDA dynamic parallelism, fire and forget). The kernel ends once all such grids have
// ended.
//
// Memory ordering: the addition that completes a chunk has acquired all stores to the chunk that
// blocks released. The launch makes everything that its thread sees visible to the launched grid.
// That grid's stores are visible to another device after the device's next exchange, which comes
// after the kernel in its stream.
struct launching_grid : announcing_grid<launching_grid> {
  kernel::replicas where;

  __device__ __forceinline__ launching_grid(const kernel::chunk_table& t, const kernel::replicas& r)
      : announcing_grid(t), where(r) {}

  // Adds to a chunk's counter. If this addition completes the chunk, launches the copy. All lanes
  // of the first warp call this function. If the device accepts no more launches, these lanes copy
  // the chunk themselves.
  __device__ __forceinline__ void add(std::uint32_t chunk, std::uint32_t elements) const {
    const bool complete = elements != 0 && add_and_look(chunk, elements);
    unsigned int left = __ballot_sync(all_lanes, complete && !launch_copy(chunk));
    for (; left != 0; left &= left - 1) {
      const std::uint32_t c = __shfl_sync(all_lanes, chunk, __ffs(static_cast<int>(left)) - 1);
      __threadfence();  // all lanes see what the lane that completed the chunk has acquired
      const byte_range bytes = bytes_of(c);
      copy_bytes(where, bytes.begin, bytes.end, launch.chunks[c].peers, threadIdx.x, warp_lanes);
    }
  }

 private:
  __device__ __forceinline__ byte_range bytes_of(std::uint32_t c) const {
    return {launch.chunks[c].begin * launch.element_bytes,
            launch.chunks[c].end * launch.element_bytes};
  }
  __device__ __forceinline__ bool launch_copy(std::uint32_t c) const {
    const byte_range bytes = bytes_of(c);
    const unsigned int blocks = (launch.copy_threads + copy_threads - 1) / copy_threads;
    const unsigned int threads = min(launch.copy_threads, copy_threads);
    copy_chunk<>
        <<<blocks, threads, 0, cudaStreamFireAndForget>>>(where, bytes, launch.chunks[c].peers);
    return cudaGetLastError() == cudaSuccess;
  }
};

#endif

// The whole grid. Its warps pack updates of a partition.
struct packing_grid : whole_grid {
  const kernel::packing_table* table;

  __device__ __forceinline__ explicit packing_grid(const kernel::packing_table& t) : table(&t) {}
  __device__ __forceinline__ warp_packets packets() const { return warp_packets(*table); }
};

// The whole grid, with the counters of a traced kernel. The counters have the layout of
// kernel::trace_totals.
struct traced_grid : whole_grid {
  static constexpr std::uint64_t line_bytes = 128;
  unsigned long long* counters;

  __device__ __forceinline__ explicit traced_grid(unsigned long long* c) : counters(c) {}

  // Counts one instruction of the lanes that are converged here. The additions are relaxed at
  // device scope. The lanes stay converged.
  __device__ __forceinline__ void note(kernel::traced_access kind, kernel::memory_space space,
                                       const void* address, std::uint32_t /*bytes*/) const {
    const std::uint32_t active = __activemask();
    const auto line =
        static_cast<unsigned long long>(reinterpret_cast<std::uintptr_t>(address)) / line_bytes;
    const std::uint32_t same = __match_any_sync(active, line);
    const std::uint32_t lane = threadIdx.x % warp_lanes;
    // The lowest lane of each line.
    const std::uint32_t lines = __ballot_sync(active, (same & ((1U << lane) - 1)) == 0);
    if ((active & ((1U << lane) - 1)) == 0) {
      const std::size_t at = (static_cast<std::size_t>(kind) * kernel::trace_totals::spaces +
                              static_cast<std::size_t>(space)) *
                             2;
      atomicAdd(counters + at, static_cast<unsigned long long>(__popc(lines)));
      atomicAdd(counters + at + 1, static_cast<unsigned long long>(__popc(active)));
    }
    __syncwarp(active);
  }
};

// A range of blocks whose accesses are recorded in a kernel::access_buffer.
struct recording_grid : block_range {
  kernel::access_buffer buffer;

  __device__ __forceinline__ recording_grid(const block_range& range,
                                            const kernel::access_buffer& to)
      : block_range(range), buffer(to) {}

  // Records one instruction of the lanes that are converged here. An access for which the buffer
  // has no room is counted, but not recorded. The additions are relaxed at device scope. The lanes
  // stay converged.
  __device__ __forceinline__ void note(kernel::traced_access kind, kernel::memory_space,
                                       const void* address, std::uint32_t bytes) const {
    const std::uint32_t active = __activemask();
    const std::uint32_t before = active & ((1U << threadIdx.x % warp_lanes) - 1);
    const std::uint32_t words = kernel::access_buffer::head_words + __popc(active);
    unsigned long long at = 0;
    if (before == 0) at = atomicAdd(buffer.used, static_cast<unsigned long long>(words));
    at = __shfl_sync(active, at, __ffs(static_cast<int>(active)) - 1);
    if (at + words <= buffer.capacity) {
      unsigned long long* entry = buffer.words + at;
      if (before == 0) {
        entry[0] = index();
        entry[1] = kernel::access_buffer::pack(kind, threadIdx.x / warp_lanes, bytes, active);
      }
      entry[kernel::access_buffer::head_words + __popc(before)] =
          static_cast<unsigned long long>(reinterpret_cast<std::uintptr_t>(address));
    }
    __syncwarp(active);
  }
};

template <class T>
struct shared_span {
  T* data;
  std::uint32_t size;
};

// A lane's value that lives across barriers, in a register. The object cannot be copied, because a
// lambda that captures it by value would keep a separate copy.
template <class T>
class lane_register {
 public:
  __device__ __forceinline__ explicit lane_register(T value) : value_(value) {}
  lane_register(const lane_register&) = delete;
  lane_register& operator=(const lane_register&) = delete;
  template <class Lane>
  __device__ __forceinline__ T& operator[](const Lane&) const {
    return value_;
  }

 private:
  mutable T value_;
};

// The result of a shuffle: each lane holds its own element.
template <class T>
struct warp_register {
  T value;
  template <class Lane>
  __device__ __forceinline__ T operator[](const Lane&) const {
    return value;
  }
};

// A weak load, through the read-only path if T's size allows it (ld.global.nc). Use it only for
// memory that nothing writes from the end of the kernel's prerequisites until the end of the
// kernel. The load is not ordered with any other access.
template <class T>
__device__ __forceinline__ T load_read_only(const T* p) {
  constexpr bool whole = alignof(T) >= sizeof(T);
  if constexpr (requires { __ldg(p); }) {
    return __ldg(p);
  } else if constexpr (whole && sizeof(T) == 16) {
    return __builtin_bit_cast(T, __ldg(reinterpret_cast<const uint4*>(p)));
  } else if constexpr (whole && sizeof(T) == 8) {
    return __builtin_bit_cast(T, __ldg(reinterpret_cast<const uint2*>(p)));
  } else if constexpr (whole && sizeof(T) == 4) {
    return __builtin_bit_cast(T, __ldg(reinterpret_cast<const unsigned int*>(p)));
  } else if constexpr (whole && sizeof(T) == 2) {
    return __builtin_bit_cast(T, __ldg(reinterpret_cast<const unsigned short*>(p)));
  } else if constexpr (whole && sizeof(T) == 1) {
    return __builtin_bit_cast(T, __ldg(reinterpret_cast<const unsigned char*>(p)));
  } else {
    return *p;
  }
}

// Adds atomically, relaxed at device scope (at block scope if p is in shared memory). Returns the
// old value.
template <class T>
__device__ __forceinline__ T atomic_add_relaxed(T* p, T value) {
  if constexpr (std::is_floating_point_v<T> || sizeof(T) == 4) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8);
    return atomicAdd(p, value);
  } else {
    static_assert(std::is_integral_v<T> && sizeof(T) == 8, "atomics need numbers of 4 or 8 bytes");
    return static_cast<T>(atomicAdd(reinterpret_cast<unsigned long long*>(p),
                                    static_cast<unsigned long long>(value)));
  }
}

// Takes the minimum atomically, relaxed at device scope (at block scope if p is in shared memory).
// Returns the old value. Floating-point numbers are compared as integers, so that one integer
// atomic suffices: numbers without the sign bit ascend like integers, and numbers with the sign bit
// descend. A NaN in memory stays.
template <class T>
__device__ __forceinline__ T atomic_min_relaxed(T* p, T value) {
  if constexpr (std::is_same_v<T, float>) {
    const int bits = __float_as_int(value);
    return bits >= 0 ? __int_as_float(atomicMin(reinterpret_cast<int*>(p), bits))
                     : __uint_as_float(atomicMax(reinterpret_cast<unsigned int*>(p),
                                                 static_cast<unsigned int>(bits)));
  } else if constexpr (std::is_same_v<T, double>) {
    const long long bits = __double_as_longlong(value);
    return bits >= 0 ? __longlong_as_double(atomicMin(reinterpret_cast<long long*>(p), bits))
                     : __longlong_as_double(static_cast<long long>(
                           atomicMax(reinterpret_cast<unsigned long long*>(p),
                                     static_cast<unsigned long long>(bits))));
  } else if constexpr (sizeof(T) == 4) {
    return atomicMin(p, value);
  } else {
    static_assert(std::is_integral_v<T> && sizeof(T) == 8, "atomics need numbers of 4 or 8 bytes");
    using wide = std::conditional_t<std::is_signed_v<T>, long long, unsigned long long>;
    return static_cast<T>(atomicMin(reinterpret_cast<wide*>(p), static_cast<wide>(value)));
  }
}

template <combine Op, class T>
__device__ __forceinline__ T atomic_combine_relaxed(T* p, T value) {
  if constexpr (Op == combine::add) {
    return atomic_add_relaxed(p, value);
  } else {
    return atomic_min_relaxed(p, value);
  }
}

// Hides a value from the compiler, so that the number of iterations of a loop over it is unknown.
template <class I>
__device__ __forceinline__ I opaque(I value) {
  static_assert(sizeof(I) == 4 || sizeof(I) == 8);
  if constexpr (sizeof(I) == 8) {
    asm volatile("" : "+l"(value));
  } else {
    asm volatile("" : "+r"(value));
  }
  return value;
}

// A loop `for (auto i : lane.range(begin, end))`: the plain loop, or a loop that is not unrolled.
template <class I, bool Unrolled>
class counted_range {
 public:
  __device__ __forceinline__ counted_range(I begin, I end, I step)
      : begin_(begin), end_(end), step_(step) {}

  struct sentinel {
    I end;
  };
  class iterator {
   public:
    __device__ __forceinline__ iterator(I value, I step) : value_(value), step_(step) {}
    __device__ __forceinline__ I operator*() const { return value_; }
    __device__ __forceinline__ iterator& operator++() {
      value_ = static_cast<I>(value_ + step_);
      if constexpr (!Unrolled) value_ = opaque(value_);
      return *this;
    }
    __device__ __forceinline__ bool operator!=(sentinel s) const { return value_ < s.end; }

   private:
    I value_, step_;
  };
  __device__ __forceinline__ iterator begin() const { return {begin_, step_}; }
  __device__ __forceinline__ sentinel end() const { return {end_}; }

 private:
  I begin_, end_, step_;
};

// Loads of the views. All loads are weak and unordered. local<const T> and the fronts of regions
// and reductions take the read-only path. Nothing writes these fronts between the end of a kernel's
// prerequisites and the end of the kernel, because the exchange lets no peer write a buffer before
// this device's readers have retired.
template <class T, class I>
__device__ __forceinline__ std::remove_const_t<T> load_element(const local<T>& view, I i) {
  if constexpr (std::is_const_v<T>) {
    return load_read_only(view.data + static_cast<std::uint64_t>(i));
  } else {
    return view.data[static_cast<std::uint64_t>(i)];
  }
}
template <class T, class I>
__device__ __forceinline__ T load_element(const replicated<T>& view, I i) {
  return load_read_only(view.front + static_cast<std::uint64_t>(i));
}
template <class T, combine Op, class I>
__device__ __forceinline__ T load_element(const reduced<T, Op>& view, I i) {
  return load_read_only(view.front + static_cast<std::uint64_t>(i));
}
template <class T, class I>
__device__ __forceinline__ T load_element(const unified<T>& view, I i) {
  return view.data[static_cast<std::uint64_t>(i)];
}
// Loads an element. Only the owner of the element may call this function. Updates of other devices
// may arrive at any time.
template <class T, combine Op, class I>
__device__ __forceinline__ T load_element(const partitioned<T, Op>& view, I i) {
  return view.parts[view.device][static_cast<std::uint64_t>(i) - view.boundaries[view.device]];
}
template <class T, class I>
__device__ __forceinline__ T load_element(const shared_span<T>& view, I i) {
  return view.data[i];
}

// Records an access under a policy that counts, and does nothing under other policies. `view` and
// `i` give the element that is accessed; a load of a region reads the front.
template <class Policy, class Place, class T>
__device__ __forceinline__ void note(const Place& place, kernel::traced_access kind,
                                     kernel::memory_space space, const T* element) {
  if constexpr (Policy::counts) place.note(kind, space, element, sizeof(T));
}
template <class Policy, class Place, class T, class I>
__device__ __forceinline__ void note_load(const Place& place, const local<T>& view, I i) {
  note<Policy>(place, kernel::traced_access::load, kernel::memory_space::local,
               view.data + static_cast<std::uint64_t>(i));
}
template <class Policy, class Place, class T, class I>
__device__ __forceinline__ void note_load(const Place& place, const replicated<T>& view, I i) {
  note<Policy>(place, kernel::traced_access::load, kernel::memory_space::replicated,
               view.front + static_cast<std::uint64_t>(i));
}
template <class Policy, class Place, class T, class I>
__device__ __forceinline__ void note_load(const Place& place, const unified<T>& view, I i) {
  note<Policy>(place, kernel::traced_access::load, kernel::memory_space::unified,
               view.data + static_cast<std::uint64_t>(i));
}
template <class Policy, class Place, class T, combine Op, class I>
__device__ __forceinline__ void note_load(const Place& place, const reduced<T, Op>& view, I i) {
  note<Policy>(place, kernel::traced_access::load, kernel::memory_space::reduced,
               view.front + static_cast<std::uint64_t>(i));
}
template <class Policy, class Place, class T, combine Op, class I>
__device__ __forceinline__ void note_load(const Place& place, const partitioned<T, Op>& view, I i) {
  note<Policy>(
      place, kernel::traced_access::load, kernel::memory_space::local,
      view.parts[view.device] + static_cast<std::uint64_t>(i) - view.boundaries[view.device]);
}
template <class Policy, class Place, class T, class I>
__device__ __forceinline__ void note_load(const Place&, const shared_span<T>&, I) {}

// Notes an update beyond the end of a partitioned array, unless an earlier update is noted.
static __device__ __noinline__ void note_mistake(update_mistake* at, std::uint64_t element,
                                                 std::uint64_t block) {
  if (atomicExch(&at->made, 1U) != 0) return;
  at->element = element;
  at->block = block;
  at->lane = threadIdx.x;
}

// Whether lanes of the block may have written the view's memory. In this case, a load that the
// block or the warp shares must wait for these lanes.
template <class View>
inline constexpr bool written_by_kernel = false;
template <class T>
inline constexpr bool written_by_kernel<local<T>> = !std::is_const_v<T>;
template <class T>
inline constexpr bool written_by_kernel<unified<T>> = true;
template <class T, combine Op>
inline constexpr bool written_by_kernel<partitioned<T, Op>> = true;
template <class T>
inline constexpr bool written_by_kernel<shared_span<T>> = true;

template <class Policy, class Place, std::uint32_t Threads>
class lane {
 public:
  __device__ __forceinline__ explicit lane(Place place) : place_(place) {}

  __device__ __forceinline__ std::uint32_t index() const { return threadIdx.x; }
  __device__ __forceinline__ std::uint32_t in_warp() const { return threadIdx.x % warp_lanes; }
  __device__ __forceinline__ std::uint64_t global_index() const {
    return place_.index() * threads() + threadIdx.x;
  }
  __device__ __forceinline__ std::uint64_t global_count() const {
    return place_.count() * threads();
  }

  template <class B, class E>
  __device__ __forceinline__ auto range(B begin, E end) const {
    using index = std::common_type_t<B, E>;
    return counted_range<index, !Policy::counts>(static_cast<index>(begin), static_cast<index>(end),
                                                 index{1});
  }
  template <class B, class E, class S>
  __device__ __forceinline__ auto range(B begin, E end, S step) const {
    using index = std::common_type_t<B, E>;
    return counted_range<index, !Policy::counts>(static_cast<index>(begin), static_cast<index>(end),
                                                 static_cast<index>(step));
  }

  // On a GPU, carrying() is a plain loop, as range() is. Only the simulator needs to know that an
  // iteration needs the result of the previous iteration.
  template <class B, class E>
  __device__ __forceinline__ auto carrying(std::uint32_t /*unroll*/, const operations& /*each*/,
                                           B begin, E end) const {
    return range(begin, end);
  }
  template <class B, class E, class S>
  __device__ __forceinline__ auto carrying(std::uint32_t /*unroll*/, const operations& /*each*/,
                                           B begin, E end, S step) const {
    return range(begin, end, step);
  }

  // The compiler unrolls loops itself.
  static constexpr bool unrolls() { return false; }

  // The following loads are weak (see load_element).
  template <class View, class I>
  __device__ __forceinline__ auto load(const View& view, I i) const {
    note_load<Policy>(place_, view, i);
    return load_element(view, i);
  }
  template <class View, class I>
  __device__ __forceinline__ auto load_index(const View& view, I i) const {
    return load(view, i);
  }

  // Stores an element. The store is weak. Other lanes of the block see it after the block's next
  // barrier. Later kernels of the stream see it after this kernel's end.
  template <class T, class I>
  __device__ __forceinline__ void store(const local<T>& view, I i,
                                        std::type_identity_t<T> value) const {
    note<Policy>(place_, kernel::traced_access::store, kernel::memory_space::local,
                 view.data + static_cast<std::uint64_t>(i));
    view.data[static_cast<std::uint64_t>(i)] = value;
  }
  template <class T, class I>
  __device__ __forceinline__ void store(const unified<T>& view, I i,
                                        std::type_identity_t<T> value) const {
    note<Policy>(place_, kernel::traced_access::store, kernel::memory_space::unified,
                 view.data + static_cast<std::uint64_t>(i));
    view.data[static_cast<std::uint64_t>(i)] = value;
  }
  template <class T, class I>
  __device__ __forceinline__ void store(const shared_span<T>& view, I i,
                                        std::type_identity_t<T> value) const {
    view.data[i] = value;
  }
  // Stores to the back of the device's own replica and, with inline_stores, to the back of each
  // subscriber's replica. A subscriber sees the store only after the next exchange in its stream.
  template <class T, class I>
  __device__ __forceinline__ void store(const replicated<T>& view, I i,
                                        std::type_identity_t<T> value) const {
    const auto n = static_cast<std::uint64_t>(i);
    note<Policy>(place_, kernel::traced_access::store, kernel::memory_space::replicated,
                 view.back + n);
    view.back[n] = value;
    if constexpr (Policy::stores_inline) {
      if (view.readers != nullptr) {
        note<Policy>(place_, kernel::traced_access::load, kernel::memory_space::local,
                     view.readers + (n >> view.reader_shift));
      }
      view.each_subscriber(n, [&](std::uint32_t d) {
        T* peer = view.peer_back[d] + n;
        note<Policy>(place_, kernel::traced_access::store, kernel::memory_space::replicated, peer);
        *peer = value;
      });
    }
  }

  // The following atomics on global memory are relaxed at device scope. They order no other access.
  template <class T, class I>
  __device__ __forceinline__ T atomic_add(const local<T>& view, I i,
                                          std::type_identity_t<T> value) const {
    T* slot = view.data + static_cast<std::uint64_t>(i);
    note<Policy>(place_, kernel::traced_access::atomic, kernel::memory_space::local, slot);
    return atomic_add_relaxed(slot, value);
  }
  template <class T, class I>
  __device__ __forceinline__ T atomic_min(const local<T>& view, I i,
                                          std::type_identity_t<T> value) const {
    T* slot = view.data + static_cast<std::uint64_t>(i);
    note<Policy>(place_, kernel::traced_access::atomic, kernel::memory_space::local, slot);
    return atomic_min_relaxed(slot, value);
  }
  // The following atomics on shared memory are relaxed at block scope. They order no other access.
  template <class T, class I>
  __device__ __forceinline__ T atomic_add(const shared_span<T>& view, I i,
                                          std::type_identity_t<T> value) const {
    return atomic_add_relaxed(view.data + i, value);
  }
  template <class T, class I>
  __device__ __forceinline__ T atomic_min(const shared_span<T>& view, I i,
                                          std::type_identity_t<T> value) const {
    return atomic_min_relaxed(view.data + i, value);
  }

  // Combines the value with the copy of the element that this block uses, relaxed at device scope.
  // The exchange folds the copies.
  template <class T, combine Op, class I>
  __device__ __forceinline__ void reduce(const reduced<T, Op>& view, I i,
                                         std::type_identity_t<T> value) const {
    const std::uint64_t copy =
        view.copies == 1 ? 0 : static_cast<std::uint32_t>(place_.index()) % view.copies;
    T* slot = view.partial + copy * view.size + static_cast<std::uint64_t>(i);
    note<Policy>(place_, kernel::traced_access::atomic, kernel::memory_space::reduced, slot);
    atomic_combine_relaxed<Op>(slot, value);
  }

  // Stores an element that this device owns, as a weak store.
  template <class T, combine Op, class I>
  __device__ __forceinline__ void store(const partitioned<T, Op>& view, I i,
                                        std::type_identity_t<T> value) const {
    T* element =
        view.parts[view.device] + static_cast<std::uint64_t>(i) - view.boundaries[view.device];
    note<Policy>(place_, kernel::traced_access::store, kernel::memory_space::local, element);
    *element = value;
  }
  // Updates an element. The update is relaxed at system scope, and `store` is a weak store. With
  // packed_updates, an update of another device's element waits in shared memory and is made by the
  // next exchange at the latest. An index beyond the end of the array changes nothing.
  template <class T, combine Op, class I>
  __device__ __forceinline__ void update(const partitioned<T, Op>& view, I i,
                                         std::type_identity_t<T> value) const {
    update_if(true, view, i, value);
  }
  // Does the same as `update` if `really` is true, and otherwise nothing. Lanes of a warp that call
  // this function together, whether or not they have an update, pack faster than lanes that take a
  // branch around `update`.
  template <class T, combine Op, class I>
  __device__ __forceinline__ void update_if(bool really, const partitioned<T, Op>& view, I i,
                                            std::type_identity_t<T> value) const {
    const auto n = static_cast<std::uint64_t>(i);
    const std::uint32_t owner = view.owner(n);
    const std::uint64_t offset = n - view.boundaries[owner];
    if constexpr (Policy::packs) {
      // A lane without an update of another device's element also takes this path, so that the
      // lanes of a warp stay together.
      if (view.queues.packet_bytes != 0) {
        const bool packs = really && n < view.size && view.queues.packs(view.device, owner);
        place_.packets().template add<Op>(packs ? view.queues.bin(owner, offset) : no_bin + 0U,
                                          static_cast<std::uint32_t>(offset), value);
        if (packs) return;
      }
    }
    if (!really) return;
    if (n >= view.size) {
      if (view.mistake != nullptr) note_mistake(view.mistake, n, place_.index());
      return;
    }
    T* element = view.parts[owner] + offset;
    note<Policy>(
        place_, Op == combine::store ? kernel::traced_access::store : kernel::traced_access::atomic,
        kernel::memory_space::local, element);
    combine_system<Op>(element, value);
  }

  // Only the simulated node spends time on operations.
  template <class N>
  __device__ __forceinline__ void compute(operation, N) const {}
  __device__ __forceinline__ void compute(const operations&) const {}

 private:
  __device__ __forceinline__ std::uint32_t threads() const {
    return Threads != 0 ? Threads : blockDim.x;
  }
  [[no_unique_address]] Place place_;
};

template <class Policy, class Place, std::uint32_t Threads>
class warp {
 public:
  using lane_type = lane<Policy, Place, Threads>;

  __device__ __forceinline__ explicit warp(Place place) : place_(place) {}

  __device__ __forceinline__ std::uint32_t index() const { return threadIdx.x / warp_lanes; }
  __device__ __forceinline__ std::uint32_t count() const {
    return (Threads != 0 ? Threads : blockDim.x) / warp_lanes;
  }

  // Calls f for every lane. f sees everything that lanes of the warp stored in earlier calls of
  // each, because a warp-wide barrier separates two calls. There is no barrier before the first
  // call.
  template <class F>
  __device__ __forceinline__ void each(F&& f) const {
    order();
    f(lane_type(place_));
  }

  // Calls f(*this). Only nodes that record accesses use the key.
  template <class F>
  __device__ __forceinline__ void repeated(std::uint32_t, F&& f) const {
    f(*this);
  }

  // Loads the same element for all lanes. If the kernel may write the view, a warp-wide barrier
  // comes before the load.
  template <class View, class I>
  __device__ __forceinline__ auto load(const View& view, I i) const {
    if constexpr (written_by_kernel<View>) order();
    note_load<Policy>(place_, view, i);
    return load_element(view, i);
  }

  // The following functions exchange registers of the whole warp (shfl.sync). They order no memory
  // access.
  //
  // The sum is a butterfly. In the butterfly, lane 0 adds in the same order as the tree of the
  // other nodes. Addition is commutative, so all lanes get the same bits.
  template <class T>
  __device__ __forceinline__ T sum(const lane_register<T>& state) const {
    T value = state[*this];
    if constexpr (std::is_integral_v<T> && sizeof(T) == 4) {
      return static_cast<T>(__reduce_add_sync(all_lanes, value));
    } else {
#pragma unroll
      for (std::uint32_t mask = warp_lanes / 2; mask != 0; mask /= 2) {
        value = value + __shfl_xor_sync(all_lanes, value, mask);
      }
      return value;
    }
  }
  template <class T>
  __device__ __forceinline__ T min(const lane_register<T>& state) const {
    T value = state[*this];
    if constexpr (std::is_integral_v<T> && sizeof(T) == 4) {
      return static_cast<T>(__reduce_min_sync(all_lanes, value));
    } else {
#pragma unroll
      for (std::uint32_t mask = warp_lanes / 2; mask != 0; mask /= 2) {
        value = combine_values<T, combine::min>(value, __shfl_xor_sync(all_lanes, value, mask));
      }
      // For zeros of different sign and for NaNs, the order of the operands decides the result. All
      // lanes therefore take the result of lane 0.
      if constexpr (std::is_floating_point_v<T>) value = __shfl_sync(all_lanes, value, 0);
      return value;
    }
  }
  __device__ __forceinline__ std::uint64_t ballot(const lane_register<bool>& state) const {
    return __ballot_sync(all_lanes, state[*this]);
  }
  template <class T>
  __device__ __forceinline__ warp_register<T> shuffle_xor(const lane_register<T>& state,
                                                          std::uint32_t mask) const {
    return {static_cast<T>(__shfl_xor_sync(all_lanes, state[*this], static_cast<int>(mask)))};
  }
  template <class T>
  __device__ __forceinline__ warp_register<T> shuffle(const lane_register<T>& state,
                                                      std::uint32_t from) const {
    return {static_cast<T>(__shfl_sync(all_lanes, state[*this], static_cast<int>(from)))};
  }

 private:
  __device__ __forceinline__ void order() const {
    if (pending_) __syncwarp();
    pending_ = true;
  }

  [[no_unique_address]] Place place_;
  mutable bool pending_ = false;
};

template <class Policy, class Place, std::uint32_t Threads>
class block {
 public:
  using lane_type = lane<Policy, Place, Threads>;
  using warp_type = warp<Policy, Place, Threads>;

  __device__ __forceinline__ explicit block(Place place) : place_(place) {}

  __device__ __forceinline__ std::uint64_t index() const { return place_.index(); }
  __device__ __forceinline__ std::uint64_t count() const { return place_.count(); }
  __device__ __forceinline__ std::uint32_t threads() const {
    return Threads != 0 ? Threads : blockDim.x;
  }
  __device__ __forceinline__ constexpr std::uint32_t warp_width() const { return warp_lanes; }

  // Calls f for every lane. In f, all lanes of the block see everything that lanes of the block
  // stored before, because a block-wide barrier separates one each (or each_warp) from the next.
  // There is no barrier before the first call, so a kernel with a single each has no barrier.
  template <class F>
  __device__ __forceinline__ void each(F&& f) {
    order();
    f(lane_type(place_));
  }
  template <class F>
  __device__ __forceinline__ void each_warp(F&& f) {
    order();
    f(warp_type(place_));
  }

  // Loads the same element for all lanes. A kernel must call this function outside of each. If the
  // kernel may write the view, a block-wide barrier comes before the load.
  template <class View, class I>
  __device__ __forceinline__ auto load(const View& view, I i) {
    if constexpr (written_by_kernel<View>) order();
    note_load<Policy>(place_, view, i);
    return load_element(view, i);
  }

  // Returns whether this block is the last of n blocks that arrive at counter i. Acquires and
  // releases at device scope, between two barriers of the block. Everything that lanes of all n
  // blocks stored before is visible to all lanes of the last block, by loads that do not assume
  // constant memory. The last arrival sets the counter from n - 1 back to 0.
  template <class I>
  __device__ __forceinline__ bool last_to_arrive(const local<std::uint32_t>& counters, I i,
                                                 std::uint32_t n) {
    order();
    bool last = false;
    if (threadIdx.x == 0) {
      std::uint32_t* counter = counters.data + static_cast<std::uint64_t>(i);
      note<Policy>(place_, kernel::traced_access::atomic, kernel::memory_space::local, counter);
      std::uint32_t before = 0;
      asm volatile("atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2;"
                   : "=r"(before)
                   : "l"(counter), "r"(n - 1)
                   : "memory");
      last = before == n - 1;
    }
    pending_ = false;
    return __syncthreads_or(static_cast<int>(last)) != 0;
  }

  // Releases at device scope everything that all lanes of the block have stored so far, and
  // announces elements [begin, end) of the launch's region. The function does nothing for another
  // region, or if the mechanism needs no announcements. A kernel that publishes must announce every
  // element to which its blocks are mapped, and must announce each element once. The function
  // begins with a barrier of the block.
  template <class T, class B, class E>
  __device__ __forceinline__ void publish(const replicated<T>& view, B begin, E end) {
    if constexpr (Policy::announces) {
      if (view.region != place_.launch.region) return;
      __syncthreads();
      if (threadIdx.x < warp_lanes) {
        place_.announce_range(static_cast<std::uint64_t>(begin), static_cast<std::uint64_t>(end));
      }
      pending_ = false;
      published_ = true;
    }
  }
  // Ends the block. The entry point calls this function after the kernel's operator(). The function
  // announces the elements to which the block is mapped, unless the block has published. It also
  // sends packets that are not full.
  __device__ __forceinline__ void finish() {
    if constexpr (Policy::packs) place_.packets().finish();
    if constexpr (Policy::announces) {
      if (published_) return;
      __syncthreads();
      if (threadIdx.x < warp_lanes) place_.announce_block();
    }
  }

  // Allocates arrays one after another from the launch's dynamic shared memory. Offsets are
  // constants after inlining.
  template <class T>
  __device__ __forceinline__ shared_span<T> shared_array(std::uint32_t elements) {
    static_assert(alignof(T) <= 16);
    extern __shared__ __align__(16) unsigned char interlace_shared_memory[];
    const auto align = static_cast<std::uint32_t>(alignof(T));
    const std::uint32_t offset = (shared_used_ + align - 1) / align * align;
    shared_used_ = offset + elements * static_cast<std::uint32_t>(sizeof(T));
    return {reinterpret_cast<T*>(interlace_shared_memory + offset), elements};
  }
  template <class T>
  __device__ __forceinline__ lane_register<T> make_lane_state(T initial) {
    return lane_register<T>(initial);
  }

 private:
  __device__ __forceinline__ void order() {
    if (pending_) __syncthreads();
    pending_ = true;
  }

  [[no_unique_address]] Place place_;
  bool pending_ = false;
  bool published_ = false;
  std::uint32_t shared_used_ = 0;
};

// The number of threads of a block for which a kernel is compiled. The result is 0 if the kernel
// does not state `threads`; blocks of such a kernel may have any number of threads.
template <class Kernel>
constexpr std::uint32_t fixed_threads() {
  if constexpr (requires { Kernel::threads; }) {
    return Kernel::threads;
  } else {
    return 0;
  }
}
template <class Kernel>
constexpr std::uint32_t most_threads() {
  return fixed_threads<Kernel>() != 0 ? fixed_threads<Kernel>() : 1024;
}
// The number of threads that a multiprocessor of the compiled architecture holds at once.
#if defined(__CUDA_ARCH__) && \
    ((__CUDA_ARCH__ > 800 && __CUDA_ARCH__ < 900) || __CUDA_ARCH__ >= 1200)
inline constexpr std::uint32_t threads_at_once = 1536;
#else
inline constexpr std::uint32_t threads_at_once = 2048;
#endif
// The number of blocks for which registers must suffice. The result is 0 if the kernel states no
// number; the launch bounds of such a kernel have no second number.
template <class Kernel>
constexpr std::uint32_t least_blocks() {
  if constexpr (requires { Kernel::blocks_at_once; }) {
    static_assert(fixed_threads<Kernel>() != 0, "blocks_at_once needs a number of threads");
    static_assert(Kernel::blocks_at_once * fixed_threads<Kernel>() <= 2048,
                  "no multiprocessor holds more than 2048 threads");
    return Kernel::blocks_at_once * fixed_threads<Kernel>() <= threads_at_once
               ? Kernel::blocks_at_once
               : threads_at_once / fixed_threads<Kernel>();
  } else {
    return 0;
  }
}

// The entry points of kernels. Kernel objects stay in the parameter bank, so that views with many
// members cost no registers. A kernel that announces nothing can be launched early, so its entry
// point waits for the prerequisites.
template <class Policy, class Kernel>
__global__ void __launch_bounds__(most_threads<Kernel>(), least_blocks<Kernel>())
    run_grid(const __grid_constant__ Kernel kernel) {
  await_prerequisites();
  block<Policy, whole_grid, fixed_threads<Kernel>()> own(whole_grid{});
  kernel(own);
}
template <class Policy, class Kernel>
__global__ void __launch_bounds__(most_threads<Kernel>(), least_blocks<Kernel>())
    run_ranged(const __grid_constant__ Kernel kernel, std::uint32_t first, std::uint32_t total) {
  await_prerequisites();
  block<Policy, block_range, fixed_threads<Kernel>()> own(block_range{first, total});
  kernel(own);
}
template <class Kernel>
__global__ void __launch_bounds__(most_threads<Kernel>(), least_blocks<Kernel>())
    run_tracked(const __grid_constant__ Kernel kernel,
                const __grid_constant__ kernel::chunk_table launch) {
  block<tracked, tracked_grid, fixed_threads<Kernel>()> own{tracked_grid(launch)};
  kernel(own);
  own.finish();
}
#if defined(__CUDACC_RDC__)
template <class Kernel>
__global__ void __launch_bounds__(most_threads<Kernel>(), least_blocks<Kernel>())
    run_launching(const __grid_constant__ Kernel kernel,
                  const __grid_constant__ kernel::chunk_table launch,
                  const __grid_constant__ kernel::replicas where) {
  block<tracked, launching_grid, fixed_threads<Kernel>()> own{launching_grid(launch, where)};
  kernel(own);
  own.finish();
}
#endif
template <class Kernel>
__global__ void __launch_bounds__(most_threads<Kernel>(), least_blocks<Kernel>())
    run_packing(const __grid_constant__ Kernel kernel,
                const __grid_constant__ kernel::packing_table table) {
  await_prerequisites();
  const packing_grid place(table);
  place.packets().clear();
  block<packed_updates, packing_grid, fixed_threads<Kernel>()> own(place);
  kernel(own);
  own.finish();
}
template <class Kernel>
__global__ void __launch_bounds__(most_threads<Kernel>(), least_blocks<Kernel>())
    run_traced(const __grid_constant__ Kernel kernel, unsigned long long* counters) {
  block<traced, traced_grid, fixed_threads<Kernel>()> own(traced_grid{counters});
  kernel(own);
}
template <class Policy, class Kernel>
__global__ void __launch_bounds__(most_threads<Kernel>(), least_blocks<Kernel>())
    run_recorded(const __grid_constant__ Kernel kernel, kernel::access_buffer buffer,
                 block_range range) {
  block<Policy, recording_grid, fixed_threads<Kernel>()> own(recording_grid{range, buffer});
  kernel(own);
}

}  // namespace interlace::device
