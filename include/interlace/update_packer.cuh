// Packs updates of partitioned arrays on a GPU (the mechanism `packed`). Each warp has packets in
// shared memory, one for each bin, that is, for each window of each owner.
// interlace/kernel/update_packer.hpp describes how packets fill.
//
// Lanes that are converged at an update work together. If only some lanes of the warp are
// converged, other lanes can reach an update at the same time. A lock in shared memory therefore
// guards the warp's packets. Lanes that wait for the lock sleep. They do not keep the other lanes
// from running, because lanes are scheduled independently (compute capability 7.0 and later).
//
// Memory ordering: a packet is stored by weak stores, and its slot is taken by a relaxed atomic at
// device scope. The exchange makes the packet and its slot visible to the owner. The exchange is a
// later kernel of the same stream, which releases and acquires at system scope. Updates without a
// packet are relaxed atomics, or weak stores, at system scope.
#pragma once

#if !defined(__CUDACC__)
#error "interlace/update_packer.cuh is for nvcc"
#endif

#include <cstdint>

#include "interlace/kernel.hpp"
#include "interlace/kernel/packing_table.hpp"

namespace interlace::device {

// Updates an element, relaxed at system scope. Floating-point minima and maxima compare the bits as
// integers, as atomic_min_relaxed does.
template <combine Op, class T>
__device__ __forceinline__ void combine_system(T* p, T value) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "the value of an update must have 4 or 8 bytes");
  using word = std::conditional_t<sizeof(T) == 4, unsigned int, unsigned long long>;
  using number = std::conditional_t<sizeof(T) == 4, int, long long>;
  if constexpr (Op == combine::store) {
    *p = value;
  } else if constexpr (Op == combine::bit_or) {
    atomicOr_system(reinterpret_cast<word*>(p), static_cast<word>(value));
  } else if constexpr (Op == combine::bit_xor) {
    atomicXor_system(reinterpret_cast<word*>(p), static_cast<word>(value));
  } else if constexpr (Op == combine::add) {
    if constexpr (std::is_floating_point_v<T>) {
      atomicAdd_system(p, value);
    } else {
      atomicAdd_system(reinterpret_cast<word*>(p), static_cast<word>(value));
    }
  } else if constexpr (std::is_floating_point_v<T>) {
    // As integers, floats without the sign bit ascend, and floats with the sign bit descend.
    const auto bits = __builtin_bit_cast(number, value);
    if ((bits >= 0) == (Op == combine::min)) {
      if constexpr (Op == combine::min) {
        atomicMin_system(reinterpret_cast<number*>(p), bits);
      } else {
        atomicMin_system(reinterpret_cast<word*>(p), static_cast<word>(bits));
      }
    } else if constexpr (Op == combine::min) {
      atomicMax_system(reinterpret_cast<word*>(p), static_cast<word>(bits));
    } else {
      atomicMax_system(reinterpret_cast<number*>(p), bits);
    }
  } else {
    using whole = std::conditional_t<std::is_signed_v<T>, number, word>;
    if constexpr (Op == combine::min) {
      atomicMin_system(reinterpret_cast<whole*>(p), static_cast<whole>(value));
    } else {
      atomicMax_system(reinterpret_cast<whole*>(p), static_cast<whole>(value));
    }
  }
}

template <class T>
__device__ __forceinline__ void combine_number(combine operation, void* at,
                                               unsigned long long bits) {
  T* p = static_cast<T*>(at);
  T v;
  if constexpr (sizeof(T) == 4) {
    v = __builtin_bit_cast(T, static_cast<unsigned int>(bits));
  } else {
    v = __builtin_bit_cast(T, bits);
  }
  switch (operation) {
    case combine::add:
      return combine_system<combine::add>(p, v);
    case combine::min:
      return combine_system<combine::min>(p, v);
    case combine::max:
      return combine_system<combine::max>(p, v);
    case combine::store:
      return combine_system<combine::store>(p, v);
    default:
      break;
  }
  if constexpr (std::is_integral_v<T>) {
    if (operation == combine::bit_or) return combine_system<combine::bit_or>(p, v);
    if (operation == combine::bit_xor) return combine_system<combine::bit_xor>(p, v);
  }
}

