// Packets of updates. A packet carries the updates that its sender gathered for one window of an
// array. The packet has a base that all updates share, and a value and an offset for each update.
// FinePack (Muthukrishnan et al., HPCA 2023) does the same in hardware. Here, kernels and host
// threads write and read packets.
//
// A packet's bytes, little endian:
//
//   header   16 bytes: base (8), count (4), bytes of an offset (1), bytes of a value (1), tag (2)
//   values   count x (4 or 8) bytes, of update 0, update 1, ...
//   offsets  count x (2, 3, 4, 5, 6 or 8) bytes: the element minus the base
//   zeros    up to a multiple of 16 bytes
//
// Offsets of 4 and 8 bytes are whole words, which are the fastest to read. The other sizes send
// fewer bytes. Packets begin at multiples of 16 bytes. Different lanes may write different updates
// of one packet at the same time, because an update's place depends only on its number.
#pragma once

#include <cstdint>

#include "interlace/kernel.hpp"

namespace interlace::kernel {

inline constexpr std::uint64_t packet_alignment = 16;

// The sizes, in bytes, of a packet's offsets and values.
struct packet_format {
  std::uint32_t offset_bytes = 4;  // 2, 3, 4, 5, 6 or 8
  std::uint32_t value_bytes = 8;   // 4 or 8

  INTERLACE_HOST_DEVICE bool valid() const {
    return (value_bytes == 4 || value_bytes == 8) && offset_bytes >= 2 && offset_bytes <= 8 &&
           offset_bytes != 7;
  }
  // The largest offset.
  INTERLACE_HOST_DEVICE std::uint64_t last_offset() const {
    return ~std::uint64_t{0} >> (64 - 8 * offset_bytes);
  }
  // The size in bytes of a packet with `count` updates.
  INTERLACE_HOST_DEVICE std::uint64_t bytes(std::uint64_t count) const {
    const std::uint64_t used = packet_alignment + count * (value_bytes + offset_bytes);
    return (used + packet_alignment - 1) / packet_alignment * packet_alignment;
  }
  // The most updates that fit in a packet of `most` bytes. `most` must be at least 16.
  INTERLACE_HOST_DEVICE std::uint64_t updates_in(std::uint64_t most) const {
    return (most / packet_alignment * packet_alignment - packet_alignment) /
           (value_bytes + offset_bytes);
  }
};

// The format with the smallest offsets that suffice for a window of `elements` elements.
INTERLACE_HOST_DEVICE packet_format smallest_format(std::uint64_t elements,
                                                    std::uint32_t value_bytes) {
  packet_format f{2, value_bytes};
  const std::uint64_t last = elements == 0 ? 0 : elements - 1;
  while (f.last_offset() < last) f.offset_bytes += f.offset_bytes == 6 ? 2 : 1;
  return f;
}

struct alignas(packet_alignment) packet_header {
  std::uint64_t base = 0;   // offsets are relative to this element
  std::uint32_t count = 0;  // number of updates
  std::uint8_t offset_bytes = 0;
  std::uint8_t value_bytes = 0;
  std::uint16_t tag = 0;  // for the sender's own use, for example the number of a bin

  INTERLACE_HOST_DEVICE packet_format format() const { return {offset_bytes, value_bytes}; }
};
static_assert(sizeof(packet_header) == 16);

INTERLACE_HOST_DEVICE packet_header header_of(std::uint64_t base, std::uint32_t count,
                                              packet_format f, std::uint16_t tag = 0) {
  return {base, count, static_cast<std::uint8_t>(f.offset_bytes),
          static_cast<std::uint8_t>(f.value_bytes), tag};
}

// Writes the header of a packet. The address `packet` must be a multiple of 16.
INTERLACE_HOST_DEVICE void put_header(void* packet, const packet_header& h) {
  *static_cast<packet_header*>(packet) = h;
}
INTERLACE_HOST_DEVICE packet_header get_header(const void* packet) {
  return *static_cast<const packet_header*>(packet);
}

// Writes update k. `offset` must be at most last_offset(), and T must have h.value_bytes bytes.
template <class T>
INTERLACE_HOST_DEVICE void put_update(void* packet, const packet_header& h, std::uint64_t k,
                                      std::uint64_t offset, T value) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  unsigned char* values = static_cast<unsigned char*>(packet) + packet_alignment;
  reinterpret_cast<T*>(values)[k] = value;
  unsigned char* offsets = values + std::uint64_t{h.count} * sizeof(T);
  if (h.offset_bytes == 4) {
    reinterpret_cast<std::uint32_t*>(offsets)[k] = static_cast<std::uint32_t>(offset);
  } else if (h.offset_bytes == 8 && sizeof(T) == 8) {
    reinterpret_cast<std::uint64_t*>(offsets)[k] = offset;
  } else {
    unsigned char* at = offsets + k * h.offset_bytes;
    for (std::uint32_t b = 0; b < h.offset_bytes; ++b)
      at[b] = static_cast<unsigned char>(offset >> (8 * b));
  }
}

// Writes the zeros that follow the last update.
INTERLACE_HOST_DEVICE void put_padding(void* packet, const packet_header& h) {
  const packet_format f = h.format();
  const std::uint64_t used =
      packet_alignment + std::uint64_t{h.count} * (f.value_bytes + f.offset_bytes);
  for (std::uint64_t b = used; b < f.bytes(h.count); ++b)
    static_cast<unsigned char*>(packet)[b] = 0;
}

INTERLACE_HOST_DEVICE std::uint64_t packet_offset(const void* packet, const packet_header& h,
                                                  std::uint64_t k) {
  const unsigned char* offsets = static_cast<const unsigned char*>(packet) + packet_alignment +
                                 std::uint64_t{h.count} * h.value_bytes;
  if (h.offset_bytes == 4) return reinterpret_cast<const std::uint32_t*>(offsets)[k];
  if (h.offset_bytes == 8 && h.value_bytes == 8)
    return reinterpret_cast<const std::uint64_t*>(offsets)[k];
  const unsigned char* at = offsets + k * h.offset_bytes;
  std::uint64_t offset = 0;
  for (std::uint32_t b = 0; b < h.offset_bytes; ++b) offset |= std::uint64_t{at[b]} << (8 * b);
  return offset;
}

// Reads the value of update k. T must have h.value_bytes bytes.
template <class T>
INTERLACE_HOST_DEVICE T packet_value(const void* packet, const packet_header& /*h*/,
                                     std::uint64_t k) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  return reinterpret_cast<const T*>(static_cast<const unsigned char*>(packet) +
                                    packet_alignment)[k];
}

// The reasons to refuse a packet.
enum class packet_fault : std::uint8_t {
  none,
  bad_format,  // a size of offsets or values that no packet has
  too_short,   // fewer bytes than the header requires
  bad_base,    // the base lies outside of the array
};

// Checks the header of a packet that has `bytes` bytes, for an array of `elements` elements. The
// function does not read the offsets. The caller must therefore check each element against
// `elements` before writing the element.
INTERLACE_HOST_DEVICE packet_fault check_header(const packet_header& h, std::uint64_t bytes,
                                                std::uint64_t elements) {
  const packet_format f = h.format();
  if (!f.valid()) return packet_fault::bad_format;
  if (bytes < packet_alignment || f.bytes(h.count) > bytes) return packet_fault::too_short;
  if (h.base >= elements) return packet_fault::bad_base;
  return packet_fault::none;
}

}  // namespace interlace::kernel
