// Limits that several layers share.
#pragma once

#include <cstdint>

namespace interlace {

// The most GPUs of one node. The limit follows from three representations: a set of devices is a
// mask of 32 bits, a set of readers is a mask of 16 bits, and kernel arguments hold one pointer for
// each GPU.
inline constexpr std::uint32_t max_devices = 16;

// The most ranges with different subscribers in the part of a region that one device owns. This
// number suffices for one range for each other device.
inline constexpr std::uint32_t max_subscriber_ranges = 16;

}  // namespace interlace
