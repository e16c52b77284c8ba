// The kernel model: a kernel is written once and compiled for every node.
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
//   B.publish(replicated, begin, end)       releases the block's stores to [begin, end): all lanes'
//                                           earlier stores to this range are visible to an observer
//                                           that sees the chunk as ready. Without this call, the
//                                           block's end publishes
//   B.last_to_arrive(local, i, n)           true in the last of n blocks of a device (n >= 1) that
//                                           arrive at counter i, a std::uint32_t that must be 0
//                                           before and is 0 again afterwards. Acquires and
//                                           releases: all n blocks' earlier stores to `local`
//                                           arrays are visible to all lanes of the last block, by
//                                           local<T>, not by local<const T>. A block-wide barrier;
//                                           no block waits for another
//   shared<T>(B, n)                         n elements of shared memory, uninitialised
//   lane_state<T>(B [, v])                  one T for each lane that keeps its value across
//                                           barriers; s[L] is a T&
//   W.index(), W.count()                    number of this warp in its block; warps of the block
//   W.each(f)                               f(L) for every lane; ends in a warp-wide barrier
//   W.load(View, i)                         the same element for the whole warp
//   W.sum(s), W.min(s), W.ballot(s)         over a lane_state; every lane gets the result
//   W.shuffle_xor(s, mask), W.shuffle(s, k) returns r: r[L] is the state of lane (own ^ mask), or
//                                           of lane k
//   W.repeated(key, f)                      calls f(W). For the same key, f must do the same:
//                                           each lane takes the same path through f, and accesses
//                                           the same places of shared memory, relative to the start
//                                           of the warp's part. In other memory f may load other
//                                           elements, and store to local arrays but not to regions.
//                                           The simulated node records f once for each key
//   L.index(), L.in_warp()                  number of this lane in its block; in its warp
//   L.global_index(), L.global_count()      number of this lane in the grid; lanes of the grid
//   L.range(begin, end [, step])            for (auto i : L.range(b, e)): a loop whose iterations
//                                           the lanes of a warp execute together
//   L.carrying(unroll, operations, begin, end [, step])
//                                           L.range for a loop such as a sum, in which each
//                                           iteration needs the result of the iteration before: the
//                                           loads of `unroll` iterations are in flight together,
//                                           and each iteration executes these operations, as
//                                           L.compute does
//   L.load(View | shared, i)                independent of all other loads
//   L.load_index(View | shared, i)          a load whose value forms addresses: loads at these
//                                           addresses wait for it
//   L.store(View | shared, i, value)
//   L.atomic_add|min(local | shared, i, v)  returns the old value; relaxed, device scope
//   L.reduce(reduced, i, v)                 adds to the region's element, or takes the minimum
//   L.update(partitioned, i, v)             combines v with the element at its owner, by the next
//                                           exchange at the latest; relaxed
//   L.update_if(bool, partitioned, i, v)    updates the element if the condition holds; on GPUs
//                                           faster than a branch around L.update
//   L.compute(operations)                   executes these numbers of operations, by kind, after
//                                           all earlier loads; takes time only if simulated
//   L.compute(operation, n)                 executes n operations of one kind in the same way
//
// Control flow around each, each_warp and last_to_arrive must be the same for all lanes of the
// block. Control flow around W.each must be the same for all lanes of the warp.
//
// A kernel can have two static members. `threads` fixes the number of lanes of a block.
// `blocks_at_once`, which needs `threads`, is a number of blocks. With every mechanism, a
// multiprocessor's registers must suffice for this many blocks at a time. Registers that a
// mechanism needs (inline stores, for example, keep the addresses of peers in registers) therefore
// do not reduce the kernel's occupancy. Only GPUs use `blocks_at_once`. On a GPU whose
// multiprocessors have no room for the threads of this many blocks, a smaller number applies.
// `compiled_as<Kernel>` says what the compiler made of a kernel; only the simulated node uses it.
//
// Memory semantics: a kernel reads a region's front and writes its back. Node::exchange publishes
// the back and swaps front and back. An exchange is complete on a device when everything to which
// the device subscribes has arrived. No device writes a peer's buffer before that peer's readers
// have retired. In an epoch (the span between two exchanges) only one device writes an element. The
// two buffers swap at every exchange, so an element that an epoch does not store falls back to its
// value of the epoch before. There are therefore two ways to treat an element: every epoch stores
// it, or set_front gives it a value and no epoch stores it. Plain loads and stores are unordered
// between lanes except by the barriers above, and between blocks except by last_to_arrive.
//
// Updates of a partitioned array are unordered in an epoch. When the epoch's exchange is complete
// on the owner, each update of the epoch, from any device, has been combined with its element
// exactly once. Integer results are exact. Sums of floating-point numbers depend on the order.
// After `store`, an element has the value of one of the epoch's stores. During the epoch of the
// updates, a load by the owner may see any of these updates or none. Only the owner may load or
// store an element, and it must not store in an epoch in which a device updates the element.
#pragma once

