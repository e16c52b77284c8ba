#include "sim/remote/packets.hpp"

#include <algorithm>

namespace interlace::sim {

packet_cost store_packets(const machine::protocol& p, const byte_mask& mask) {
  packet_cost cost;
  each_packet(p, mask, [&](std::uint32_t first, std::uint32_t bytes, std::uint32_t written) {
    cost.payload += written;
    for (std::uint32_t at = first; at < first + bytes; at += p.max_payload_bytes) {
      const std::uint32_t part = std::min(first + bytes - at, p.max_payload_bytes);
      cost.wire += write_packet_bytes(p, at, part, written != bytes);
      ++cost.packets;
    }
  });
  return cost;
}

}  // namespace interlace::sim