// Combines a number in global memory with a value. All kernels share this one function, because
// only packets that find no room need it.
static __device__ __noinline__ void combine_any(kernel::number_type type, combine operation,
                                                void* at, unsigned long long bits) {
  switch (type) {
    case kernel::number_type::u32:
      return combine_number<std::uint32_t>(operation, at, bits);
    case kernel::number_type::i32:
      return combine_number<std::int32_t>(operation, at, bits);
    case kernel::number_type::f32:
      return combine_number<float>(operation, at, bits);
    case kernel::number_type::u64:
      return combine_number<unsigned long long>(operation, at, bits);
    case kernel::number_type::i64:
      return combine_number<long long>(operation, at, bits);
    case kernel::number_type::f64:
      return combine_number<double>(operation, at, bits);
  }
}

// The bin of an update that needs no packet.
inline constexpr std::uint32_t no_bin = 0xffffffffU;

// The packets of the calling warp. The memory that its lanes share is plain memory, and __syncwarp
// orders the accesses.
class warp_packets {
 public:
  __device__ __forceinline__ explicit warp_packets(const kernel::packing_table& table)
      : table_(table) {
    extern __shared__ __align__(16) unsigned char interlace_shared_memory[];
    head_ = interlace_shared_memory + table.shared_at +
            threadIdx.x / 32 * kernel::packing_bytes_of_warp(table.bins, table.queues.packet_bytes);
  }

  // Empties the packets. All lanes of the warp must call this function before the first update.
  __device__ __forceinline__ void clear() const {
    words()[threadIdx.x % 32] = 0;
    __syncwarp();
  }

  // Adds an update to the packet `bin`. Adds nothing for no_bin. Any lanes of the warp may call
  // this function. Lanes that call it together stay together.
  template <combine Op, class T>
  __device__ __forceinline__ void add(std::uint32_t bin, std::uint32_t offset, T value) const {
    const std::uint32_t active = __activemask();
    const std::uint32_t rest = __ballot_sync(active, bin != no_bin);
    if (rest == 0) return;
    // If the compiler knows the mask, barriers and votes of the warp take a few clocks.
    if (active == whole_warp)
      add_together<Op>(whole_warp, rest, bin, offset, value);
    else
      add_by_some<Op>(*this, active, rest, bin, offset, value);
  }

  // Sends the packets that are not full. All lanes of the warp must call this function after the
  // last update.
  __device__ __forceinline__ void finish() const {
    __syncwarp();
    for (std::uint32_t b = 0; b < table_.bins; ++b) {
      if (filled(b) != 0) send(whole_warp, b);
    }
  }

 private:
  static constexpr std::uint32_t whole_warp = 0xffffffffU;
  static constexpr std::uint32_t most_sleep_ns = 256;

  __device__ __forceinline__ std::uint32_t* words() const {
    return reinterpret_cast<std::uint32_t*>(head_);
  }
  __device__ __forceinline__ std::uint32_t& filled(std::uint32_t bin) const {
    return words()[1 + bin];
  }
  __device__ __forceinline__ unsigned char* packet(std::uint32_t bin) const {
    return head_ + kernel::packing_head_bytes + bin * table_.queues.packet_bytes;
  }

  // Adds the updates of a call of `add` in which not all lanes of the warp take part. This function
  // is not inlined, so that kernels have more registers.
  template <combine Op, class T>
  static __device__ __noinline__ void add_by_some(warp_packets by, std::uint32_t active,
                                                  std::uint32_t rest, std::uint32_t bin,
                                                  std::uint32_t offset, T value) {
    by.lock(active);
    by.add_together<Op>(active, rest, bin, offset, value);
    by.unlock(active);
  }