#include <cstdint>

#include "interlace/base/limits.hpp"

#if defined(__CUDACC__)
// Precedes a kernel's operator().
#define INTERLACE_KERNEL __device__ __forceinline__
// Precedes a function that both kernels and the host call.
#define INTERLACE_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define INTERLACE_KERNEL inline
#define INTERLACE_HOST_DEVICE inline
#endif

namespace interlace {

// The kinds of operations that L.compute counts.
enum class operation : std::uint8_t {
  fp32,
  fp64,
  integer,  // also logic, shifts, comparisons and computations of addresses
  special,  // reciprocals, roots, and conversions between floating point and other types
};
inline constexpr std::uint32_t operation_kinds = 4;

// A number of operations of each kind.
struct operations {
  std::uint32_t fp32 = 0;
  std::uint32_t fp64 = 0;
  std::uint32_t integer = 0;
  std::uint32_t special = 0;
  // Minima of two integers, in a chain. Minima are integer operations. A GPU may compute the
  // minimum of three integers by one operation.
  std::uint32_t minimum = 0;

  INTERLACE_HOST_DEVICE friend operations operator+(const operations& a, const operations& b) {
    return {a.fp32 + b.fp32, a.fp64 + b.fp64, a.integer + b.integer, a.special + b.special,
            a.minimum + b.minimum};
  }
};

// The compiler's numbers for a kernel that is compiled for compute capability 9.0.
// tests/python/test_sass.py compares these numbers with the machine code.
struct compiled_kernel {
  // Registers of a lane; 0 means that the number is not known and registers limit nothing.
  std::uint32_t registers = 0;
  // The length of the machine code; 0 means that the length is not known.
  std::uint32_t instructions = 0;
};

// The compiler's numbers for `Kernel`. A header specialises this constant for each of its kernels
// whose numbers are known.
template <class Kernel>
inline constexpr compiled_kernel compiled_as{};

// An array in the device's own memory. local<const T> promises that nothing writes the array from
// the end of all earlier work in the kernel's stream until the end of the kernel. Loads may
// therefore take the read-only path.
template <class T>
struct local {
  T* data = nullptr;
  std::uint64_t size = 0;  // number of elements

  // NOLINTNEXTLINE(google-explicit-constructor): converts as T* converts to const T*
  INTERLACE_HOST_DEVICE operator local<const T>() const { return {data, size}; }
};

// An array in the device's own memory that nothing writes while the kernel runs.
template <class T>
struct local<const T> {
  const T* data = nullptr;
  std::uint64_t size = 0;
};

// The devices that receive the elements [begin, end) of a region. Bit d stands for device d.
struct subscriber_range {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint32_t devices = 0;
};

// The number of the lowest bit of a non-empty set.
INTERLACE_HOST_DEVICE std::uint32_t lowest_bit(std::uint32_t set) {
#if defined(__CUDA_ARCH__)
  return static_cast<std::uint32_t>(__ffs(static_cast<int>(set)) - 1);
#else
  return static_cast<std::uint32_t>(__builtin_ctz(set));
#endif
}

// A region: an array replicated on several devices. Indices count the elements of the whole region
// on every device. A kernel may write an element of `back` only if its device owns the element.
template <class T>
struct replicated {
  const T* front = nullptr;
  T* back = nullptr;
  std::uint64_t size = 0;
  std::uint32_t region = 0;  // identifies the region on its node
  std::uint32_t device = 0;  // the device that holds this replica
  // subscribers of all elements; 0 if ranges have different subscribers
  std::uint32_t everybody = 0;
  std::uint32_t range_count = 0;
  subscriber_range ranges[max_subscriber_ranges] = {};
  // For each group of 2^reader_shift elements, the other devices that receive stores to the group.
  // Nothing writes this array while kernels run. If it is null, all subscribers receive the stores.
  const std::uint16_t* readers = nullptr;
  std::uint32_t reader_shift = 0;
  T* peer_back[max_devices] = {};

