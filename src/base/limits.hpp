// Bounds that several layers share.
#pragma once

#include <cstdint>

namespace interlace {

// GPUs of one node; device sets are masks of 32 bits, those of readers of 16, and kernel arguments
// hold one pointer for each.
inline constexpr std::uint32_t max_devices = 16;

// Ranges with different subscribers inside the part of a region that one device owns: enough for
// one for each other device.
inline constexpr std::uint32_t max_subscriber_ranges = 16;

}  // namespace interlace
