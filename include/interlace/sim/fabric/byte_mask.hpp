// A set of bytes of a line, with one bit for each byte. A line has at most 128 bytes.
#pragma once

#include <array>
#include <cstdint>

namespace interlace::sim {

struct byte_mask {
  std::array<std::uint64_t, 2> bits{};

  void set(std::uint32_t first, std::uint32_t count) {
    // The range never crosses the border of a 64-byte word, because it is aligned and at most 64
    // bytes long.
    const std::uint64_t ones = count == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1;
    bits[first / 64] |= ones << (first % 64);
  }
  bool test(std::uint32_t i) const { return (bits[i / 64] >> (i % 64) & 1U) != 0; }
  bool any() const { return (bits[0] | bits[1]) != 0; }
  std::uint32_t count() const {
    return static_cast<std::uint32_t>(__builtin_popcountll(bits[0]) +
                                      __builtin_popcountll(bits[1]));
  }
  // The number of contiguous runs. A run begins where a byte is set and the byte before it is not
  // set.
  std::uint32_t runs() const {
    const std::uint64_t carried = bits[0] >> 63U;
    return static_cast<std::uint32_t>(__builtin_popcountll(bits[0] & ~(bits[0] << 1U)) +
                                      __builtin_popcountll(bits[1] & ~(bits[1] << 1U | carried)));
  }
  // Calls visit(first byte, bytes) for each run, in ascending order.
  template <class Visit>
  void each_run(const Visit& visit) const {
    std::uint32_t at = 0;
    while (true) {
      const std::uint32_t first = find(at, 0);
      if (first == 128) return;
      at = find(first, ~std::uint64_t{0});
      visit(first, at - first);
      if (at == 128) return;
    }
  }
  // One bit for each group of `unit` bytes. The bit is set if any byte of the group is set.
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

  friend byte_mask operator|(byte_mask x, const byte_mask& y) {
    x.bits[0] |= y.bits[0];
    x.bits[1] |= y.bits[1];
    return x;
  }
  friend byte_mask operator&(byte_mask x, const byte_mask& y) {
    x.bits[0] &= y.bits[0];
    x.bits[1] &= y.bits[1];
    return x;
  }
  friend bool operator==(const byte_mask&, const byte_mask&) = default;

 private:
  // Returns the first byte at or after `at` that is set in the mask. If `flip` is all ones, returns
  // the first byte that is not set. Returns 128 if there is no such byte.
  std::uint32_t find(std::uint32_t at, std::uint64_t flip) const {
    if (at < 64) {
      const std::uint64_t low = (bits[0] ^ flip) >> at;
      if (low != 0) return at + static_cast<std::uint32_t>(__builtin_ctzll(low));
      at = 64;
    }
    if (at == 128) return 128;
    const std::uint64_t high = (bits[1] ^ flip) >> (at - 64);
    return high != 0 ? at + static_cast<std::uint32_t>(__builtin_ctzll(high)) : 128;
  }
};

}  // namespace interlace::sim
