// Turns shares into copies, with chunks, staging buffers, slots and dependencies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "plan/plan.hpp"

namespace interlace::plan {

// The most buffers of a path at a staging place. One chunk enters while other chunks wait or leave.
inline constexpr std::uint32_t most_buffers = 4;

// The part of a message that each path carries. Only the proportions between the paths of a message
// matter.
struct shares {
  std::vector<double> bytes;          // one for each path; 0 if the path is not used
  std::vector<std::uint32_t> chunks;  // for each path, the number of chunks of its part
};

// Fills in the buffers, slots and steps of a plan, and the bytes and chunks of its paths. Messages,
// rounds, paths and `apart` must be set. Every byte of a message is in exactly one chunk. Parts
// begin at multiples of 256 bytes. A path whose part would be smaller than that is not used. Each
// message takes at most `staging_bytes` of staging memory. To fit, chunks are made smaller, which
// means more copies. Returns false if the plan would need more than `step_limit` copies; such a
// plan is not usable.
bool cut(plan& made, const shares& wanted, dealing order, std::uint64_t staging_bytes,
         std::size_t step_limit = std::numeric_limits<std::size_t>::max());

}  // namespace interlace::plan
