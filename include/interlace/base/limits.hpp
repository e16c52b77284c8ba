// Limits that several layers share.
#pragma once

#include <cstdint>

namespace interlace {

// GPUs of one node. Device sets are masks of 32 bits and sets of readers masks of 16 bits; kernel
// arguments hold one pointer for each GPU.
inline constexpr std::uint32_t max_devices = 16;

// Ranges with different subscribers within the part of a region that one device owns. The limit is
// enough for one range for each other device.
inline constexpr std::uint32_t max_subscriber_ranges = 16;

}  // namespace interlace