  // The lanes in the mask `active` add their updates. `rest` has the lanes that have an update.
  template <combine Op, class T>
  __device__ __forceinline__ void add_together(std::uint32_t active, std::uint32_t rest,
                                               std::uint32_t bin, std::uint32_t offset,
                                               T value) const {
    const std::uint32_t own = 1U << threadIdx.x % 32;
    while (rest != 0) {  // the lanes whose updates are not in a packet yet
      const bool mine = (rest & own) != 0;
      const std::uint32_t peers = __match_any_sync(active, mine ? bin : no_bin + 0U);
      const std::uint32_t before = mine ? filled(bin) : 0;
      const std::uint32_t slot = before + __popc(peers & (own - 1));
      const std::uint32_t all = before + __popc(peers);
      const bool fits = mine && slot < table_.capacity;
      if (fits) {
        unsigned char* p = packet(bin);
        reinterpret_cast<T*>(p + update_queues::header_bytes)[slot] = value;
        reinterpret_cast<std::uint32_t*>(p + table_.offsets_at)[slot] = offset;
      }
      __syncwarp(active);
      const bool leads = mine && (peers & (own - 1)) == 0;
      if (leads) filled(bin) = all < table_.capacity ? all : table_.capacity;
      __syncwarp(active);
      rest = __ballot_sync(active, mine && !fits);
      std::uint32_t full = __ballot_sync(active, leads && all >= table_.capacity);
      for (; full != 0; full &= full - 1) {
        const std::uint32_t b = __shfl_sync(active, bin, __ffs(static_cast<int>(full)) - 1);
        if (table_.queues.combines && makes_room<Op, T>(active, b)) continue;
        send(active, b);
      }
    }
  }

  // Takes the lock. Acquires and releases at block scope.
  __device__ __forceinline__ void lock(std::uint32_t active) const {
    if ((active & ((1U << threadIdx.x % 32) - 1)) == 0) {
      std::uint32_t sleep_ns = 8;
      while (atomicCAS_block(words(), 0U, 1U) != 0) {
        __nanosleep(sleep_ns);
        if (sleep_ns < most_sleep_ns) sleep_ns *= 2;
      }
      __threadfence_block();
    }
    __syncwarp(active);
  }
  __device__ __forceinline__ void unlock(std::uint32_t active) const {
    __syncwarp(active);
    if ((active & ((1U << threadIdx.x % 32) - 1)) == 0) {
      __threadfence_block();
      atomicExch_block(words(), 0U);
    }
    __syncwarp(active);
  }

  // Sends a packet. The lanes in the mask `active` send it together.
  __device__ __forceinline__ void send(std::uint32_t active, std::uint32_t bin) const {
    const std::uint32_t windows = table_.queues.windows;
    const std::uint32_t owner = windows == 1 ? bin : bin / windows;
    const std::uint32_t lanes = __popc(active);
    const std::uint32_t rank = __popc(active & ((1U << threadIdx.x % 32) - 1));
    unsigned char* p = packet(bin);
    const std::uint32_t count = filled(bin);
    __syncwarp(active);
    std::uint32_t slot = 0;
    if (rank == 0) {
      slot = atomicAdd(table_.queues.sent + owner, 1U);
      // No number of packets may make the counter start again at 0.
      if (slot >= table_.queues.packets) atomicSub(table_.queues.sent + owner, 1U);
      *reinterpret_cast<uint4*>(p) = make_uint4(count, bin - owner * windows, 0, 0);
      filled(bin) = 0;
    }
    slot = __shfl_sync(active, slot, __ffs(static_cast<int>(active)) - 1);
    __syncwarp(active);
    if (slot < table_.queues.packets) {
      unsigned char* to =
          table_.queues.to[owner] + static_cast<std::uint64_t>(slot) * table_.queues.packet_bytes;
      if (count == table_.capacity) {
        copy(p, to, table_.queues.packet_bytes, rank, lanes);
      } else {
        copy(p, to, update_queues::header_bytes + count * table_.value_bytes, rank, lanes);
        copy(p + table_.offsets_at, to + table_.offsets_at, count * 4, rank, lanes);
      }
    } else {
      send_single(p, owner, count, rank, lanes);
    }
    __syncwarp(active);
  }

