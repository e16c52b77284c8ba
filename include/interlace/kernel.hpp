// How a kernel is written once and compiled for every node.
//
// A kernel is a functor over a block:
//
//   struct scale {
//     static constexpr std::uint32_t threads = 256;
//     interlace::local<const float> in;
//     interlace::replicated<float> out;
//     template <class Block> INTERLACE_KERNEL void operator()(Block& block) const {
//       block.each([&](auto lane) {
//         const auto i = lane.global_index();
//         if (i < in.size) lane.store(out, i, 2.0f * lane.load(in, i));
//       });
//     }
//   };
//
// The block that a node passes offers (B block, W warp, L lane; `View` is one of the views below):
//
//   B.index(), B.count(), B.threads()       this block, blocks of the grid, lanes of a block
//   B.warp_width()                          32 on NVIDIA, 64 on R9 Nano: a property of the machine
//   B.each(f)                               f(L) for every lane; a block-wide barrier separates one
//                                           each (or each_warp) from the next
//   B.each_warp(f)                          f(W) for every warp
//   B.load(View, i)                         the same element for the whole block
//   B.publish(replicated, begin, end)       releases what the block has stored to [begin, end); all
//                                           lanes' earlier stores to it are visible to whoever sees
//                                           the chunk as ready. Without it the end of the block
//                                           does
//   B.last_to_arrive(local, i, n)           true in the last of n blocks of a device (n >= 1) that
//                                           come to counter i, an std::uint32_t that is 0 before;
//                                           it is 0 again behind the last. Acquires and releases:
//                                           what all n stored to `local` arrays before is visible
//                                           to all lanes of the last, by local<T>, not by
//                                           local<const T>. A block-wide barrier; no block waits
//                                           for another
//   shared<T>(B, n)                         n elements of shared memory, uninitialised
//   lane_state<T>(B [, v])                  one T a lane that lives across barriers; s[L] is a T&
//   W.index(), W.count()                    this warp in its block, warps of the block
//   W.each(f)                               f(L) for every lane; ends in a warp-wide barrier
//   W.load(View, i)                         the same element for the whole warp
//   W.sum(s), W.min(s), W.ballot(s)         over a lane_state; every lane gets the result
//   W.shuffle_xor(s, mask), W.shuffle(s, k) the state of lane (own ^ mask), of lane k: read r[L]
//   W.repeated(key, f)                      f(W), which is the same for the same key: each lane
//                                           takes the same way through it, and in shared memory
//                                           reaches the same places from where the warp's part of
//                                           it begins. Elsewhere it may load other elements, and
//                                           store to local arrays, but not to regions. The
//                                           simulated node records f once for each key
//   L.index(), L.in_warp()                  this lane in its block, in its warp
//   L.global_index(), L.global_count()      over the whole grid
//   L.range(begin, end [, step])            for (auto i : L.range(b, e)): a loop whose iterations
//                                           lanes of a warp execute together
//   L.load(View | shared, i)                independent of all other loads
//   L.load_index(View | shared, i)          a load whose value forms addresses: what is loaded
//                                           through it waits for it
//   L.store(View | shared, i, value)
//   L.atomic_add|min(local | shared, i, v)  returns the old value; relaxed, scope of the device
//   L.reduce(reduced, i, v)                 adds to the region's element, or takes the minimum
//   L.compute(operations)                   of each kind so many, after all loads before; only the
//                                           simulated node spends time on them
//   L.compute(operation, n)                 of one kind
//
// Control flow around each, each_warp, last_to_arrive and W.each is the same for all lanes
// concerned.
//
// Of its static members, `threads` says how many lanes a block has always, and `blocks_at_once`,
// which needs it, for how many blocks at a time a multiprocessor's registers are to last under
// every mechanism: what a mechanism needs of registers, as inline stores do for the addresses of
// peers, then takes none of the kernel's occupancy. Both are optional. Only GPUs look at the
// second, and those whose multiprocessors hold fewer threads do not.
//
// Memory semantics. A kernel reads a region's front and writes its back. Node::exchange publishes
// and swaps: it is complete on a device when everything that the device subscribes to has arrived,
// and nobody writes a peer's buffer before that peer's readers have retired. In an epoch (the span
// between two exchanges) one device writes an element. There are two buffers: an element that an
// epoch does not store shows, after its exchange, what it was one exchange earlier than before. So
// either every epoch stores an element or, once set_front gave it a value, none does. Plain loads
// and stores are unordered between lanes except by the barriers above, and between blocks except by
// last_to_arrive.
#pragma once

#include <cstdint>

#include "interlace/base/limits.hpp"

#if defined(__CUDACC__)
// Stands in front of a kernel's operator().
#define INTERLACE_KERNEL __device__ __forceinline__
// Stands in front of a function that kernels and the host call.
#define INTERLACE_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define INTERLACE_KERNEL inline
#define INTERLACE_HOST_DEVICE inline
#endif

namespace interlace {

// What L.compute counts.
enum class operation : std::uint8_t {
  fp32,
  fp64,
  integer,  // also logic, shifts, comparisons and addresses
  special,  // reciprocals, roots, conversions between floating point and others
};
inline constexpr std::uint32_t operation_kinds = 4;

// How many of each kind.
struct operations {
  std::uint32_t fp32 = 0;
  std::uint32_t fp64 = 0;
  std::uint32_t integer = 0;
  std::uint32_t special = 0;

  INTERLACE_HOST_DEVICE friend operations operator+(const operations& a, const operations& b) {
    return {a.fp32 + b.fp32, a.fp64 + b.fp64, a.integer + b.integer, a.special + b.special};
  }
};

// An array in the device's own memory. local<const T> promises that nobody writes it from when all
// before the kernel in its stream has ended until the kernel ends, so that loads may take the
// read-only path.
template <class T>
struct local {
  T* data = nullptr;
  std::uint64_t size = 0;  // elements

