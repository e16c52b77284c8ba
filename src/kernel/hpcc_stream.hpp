// The stream of random numbers of HPCC's RandomAccess. Number n is the polynomial x^n over {0, 1},
// modulo x^64 + x^2 + x + 1. Updates are counted from 0, and update i has number i + 1. The low
// bits of the number select an element of the table, and the whole number is the value.
#pragma once

#include <cstdint>

#include "interlace/kernel.hpp"

namespace interlace::kernel::hpcc {

inline constexpr std::uint64_t polynomial = 7;
inline constexpr std::uint64_t period = 1317624576693539401U;

// The number that follows r.
INTERLACE_HOST_DEVICE std::uint64_t next(std::uint64_t r) {
  return (r << 1U) ^ ((r >> 63U) != 0 ? polynomial : 0);
}

// The number `steps` places after r. `steps` must be at most 62.
INTERLACE_HOST_DEVICE std::uint64_t skip(std::uint64_t r, std::uint32_t steps) {
  if (steps == 0) return r;
  const std::uint64_t high = r >> (64 - steps);
  return (r << steps) ^ high ^ (high << 1U) ^ (high << 2U);
}

// The number 2^Log2 places after r. It uses two facts: x^64 is x^2 + x + 1, and squaring doubles
// the exponents.
template <std::uint32_t Log2>
INTERLACE_HOST_DEVICE std::uint64_t skip_power(std::uint64_t r) {
  if constexpr (Log2 < 6) {
    return skip(r, 1U << Log2);
  } else {
    static_assert(Log2 <= 10);
    constexpr std::uint32_t one = 1U << (Log2 - 6);
    return skip(skip(r, one), one) ^ skip(r, one) ^ r;
  }
}

// The number `steps` places after r. `steps` must be below 2048.
INTERLACE_HOST_DEVICE std::uint64_t skip_some(std::uint64_t r, std::uint32_t steps) {
  if ((steps & 1024U) != 0) r = skip_power<10>(r);
  if ((steps & 512U) != 0) r = skip_power<9>(r);
  if ((steps & 256U) != 0) r = skip_power<8>(r);
  if ((steps & 128U) != 0) r = skip_power<7>(r);
  if ((steps & 64U) != 0) r = skip_power<6>(r);
  if ((steps & 32U) != 0) r = skip_power<5>(r);
  return skip(r, steps & 31U);
}

// The product of two polynomials.
INTERLACE_HOST_DEVICE std::uint64_t times(std::uint64_t a, std::uint64_t b) {
  std::uint64_t product = 0;
  for (std::uint32_t k = 64; k-- > 0;) product = next(product) ^ ((b >> k & 1U) * a);
  return product;
}

// Number n.
INTERLACE_HOST_DEVICE std::uint64_t number(std::uint64_t n) {
  std::uint64_t result = 1;
  std::uint64_t square = 2;  // x^(2^k)
  for (; n != 0; n >>= 1U) {
    if ((n & 1U) != 0) result = times(result, square);
    square = times(square, square);
  }
  return result;
}

}  // namespace interlace::kernel::hpcc
