// Adds up structs of counters. A new counter needs only its declaration in the struct.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace interlace::sim {

// Adds each counter of `from` to the same counter of `to`. Every member must be a 64-bit unsigned
// integer, or an array or struct of such integers.
template <class Counts>
void add_counts(Counts& to, const Counts& from) {
  static_assert(std::is_trivially_copyable_v<Counts> &&
                sizeof(Counts) % sizeof(std::uint64_t) == 0);
  using words = std::array<std::uint64_t, sizeof(Counts) / sizeof(std::uint64_t)>;
  auto sum = std::bit_cast<words>(to);
  const auto more = std::bit_cast<words>(from);
  for (std::size_t k = 0; k < sum.size(); ++k) sum[k] += more[k];
  to = std::bit_cast<Counts>(sum);
}

// Returns the sum of the counts at `end` and `times` multiplied by the counts that were added
// between `begin` and `later`.
template <class Counts>
Counts counts_with_more(const Counts& end, const Counts& begin, const Counts& later,
                        std::uint64_t times) {
  static_assert(std::is_trivially_copyable_v<Counts> &&
                sizeof(Counts) % sizeof(std::uint64_t) == 0);
  using words = std::array<std::uint64_t, sizeof(Counts) / sizeof(std::uint64_t)>;
  auto sum = std::bit_cast<words>(end);
  const auto from = std::bit_cast<words>(begin);
  const auto to = std::bit_cast<words>(later);
  for (std::size_t k = 0; k < sum.size(); ++k) sum[k] += times * (to[k] - from[k]);
  return std::bit_cast<Counts>(sum);
}

}  // namespace interlace::sim
