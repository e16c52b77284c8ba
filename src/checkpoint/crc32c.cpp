#include "checkpoint/crc32c.hpp"

#include <array>
#include <cstddef>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace interlace::checkpoint {

namespace {

// The following functions compute with polynomials over GF(2) modulo the generator. The highest bit
// is the coefficient of x^0.
constexpr std::uint32_t generator = 0x82f63b78;  // bits reflected
constexpr std::uint32_t one = 0x80000000;

constexpr std::uint32_t times_x(std::uint32_t a) {
  return (a >> 1U) ^ ((a & 1U) != 0 ? generator : 0);
}

constexpr std::uint32_t multiply(std::uint32_t a, std::uint32_t b) {
  std::uint32_t product = 0;
  for (std::uint32_t bit = one; bit != 0; bit >>= 1U) {
    if ((a & bit) != 0) product ^= b;
    b = times_x(b);
  }
  return product;
}

// The powers x^(8 * 2^k).
constexpr std::array<std::uint32_t, 64> make_powers() {
  std::array<std::uint32_t, 64> powers{};
  std::uint32_t power = one;
  for (int k = 0; k < 8; ++k) power = times_x(power);
  for (auto& p : powers) {
    p = power;
    power = multiply(power, power);
  }
  return powers;
}
constexpr std::array<std::uint32_t, 64> powers = make_powers();

// The power x^(8 * bytes).
std::uint32_t shift_by(std::uint64_t bytes) {
  std::uint32_t shift = one;
  for (std::size_t k = 0; bytes != 0; ++k, bytes >>= 1U) {
    if ((bytes & 1U) != 0) shift = multiply(shift, powers[k]);
  }
  return shift;
}

constexpr std::array<std::uint32_t, 256> make_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) value = times_x(value);
    table[byte] = value;
  }
  return table;
}
constexpr std::array<std::uint32_t, 256> table = make_table();

std::uint32_t by_table(std::uint32_t state, const char* at, std::size_t bytes) {
  for (; bytes != 0; --bytes, ++at) {
    state = (state >> 8U) ^ table[(state ^ static_cast<unsigned char>(*at)) & 0xffU];
  }
  return state;
}

#if defined(__x86_64__)

// The instruction has a latency of three cycles, and a new instruction can start in each cycle. The
// CRCs of three parts of a block are therefore computed at the same time and then joined.
constexpr std::size_t side_bytes = 8192;
constexpr std::size_t block_bytes = 3 * side_bytes;

__attribute__((target("sse4.2"))) std::uint64_t word(std::uint64_t state, const char* at) {
  std::uint64_t value = 0;
  std::memcpy(&value, at, sizeof value);
  return _mm_crc32_u64(state, value);
}

__attribute__((target("sse4.2"))) std::uint32_t by_instruction(std::uint32_t state, const char* at,
                                                               std::size_t bytes) {
  static const std::uint32_t shift = shift_by(side_bytes);
  for (; bytes >= block_bytes; bytes -= block_bytes, at += block_bytes) {
    std::uint64_t a = state;
    std::uint64_t b = 0;
    std::uint64_t c = 0;
    for (std::size_t k = 0; k < side_bytes; k += 8) {
      a = word(a, at + k);
      b = word(b, at + side_bytes + k);
      c = word(c, at + 2 * side_bytes + k);
    }
    const std::uint32_t ab =
        multiply(static_cast<std::uint32_t>(a), shift) ^ static_cast<std::uint32_t>(b);
    state = multiply(ab, shift) ^ static_cast<std::uint32_t>(c);
  }
  std::uint64_t last = state;
  for (; bytes >= 8; bytes -= 8, at += 8) last = word(last, at);
  return by_table(static_cast<std::uint32_t>(last), at, bytes);
}

std::uint32_t advance(std::uint32_t state, const char* at, std::size_t bytes) {
  static const bool there = __builtin_cpu_supports("sse4.2") != 0;
  return there ? by_instruction(state, at, bytes) : by_table(state, at, bytes);
}

#else

std::uint32_t advance(std::uint32_t state, const char* at, std::size_t bytes) {
  return by_table(state, at, bytes);
}

#endif

}  // namespace

std::uint32_t crc32c(std::span<const char> bytes) {
  return ~advance(~std::uint32_t{0}, bytes.data(), bytes.size());
}

std::uint32_t join_crc32c(std::uint32_t first, std::uint32_t second, std::uint64_t second_bytes) {
  return multiply(first, shift_by(second_bytes)) ^ second;
}

}  // namespace interlace::checkpoint
