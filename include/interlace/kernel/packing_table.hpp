// The facts about a partition that a kernel on a GPU needs in order to pack updates of the
// partition.
#pragma once

#include <cstdint>
#include <type_traits>

#include "interlace/base/limits.hpp"
#include "interlace/kernel.hpp"

namespace interlace::kernel {

// The types of elements of partitions.
enum class number_type : std::uint8_t { u32, i32, f32, u64, i64, f64 };

template <class T>
constexpr number_type number_type_of() {
  static_assert(std::is_arithmetic_v<T> && (sizeof(T) == 4 || sizeof(T) == 8),
                "the value of an update must have 4 or 8 bytes");
  if constexpr (std::is_floating_point_v<T>) {
    return sizeof(T) == 4 ? number_type::f32 : number_type::f64;
  } else if constexpr (std::is_signed_v<T>) {
    return sizeof(T) == 4 ? number_type::i32 : number_type::i64;
  } else {
    return sizeof(T) == 4 ? number_type::u32 : number_type::u64;
  }
}

// The most packets that a warp fills at a time. The warp has one packet for each window of each
// owner.
inline constexpr std::uint32_t most_bins = 30;

// A warp's shared memory begins with a head, and the packets follow. The head has a lock and, for
// each packet, the number of updates in the packet. The last word of the head is the number of full
// packets that the warp still sends without combining.
inline constexpr std::uint32_t packing_head_bytes = 128;
static_assert(packing_head_bytes >= 4 * (2 + most_bins));

INTERLACE_HOST_DEVICE constexpr std::uint32_t packing_bytes_of_warp(std::uint32_t bins,
                                                                    std::uint32_t packet_bytes) {
  return packing_head_bytes + bins * packet_bytes;
}

struct packing_table {
  update_queues queues;
  std::uint32_t bins = 0;  // number of packets of a warp
  std::uint32_t value_bytes = 0;
  std::uint32_t capacity = 0;    // the most updates in a packet
  std::uint32_t offsets_at = 0;  // byte at which the offsets begin in a packet
  // The offset of the first warp's shared memory, which follows the kernel's own shared memory.
  std::uint32_t shared_at = 0;
  number_type type = number_type::u32;
  combine operation = combine::add;
  void* parts[max_devices] = {};
};

}  // namespace interlace::kernel