  // NOLINTNEXTLINE(google-explicit-constructor): as T* becomes const T*
  INTERLACE_HOST_DEVICE operator local<const T>() const { return {data, size}; }
};

// An array of the device's own memory that nobody writes while the kernel runs.
template <class T>
struct local<const T> {
  const T* data = nullptr;
  std::uint64_t size = 0;
};

// Devices (bit d: device d) that receive the elements [begin, end) of a region.
struct subscriber_range {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint32_t devices = 0;
};

// The number of the lowest bit of a set that is not empty.
INTERLACE_HOST_DEVICE std::uint32_t lowest_bit(std::uint32_t set) {
#if defined(__CUDA_ARCH__)
  return static_cast<std::uint32_t>(__ffs(static_cast<int>(set)) - 1);
#else
  return static_cast<std::uint32_t>(__builtin_ctz(set));
#endif
}

// A region: replicated on several devices with 1:1 addresses. Indices count the whole region on
// every device. `back` may be written where this device owns the element.
template <class T>
struct replicated {
  const T* front = nullptr;
  T* back = nullptr;
  std::uint64_t size = 0;
  std::uint32_t region = 0;     // identifies the region on its node
  std::uint32_t device = 0;     // whose replica this is
  std::uint32_t everybody = 0;  // subscribers of all elements; 0 where ranges differ
  std::uint32_t range_count = 0;
  subscriber_range ranges[max_subscriber_ranges] = {};
  // Of each 2^reader_shift elements, the other devices that stores go to: nobody writes them while
  // kernels run. Null: all subscribers.
  const std::uint16_t* readers = nullptr;
  std::uint32_t reader_shift = 0;
  T* peer_back[max_devices] = {};

  // The other devices that a store of element i goes to.
  INTERLACE_HOST_DEVICE std::uint32_t subscribers(std::uint64_t i) const {
    if (readers != nullptr) return readers[i >> reader_shift];
    if (everybody != 0) return everybody;
    std::uint32_t devices = 0;
    for (std::uint32_t r = 0; r < range_count; ++r) {
      if (i >= ranges[r].begin && i < ranges[r].end) devices |= ranges[r].devices;
    }
    return devices;
  }
  // Calls f(d) for each of them, from the device behind this one on: devices that store at the same
  // time begin with different ones, so that no link is asked for by all of them.
  template <class F>
  INTERLACE_HOST_DEVICE void each_subscriber(std::uint64_t i, const F& f) const {
    const std::uint32_t all = subscribers(i);
    const std::uint32_t next = device + 1;
    // Bit k: device next + k, modulo 32.
    std::uint32_t rest = all >> next | all << (32 - next);
    for (; rest != 0; rest &= rest - 1) f((lowest_bit(rest) + next) % 32);
  }
};

// One copy on the node, its pages spread over the devices by a page-to-home map; every device loads
// and stores it at the same address. Stores become visible to other devices at the next exchange.
template <class T>
struct unified {
  T* data = nullptr;
  std::uint64_t size = 0;
};

// How contributions of devices are combined.
enum class combine : std::uint8_t { add, min };

// A region whose devices' contributions the exchange combines: `front` holds the result of the
// previous epoch. Each element is accumulated in `copies` places that blocks use in turn, which
// spares contention; the exchange folds them in a fixed order and resets them to the identity.
template <class T, combine Op = combine::add>
struct reduced {
  const T* front = nullptr;
  T* partial = nullptr;  // [copies][size]
  std::uint64_t size = 0;
  std::uint32_t copies = 1;
};

// The value that leaves a combination unchanged.
template <class T, combine Op>
INTERLACE_HOST_DEVICE constexpr T combine_identity() {
  if constexpr (Op == combine::add) {
    return T{0};
  } else {
    // Half the largest finite power keeps the expression free of <limits> in device code.
    if constexpr (T{1} / T{2} != T{0}) {
      return sizeof(T) == 8 ? static_cast<T>(1.7976931348623157e308)
                            : static_cast<T>(3.4028234663852886e38F);
    } else {
      return static_cast<T>(static_cast<T>(~T{0}) < T{0}
                                ? static_cast<T>((T{1} << (sizeof(T) * 8 - 2)) - 1) * 2 + 1
                                : static_cast<T>(~T{0}));
    }
  }
}

// The combination of two values.
template <class T, combine Op>
INTERLACE_HOST_DEVICE constexpr T combine_values(T a, T b) {
  if constexpr (Op == combine::add) return a + b;
  return b < a ? b : a;
}

// Shared memory of the block, uninitialised: `elements` elements.
template <class T, class Block>
INTERLACE_KERNEL auto shared(Block& block, std::uint32_t elements) {
  return block.template shared_array<T>(elements);
}

// One T for each lane, which keeps its value across barriers.
template <class T, class Block>
INTERLACE_KERNEL auto lane_state(Block& block, T initial = T{}) {
  return block.template make_lane_state<T>(initial);
}

// The lowest lane of a ballot that is not empty.
INTERLACE_HOST_DEVICE std::uint32_t lowest_lane(std::uint64_t ballot) {
#if defined(__CUDA_ARCH__)
  return static_cast<std::uint32_t>(__ffsll(static_cast<long long>(ballot)) - 1);
#else
  return static_cast<std::uint32_t>(__builtin_ctzll(ballot));
#endif
}

// How a kernel is launched: `shared_bytes` is all that shared<T> may hand out in a block.
struct grid {
  std::uint64_t blocks = 0;
  std::uint32_t threads = 0;
  std::uint32_t shared_bytes = 0;
};

}  // namespace interlace
