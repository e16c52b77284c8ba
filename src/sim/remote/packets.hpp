// What the bytes that a warp stores to one remote line become on the wire when nothing combines
// them further: the plain peer-to-peer stores of `inline`.
#pragma once

#include <array>
#include <cstdint>

#include "machine/machine.hpp"

namespace interlace::sim {

// Bytes of a line, one bit each; lines have at most 128 bytes.
struct byte_mask {
  std::array<std::uint64_t, 2> bits{};

  void set(std::uint32_t first, std::uint32_t count) {
    // An element does not cross a word of 64 bytes: it is aligned and at most 64 bytes long.
    const std::uint64_t ones = count == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1;
    bits[first / 64] |= ones << (first % 64);
  }
  bool test(std::uint32_t i) const { return (bits[i / 64] >> (i % 64) & 1U) != 0; }
  std::uint32_t count() const {
    return static_cast<std::uint32_t>(__builtin_popcountll(bits[0]) +
                                      __builtin_popcountll(bits[1]));
  }
  // One bit for each `unit` bytes of which any is set.
  std::uint32_t units(std::uint32_t unit, std::uint32_t line_bytes) const {
    if (unit == 32) {
      return static_cast<std::uint32_t>((bits[0] & 0xffffffffU) != 0) |
             static_cast<std::uint32_t>((bits[0] >> 32U) != 0) << 1U |
             static_cast<std::uint32_t>((bits[1] & 0xffffffffU) != 0) << 2U |
             static_cast<std::uint32_t>((bits[1] >> 32U) != 0) << 3U;
    }
    std::uint32_t touched = 0;
    const std::uint64_t ones = unit == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << unit) - 1;
    for (std::uint32_t u = 0; u * unit < line_bytes; ++u) {
      if ((bits[u * unit / 64] >> (u * unit % 64) & ones) != 0) touched |= 1U << u;
    }
    return touched;
  }
};

struct packet_cost {
  std::uint32_t packets = 0;
  std::uint32_t payload = 0;  // bytes written
  std::uint32_t wire = 0;     // all bytes on the link
};

// PCIe: a packet for each run of bytes. NVLink: a packet for each run of 32-byte sectors, with a
// byte-enable flit where some of their flits are not written whole.
packet_cost store_packets(const machine::protocol& p, const byte_mask& mask,
                          std::uint32_t line_bytes);

}  // namespace interlace::sim
