// Sizes are in bytes. Times are whole picoseconds. Only a time that is computed as a size divided
// by a rate is in seconds.
#pragma once

#include <cstdint>

namespace interlace {

constexpr std::uint64_t kib = std::uint64_t{1} << 10U;
constexpr std::uint64_t mib = std::uint64_t{1} << 20U;
constexpr std::uint64_t gib = std::uint64_t{1} << 30U;

constexpr double seconds_of(std::uint64_t picoseconds) {
  return static_cast<double>(picoseconds) * 1e-12;
}

}  // namespace interlace
