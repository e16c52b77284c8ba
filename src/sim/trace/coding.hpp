// The encodings of a trace file. There are little-endian words, variable-length integers with seven
// bits in each byte, and a CRC-32. Signed integers are folded so that small magnitudes have short
// encodings.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace interlace::sim::trace {

inline void put_varint(std::vector<std::uint8_t>& to, std::uint64_t value) {
  while (value >= 0x80) {
    to.push_back(static_cast<std::uint8_t>(value | 0x80));
    value >>= 7U;
  }
  to.push_back(static_cast<std::uint8_t>(value));
}

constexpr std::uint64_t fold(std::uint64_t difference) {
  return (difference << 1U) ^ (0 - (difference >> 63U));
}
constexpr std::uint64_t unfold(std::uint64_t value) { return (value >> 1U) ^ (0 - (value & 1U)); }

inline void put_signed(std::vector<std::uint8_t>& to, std::uint64_t difference) {
  put_varint(to, fold(difference));
}

inline void put_word(std::uint8_t* to, std::uint32_t value) {
  for (unsigned i = 0; i < 4; ++i) to[i] = static_cast<std::uint8_t>(value >> (8 * i));
}
inline std::uint32_t get_word(const std::uint8_t* from) {
  std::uint32_t value = 0;
  for (unsigned i = 0; i < 4; ++i) value |= static_cast<std::uint32_t>(from[i]) << (8 * i);
  return value;
}

// Continues a CRC-32 of IEEE 802.3 (reflected, polynomial 0x04C11DB7) with more bytes. `crc` is the
// result for the bytes so far. At the start it is 0.
std::uint32_t crc32(std::uint32_t crc, const std::uint8_t* bytes, std::size_t size);

}  // namespace interlace::sim::trace