  // The other devices that receive a store to element i.
  INTERLACE_HOST_DEVICE std::uint32_t subscribers(std::uint64_t i) const {
    if (readers != nullptr) return readers[i >> reader_shift];
    if (everybody != 0) return everybody;
    std::uint32_t devices = 0;
    for (std::uint32_t r = 0; r < range_count; ++r) {
      if (i >= ranges[r].begin && i < ranges[r].end) devices |= ranges[r].devices;
    }
    return devices;
  }
  // Calls f(d) for each device of the set `all`. The first call is for the first device of the set
  // after this device. Devices that store at the same time therefore begin with different receivers
  // and do not all use the same link.
  template <class F>
  INTERLACE_HOST_DEVICE void each_subscriber(std::uint64_t i, const F& f) const {
    const std::uint32_t all = subscribers(i);
    const std::uint32_t next = device + 1;
    // Bit k stands for device next + k, modulo 32.
    std::uint32_t rest = all >> next | all << (32 - next);
    for (; rest != 0; rest &= rest - 1) f((lowest_bit(rest) + next) % 32);
  }
};

// One array on the node. A map from pages to home devices spreads the pages over the devices. Every
// device loads and stores the array at the same address. Stores become visible to other devices at
// the next exchange.
template <class T>
struct unified {
  T* data = nullptr;
  std::uint64_t size = 0;
};

// The ways in which values are combined. Reductions support `add` and `min`. Partitioned arrays
// support every operation. `store` replaces the old value.
enum class combine : std::uint8_t { add, min, max, bit_or, bit_xor, store };

// A region in which the exchange combines the devices' contributions. `front` holds the result of
// the previous epoch. Each element is accumulated in `copies` places that blocks use in turn, which
// reduces contention. The exchange folds these places in a fixed order and resets them to the
// identity.
template <class T, combine Op = combine::add>
struct reduced {
  static_assert(Op == combine::add || Op == combine::min, "reductions add, or take the minimum");

  const T* front = nullptr;
  T* partial = nullptr;  // [copies][size]
  std::uint64_t size = 0;
  std::uint32_t copies = 1;
};

// The largest value of a type: infinity of a floating-point type, or the largest number of an
// integer type.
template <class T>
INTERLACE_HOST_DEVICE constexpr T largest_number() {
  // The limits are computed here, because device code should not include <limits>. T(1) / T(2) is 0
  // for integers only, which distinguishes integers from floating-point types.
  if constexpr (T{1} / T{2} != T{0}) {
    return static_cast<T>(__builtin_huge_val());
  } else {
    return static_cast<T>(static_cast<T>(~T{0}) < T{0}
                              ? static_cast<T>((T{1} << (sizeof(T) * 8 - 2)) - 1) * 2 + 1
                              : static_cast<T>(~T{0}));
  }
}

// The value that leaves a combination unchanged. The operation `store` has no such value.
template <class T, combine Op>
INTERLACE_HOST_DEVICE constexpr T combine_identity() {
  static_assert(Op != combine::store, "the operation store has no identity");
  if constexpr (Op == combine::min) {
    return largest_number<T>();
  } else if constexpr (Op == combine::max) {
    if constexpr (T{1} / T{2} != T{0}) {
      return -largest_number<T>();
    } else {
      return static_cast<T>(~largest_number<T>());  // 0, or the lowest number of a signed type
    }
  } else {
    return T{0};
  }
}

// The combination of two values. `a` is the old value.
template <class T, combine Op>
INTERLACE_HOST_DEVICE constexpr T combine_values(T a, T b) {
  if constexpr (Op == combine::add) {
    return a + b;
  } else if constexpr (Op == combine::min) {
    return b < a ? b : a;
  } else if constexpr (Op == combine::max) {
    return a < b ? b : a;
  } else if constexpr (Op == combine::bit_or) {
    return static_cast<T>(a | b);
  } else if constexpr (Op == combine::bit_xor) {
    return static_cast<T>(a ^ b);
  } else {
    return b;
  }
}

// The counts of one device's updates. The host node and the simulated node fill them.
struct update_counts {
  std::uint64_t remote = 0;  // number of updates of other devices' elements
  // number of the remote updates that were combined with another update before they were sent
  std::uint64_t combined = 0;
  std::uint64_t packets = 0;       // number of packets that were sent
  std::uint64_t packet_bytes = 0;  // bytes of these packets
  // number of updates that were sent one by one because a queue was full
  std::uint64_t without_room = 0;
};

// The queues of update packets for the mechanism `packed`. A packet begins with a header of 16
// bytes. The first 4 bytes are the number of updates in the packet, and the next 4 bytes are the
// number of the window that has the updates' elements. The values follow the header. After the
// values come the positions of the elements in the owner's part, as 4-byte numbers. Both lists have
// room for a full packet.
struct update_queues {
  std::uint32_t packet_bytes = 0;  // 0 if updates are not packed
  std::uint32_t packets = 0;       // number of packets for which a queue has room
  // The number of windows of each part. All updates of a packet belong to one window, so that the
  // owner can combine one window after another in its L2. With several windows, a device packs
  // updates of its own elements, too.
  std::uint32_t windows = 1;
  // Log2 of the number of elements of a window, if there are several windows.
  std::uint32_t window_shift = 0;
  bool combines = true;  // whether updates of the same element are combined in a packet
  unsigned char* to[max_devices] = {};  // for each owner, its queue for this device's packets
  // For each owner, the number of packets that this device has stored in this epoch. While a warp
  // finds the queue full, the number can be larger.
  std::uint32_t* sent = nullptr;

