// Counts the stores of warps to lines of other GPUs, at the place where the stores leave a compute
// unit.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "interlace/machine/machine.hpp"
#include "interlace/sim/gpu/program.hpp"
#include "sim/fabric/store_packets.hpp"
#include "sim/gpu/store_counts.hpp"

namespace interlace::sim {

// Counts a warp's store to a line. The bytes of neighbouring lanes are joined up to `joined` bytes.
// Calls visit(bytes, number of stores) for each part that leaves separately. Returns the cost of
// all parts, with each part in a packet of its own.
template <class Visit>
packet_cost count_stores(const machine::protocol& p, const written_bytes& written,
                         std::uint32_t joined, store_counts& counts, const Visit& visit) {
  packet_cost cost;
  // A lane's element is never split.
  const std::uint32_t most = std::max(joined, std::bit_ceil(written.element_bytes));
  each_part(written.bytes, most, [&](const byte_mask& part) {
    const std::uint64_t before = counts.stores;
    each_packet(p, part, [&](std::uint32_t first, std::uint32_t bytes, std::uint32_t enabled) {
      counts.count(enabled);
      cost.add(p, first, bytes, enabled);
    });
    visit(part, static_cast<std::uint32_t>(counts.stores - before));
  });
  return cost;
}

}  // namespace interlace::sim
