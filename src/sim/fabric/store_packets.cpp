#include "sim/fabric/store_packets.hpp"

namespace interlace::sim {

packet_cost store_packets(const machine::protocol& p, const byte_mask& mask) {
  packet_cost cost;
  each_packet(p, mask, [&](std::uint32_t first, std::uint32_t bytes, std::uint32_t written) {
    cost.add(p, first, bytes, written);
  });
  return cost;
}

}  // namespace interlace::sim