  // Whether a device packs its updates of an owner's elements.
  INTERLACE_HOST_DEVICE bool packs(std::uint32_t device, std::uint32_t owner) const {
    return packet_bytes != 0 && (owner != device || windows > 1);
  }
  // Among the packets that a warp fills, the number of the packet for an element of an owner's
  // part.
  INTERLACE_HOST_DEVICE std::uint32_t bin(std::uint32_t owner, std::uint64_t place) const {
    return windows == 1 ? owner
                        : owner * windows + static_cast<std::uint32_t>(place >> window_shift);
  }

  static constexpr std::uint32_t header_bytes = 16;
  // If combining frees less than a sixteenth of a packet, the warp sends this many packets without
  // combining.
  static constexpr std::uint32_t uncombined = 15;
  // The number of updates in a full packet. Each value has `value_bytes` bytes.
  INTERLACE_HOST_DEVICE std::uint32_t capacity(std::uint32_t value_bytes) const {
    return (packet_bytes - 2 * header_bytes) /
           (value_bytes + 4);  // each of the two lists begins at a multiple of 16 bytes
  }
  // The byte at which the offsets begin in a packet. It is a multiple of 16, because 16 bytes are
  // stored at a time.
  INTERLACE_HOST_DEVICE std::uint32_t offsets_at(std::uint32_t value_bytes) const {
    return packet_bytes - (capacity(value_bytes) * 4 + 15) / 16 * 16;
  }
};

// The first update beyond the end of a partitioned array that a device's kernels made. On GPUs,
// partitions that check updates have this record.
struct update_mistake {
  unsigned long long element = 0;
  unsigned long long block = 0;
  unsigned int lane = 0;
  unsigned int made = 0;  // whether the other members describe an update; 0 means no
};

// An array in which each element belongs to one device. Kernels on all devices update it, and the
// owner's kernels also load and store it.
template <class T, combine Op>
struct partitioned {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "the value of an update must have 4 or 8 bytes");

  std::uint64_t size = 0;     // number of elements of all parts together
  std::uint32_t device = 0;   // the device whose kernels have this view
  std::uint32_t devices = 1;  // device d owns the elements [boundaries[d], boundaries[d + 1])
  std::uint64_t boundaries[max_devices + 1] = {};
  // For each part, the memory in which updates are combined. This is the part itself or, if the
  // mechanism combines at the exchange, this device's array of contributions.
  T* parts[max_devices] = {};
  update_queues queues;
  update_counts* counts = nullptr;    // null on GPUs
  update_mistake* mistake = nullptr;  // null unless a GPU checks updates

  // The device that owns element i.
  INTERLACE_HOST_DEVICE std::uint32_t owner(std::uint64_t i) const {
    // With two devices, nothing of the loop is left.
    std::uint32_t d = devices > 1 && i >= boundaries[1] ? 1 : 0;
    for (std::uint32_t k = 2; k < devices; ++k) d += i >= boundaries[k] ? 1 : 0;
    return d;
  }
};

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

// The lowest lane of a non-empty ballot.
INTERLACE_HOST_DEVICE std::uint32_t lowest_lane(std::uint64_t ballot) {
#if defined(__CUDA_ARCH__)
  return static_cast<std::uint32_t>(__ffsll(static_cast<long long>(ballot)) - 1);
#else
  return static_cast<std::uint32_t>(__builtin_ctzll(ballot));
#endif
}

// The size of a launch. `shared_bytes` is the shared memory that shared<T> can allocate in a block.
struct grid {
  std::uint64_t blocks = 0;
  std::uint32_t threads = 0;
  std::uint32_t shared_bytes = 0;
};

}  // namespace interlace
