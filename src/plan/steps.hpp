// Turns shares into copies: chunks, staging buffers, slots and dependencies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "plan/plan.hpp"

namespace interlace::plan {

// The most buffers of a path at a staging place: one chunk enters while other chunks wait and
// leave.
inline constexpr std::uint32_t most_buffers = 4;

// The part of a message that each path carries. Only the proportions between a message's paths
// matter.
struct shares {
  std::vector<double> bytes;          // for each path; 0: the path is not used
  std::vector<std::uint32_t> chunks;  // for each path, the chunks of its part
};

// Fills in buffers, slots and steps, and the bytes and chunks of the paths. Messages, rounds, paths
// and `apart` must be set. Every byte of a message is in exactly one chunk. Parts begin at
// multiples of 256 bytes, and a path whose part would be smaller is left out. Each message takes at
// most `staging_bytes`: chunks are made smaller until they fit. Smaller chunks mean more copies.
// Returns false if the plan would need more than `step_limit` copies; it is then not usable.
bool cut(plan& made, const shares& wanted, dealing order, std::uint64_t staging_bytes,
         std::size_t step_limit = std::numeric_limits<std::size_t>::max());

}  // namespace interlace::plan
