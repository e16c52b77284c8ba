// Times are whole picoseconds, and seconds where they are divided by rates.
#pragma once

#include <cstdint>

namespace interlace {

constexpr double seconds_of(std::uint64_t picoseconds) {
  return static_cast<double>(picoseconds) * 1e-12;
}

}  // namespace interlace
