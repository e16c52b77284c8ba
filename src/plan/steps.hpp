// From shares to copies: chunks, staging buffers, slots and dependencies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "plan/plan.hpp"

namespace interlace::plan {

// Buffers of a staging place, at most: a chunk enters while others wait and leave.
inline constexpr std::uint32_t most_buffers = 4;

// How much of a message each path carries; bytes of a message's paths are in proportion.
struct shares {
  std::vector<double> bytes;          // by path; 0: not used
  std::vector<std::uint32_t> chunks;  // by path: of its part
};

// Fills buffers, slots and steps, and bytes and chunks of the paths. Messages, rounds, paths and
// whether messages run apart must be there. Every byte of a message is in exactly one chunk; parts
// begin at multiples of 256 bytes. A path whose part would be less is left out. Staging is at most
// `staging_bytes` for each message: chunks become smaller until it is. False, and nothing that can
// be used, if that would take more than `most_steps` copies: little staging memory asks for any
// number.
bool cut(plan& made, const shares& wanted, dealing order, std::uint64_t staging_bytes,
         std::size_t most_steps = std::numeric_limits<std::size_t>::max());

}  // namespace interlace::plan