  // Updates the owner's memory directly, because the owner's queue is full.
  __device__ __forceinline__ void send_single(const unsigned char* p, std::uint32_t owner,
                                              std::uint32_t count, std::uint32_t rank,
                                              std::uint32_t lanes) const {
    const auto* offsets = reinterpret_cast<const std::uint32_t*>(p + table_.offsets_at);
    const unsigned char* values = p + update_queues::header_bytes;
    auto* part = static_cast<unsigned char*>(table_.parts[owner]);
    for (std::uint32_t k = rank; k < count; k += lanes) {
      const unsigned long long bits = table_.value_bytes == 4
                                          ? reinterpret_cast<const std::uint32_t*>(values)[k]
                                          : reinterpret_cast<const unsigned long long*>(values)[k];
      combine_any(table_.type, table_.operation,
                  part + static_cast<std::uint64_t>(offsets[k]) * table_.value_bytes, bits);
    }
  }

  // Stores `bytes` bytes, rounded up to whole words of 16 bytes.
  __device__ __forceinline__ static void copy(const unsigned char* from, unsigned char* to,
                                              std::uint32_t bytes, std::uint32_t rank,
                                              std::uint32_t lanes) {
    for (std::uint32_t w = rank; w < (bytes + 15) / 16; w += lanes) {
      reinterpret_cast<uint4*>(to)[w] = reinterpret_cast<const uint4*>(from)[w];
    }
  }

  // Combines updates of the same element in a full packet. Returns true if the combining freed at
  // least a quarter of the packet.
  template <combine Op, class T>
  __device__ __forceinline__ bool makes_room(std::uint32_t active, std::uint32_t bin) const {
    const std::uint32_t own = 1U << threadIdx.x % 32;
    const std::uint32_t lanes = __popc(active);
    const std::uint32_t rank = __popc(active & (own - 1));
    std::uint32_t& uncombined = words()[kernel::packing_head_bytes / 4 - 1];
    const std::uint32_t skips = uncombined;
    __syncwarp(active);
    if (skips != 0) {
      if (rank == 0) uncombined = skips - 1;
      __syncwarp(active);
      return false;
    }
    unsigned char* p = packet(bin);
    T* values = reinterpret_cast<T*>(p + update_queues::header_bytes);
    auto* offsets = reinterpret_cast<std::uint32_t*>(p + table_.offsets_at);
    const std::uint32_t count = filled(bin);
    std::uint32_t kept = 0;
    // In each turn, each lane takes one update. Updates that remain move to the front of the
    // packet.
    for (std::uint32_t begin = 0; begin < count; begin += lanes) {
      const std::uint32_t k = begin + rank;
      const bool there = k < count;
      const std::uint32_t offset = there ? offsets[k] : 0;
      std::uint32_t same = k;  // place of an earlier update of the same element
#pragma unroll 4
      for (std::uint32_t j = 0; j < kept; ++j) {
        if (offsets[j] == offset) same = j;
      }
      // Finds the lanes whose updates have the same element. A lane without an update matches no
      // other lane.
      const unsigned long long key = there ? offset : (1ULL << 32U) + rank;
      const std::uint32_t alike = __match_any_sync(active, key);
      if (same == k) same = begin + __popc(active & ((alike & (0U - alike)) - 1));
      if (there && same != k) combine_system<Op>(values + same, values[k]);
      __syncwarp(active);
      const bool stays = there && same == k;
      const T value = stays ? values[k] : T{};
      const std::uint32_t staying = __ballot_sync(active, stays);
      const std::uint32_t to = kept + __popc(staying & (own - 1));
      __syncwarp(active);
      if (stays) {
        offsets[to] = offset;
        values[to] = value;
      }
      kept += __popc(staying);
      __syncwarp(active);
    }
    const bool room = (table_.capacity - kept) * 4 >= table_.capacity;
    if (rank == 0) {
      filled(bin) = kept;
      if ((table_.capacity - kept) * 16 < table_.capacity) uncombined = update_queues::uncombined;
    }
    __syncwarp(active);
    return room;
  }

  const kernel::packing_table& table_;
  unsigned char* head_;
};

}  // namespace interlace::device
