// Packs updates of partitioned arrays on a GPU (`packed`): each warp has a packet for each owner in
// shared memory, as interlace/kernel/update_packer.hpp describes.
//
// Lanes that are converged at an update work together. Other lanes of the warp may reach an update
// at the same time, so a lock in shared memory guards the warp's packets. Lanes that wait for the
// lock do not keep the others from running, because lanes are scheduled independently (compute
// capability 7.0 and later).
//
// Memory ordering: a packet is stored by weak stores, and its slot is taken by a relaxed atomic of
// the device. Both become visible to the owner by the exchange, a later kernel of the same stream,
// which releases and acquires at system scope. Updates without a packet are relaxed atomics, or
// weak stores, at system scope.
#pragma once

#if !defined(__CUDACC__)
#error "interlace/update_packer.cuh is for nvcc"
#endif

#include <cstdint>

#include "interlace/kernel.hpp"
#include "interlace/kernel/packing_table.hpp"

namespace interlace::device {

// Relaxed at system scope. Floating-point minima and maxima compare the bits as integers, as
// atomic_min_relaxed does.
template <combine Op, class T>
__device__ __forceinline__ void combine_system(T* p, T value) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "updates are of numbers of 4 or 8 bytes");
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
    // Numbers without the sign bit ascend like integers, and numbers with it descend.
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
__device__ __forceinline__ void combine_number(combine operation, void* at, const void* value) {
  T* p = static_cast<T*>(at);
  const T v = *static_cast<const T*>(value);
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

// Combines a value in shared memory with a number in shared or global memory. One function for all
// kernels, because only some packets need it.
static __device__ __noinline__ void combine_any(kernel::number_type type, combine operation,
                                                void* at, const void* value) {
  switch (type) {
    case kernel::number_type::u32:
      return combine_number<std::uint32_t>(operation, at, value);
    case kernel::number_type::i32:
      return combine_number<std::int32_t>(operation, at, value);
    case kernel::number_type::f32:
      return combine_number<float>(operation, at, value);
    case kernel::number_type::u64:
      return combine_number<unsigned long long>(operation, at, value);
    case kernel::number_type::i64:
      return combine_number<long long>(operation, at, value);
    case kernel::number_type::f64:
      return combine_number<double>(operation, at, value);
  }
}

// The packets of the warp that calls.
class warp_packets {
 public:
  __device__ __forceinline__ explicit warp_packets(const kernel::packing_table& table)
      : table_(table) {
    extern __shared__ __align__(16) unsigned char interlace_shared_memory[];
    head_ = reinterpret_cast<std::uint32_t*>(
        interlace_shared_memory + table.shared_at +
        threadIdx.x / 32 * kernel::packing_bytes_of_warp(table.devices, table.queues.packet_bytes));
  }

  // Empties the packets. All lanes of the warp call it before the first update.
  __device__ __forceinline__ void clear() const {
    if (threadIdx.x % 32 <= table_.devices) head_[threadIdx.x % 32] = 0;
    __syncwarp();
  }

  // Adds an update of an element of `owner`. Any lanes of the warp may call it.
  template <class T>
  __device__ void add(std::uint32_t owner, std::uint32_t offset, T value) const {
    const std::uint32_t active = __activemask();
    const std::uint32_t own = 1U << threadIdx.x % 32;
    const bool first = (active & (own - 1)) == 0;
    if (first) {
      while (atomicCAS_block(head_, 0U, 1U) != 0) {
      }
      __threadfence_block();
    }
    __syncwarp(active);
    // The lanes whose updates are not in a packet yet.
    for (std::uint32_t rest = active; rest != 0;) {
      const bool mine = (rest & own) != 0;
      const std::uint32_t peers = __match_any_sync(active, mine ? owner : std::uint32_t{none});
      const std::uint32_t before = mine ? filled(owner) : 0;
      const std::uint32_t slot = before + __popc(peers & (own - 1));
      const std::uint32_t all = before + __popc(peers);
      __syncwarp(active);
      const bool fits = mine && slot < table_.capacity;
      if (fits) {
        unsigned char* p = packet(owner);
        reinterpret_cast<T*>(p + update_queues::header_bytes)[slot] = value;
        reinterpret_cast<std::uint32_t*>(p + table_.offsets_at)[slot] = offset;
      }
      const bool leads = mine && (peers & (own - 1)) == 0;
      if (leads) filled(owner) = all < table_.capacity ? all : table_.capacity;
      __syncwarp(active);
      rest = __ballot_sync(active, mine && !fits);
      std::uint32_t full = __ballot_sync(active, leads && all >= table_.capacity);
      for (; full != 0; full &= full - 1) {
        const std::uint32_t o = __shfl_sync(active, owner, __ffs(static_cast<int>(full)) - 1);
        send(active, o, true);
      }
    }
    __syncwarp(active);
    if (first) {
      __threadfence_block();
      atomicExch_block(head_, 0U);
    }
  }

  // Sends the packets that are not full. All lanes of the warp call it after the last update.
  __device__ __forceinline__ void finish() const {
    __syncwarp();
    for (std::uint32_t o = 0; o < table_.devices; ++o) {
      if (filled(o) != 0) send(0xffffffffU, o, false);
    }
  }

 private:
  enum : std::uint32_t { none = 0xffffffffU };  // no owner, and no element

  __device__ __forceinline__ volatile std::uint32_t& filled(std::uint32_t owner) const {
    return head_[1 + owner];
  }
  __device__ __forceinline__ unsigned char* packet(std::uint32_t owner) const {
    return reinterpret_cast<unsigned char*>(head_) + kernel::packing_head_bytes +
           owner * table_.queues.packet_bytes;
  }

  // The lanes of `active` send a packet. If it is full and combining frees a quarter of it, it
  // stays.
  __device__ __noinline__ void send(std::uint32_t active, std::uint32_t owner, bool full) const {
    const std::uint32_t own = 1U << threadIdx.x % 32;
    const std::uint32_t lanes = __popc(active);
    const std::uint32_t rank = __popc(active & (own - 1));
    unsigned char* p = packet(owner);
    std::uint32_t count = filled(owner);
    if (full && table_.queues.combines) {
      count = make_room(active, p, count);
      if ((table_.capacity - count) * 4 >= table_.capacity) {
        if (rank == 0) filled(owner) = count;
        __syncwarp(active);
        return;
      }
    }
    std::uint32_t slot = 0;
    if (rank == 0) {
      slot = atomicAdd(table_.queues.sent + owner, 1U);
      *reinterpret_cast<uint4*>(p) = make_uint4(count, 0, 0, 0);
      filled(owner) = 0;
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
      const auto* offsets = reinterpret_cast<const std::uint32_t*>(p + table_.offsets_at);
      auto* part = static_cast<unsigned char*>(table_.parts[owner]);
      for (std::uint32_t k = rank; k < count; k += lanes) {
        combine_any(table_.type, table_.operation,
                    part + static_cast<std::uint64_t>(offsets[k]) * table_.value_bytes,
                    p + update_queues::header_bytes + k * table_.value_bytes);
      }
    }
    __syncwarp(active);
  }

  // Stores `bytes` bytes, rounded up to whole words of 16.
  __device__ __forceinline__ static void copy(const unsigned char* from, unsigned char* to,
                                              std::uint32_t bytes, std::uint32_t rank,
                                              std::uint32_t lanes) {
    for (std::uint32_t w = rank; w < (bytes + 15) / 16; w += lanes) {
      reinterpret_cast<uint4*>(to)[w] = reinterpret_cast<const uint4*>(from)[w];
    }
  }

  // Combines updates of the same element. Returns how many are left.
  __device__ std::uint32_t make_room(std::uint32_t active, unsigned char* p,
                                     std::uint32_t count) const {
    const std::uint32_t own = 1U << threadIdx.x % 32;
    const std::uint32_t lanes = __popc(active);
    const std::uint32_t rank = __popc(active & (own - 1));
    unsigned char* values = p + update_queues::header_bytes;
    auto* offsets = reinterpret_cast<volatile std::uint32_t*>(p + table_.offsets_at);
    // The first update of an element keeps its place. No part has an element `none`.
    bool repeated = false;
    for (std::uint32_t k = rank; k < count; k += lanes) {
      const std::uint32_t offset = offsets[k];
      std::uint32_t same = 0;
      while (same < k && offsets[same] != offset) ++same;
      if (same == k) continue;
      combine_any(table_.type, table_.operation, values + same * table_.value_bytes,
                  values + k * table_.value_bytes);
      offsets[k] = none;
      repeated = true;
    }
    __syncwarp(active);
    if (!__any_sync(active, repeated)) return count;
    std::uint32_t kept = 0;
    for (std::uint32_t begin = 0; begin < count; begin += lanes) {
      const std::uint32_t k = begin + rank;
      const bool stays = k < count && offsets[k] != none;
      const std::uint32_t offset = stays ? offsets[k] : 0;
      unsigned long long value = 0;
      if (stays && table_.value_bytes == 4) value = reinterpret_cast<std::uint32_t*>(values)[k];
      if (stays && table_.value_bytes == 8) {
        value = reinterpret_cast<unsigned long long*>(values)[k];
      }
      const std::uint32_t staying = __ballot_sync(active, stays);
      const std::uint32_t to = kept + __popc(staying & (own - 1));
      __syncwarp(active);
      if (stays) {
        offsets[to] = offset;
        if (table_.value_bytes == 4) {
          reinterpret_cast<std::uint32_t*>(values)[to] = static_cast<std::uint32_t>(value);
        } else {
          reinterpret_cast<unsigned long long*>(values)[to] = value;
        }
      }
      kept += __popc(staying);
      __syncwarp(active);
    }
    return kept;
  }

  const kernel::packing_table& table_;
  std::uint32_t* head_;
};

}  // namespace interlace::device
