#include "sim/trace/coding.hpp"

namespace interlace::sim::trace {

namespace {

// Eight tables, which process eight bytes at a time.
using tables = std::array<std::array<std::uint32_t, 256>, 8>;

constexpr tables make_tables() {
  tables t{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t c = i;
    for (int k = 0; k < 8; ++k) c = (c & 1U) != 0 ? (c >> 1U) ^ 0xEDB88320U : c >> 1U;
    t[0][i] = c;
  }
  for (std::size_t k = 1; k < 8; ++k) {
    for (std::size_t i = 0; i < 256; ++i) {
      t[k][i] = (t[k - 1][i] >> 8U) ^ t[0][t[k - 1][i] & 0xffU];
    }
  }
  return t;
}

constexpr tables table = make_tables();

}  // namespace

std::uint32_t crc32(std::uint32_t crc, const std::uint8_t* bytes, std::size_t size) {
  crc = ~crc;
  for (; size >= 8; size -= 8, bytes += 8) {
    const std::uint32_t low = get_word(bytes) ^ crc;
    const std::uint32_t high = get_word(bytes + 4);
    crc = 0;
    for (unsigned k = 0; k < 4; ++k) {
      crc ^= table[7 - k][low >> (8 * k) & 0xffU] ^ table[3 - k][high >> (8 * k) & 0xffU];
    }
  }
  for (; size != 0; --size, ++bytes) crc = (crc >> 8U) ^ table[0][(crc ^ *bytes) & 0xffU];
  return ~crc;
}

}  // namespace interlace::sim::trace
