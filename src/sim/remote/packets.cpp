#include "sim/remote/packets.hpp"

#include <algorithm>

#include "sim/fabric/protocol.hpp"

namespace interlace::sim {

packet_cost store_packets(const machine::protocol& p, const byte_mask& mask,
                          std::uint32_t line_bytes) {
  constexpr std::uint32_t sector = 32;
  packet_cost cost;
  cost.payload = mask.count();
  const auto emit = [&](std::uint32_t first, std::uint32_t last, std::uint32_t written) {
    const bool masked = written != last + 1 - first;
    for (std::uint32_t at = first; at <= last; at += p.max_payload_bytes) {
      const std::uint32_t bytes = std::min(last + 1 - at, p.max_payload_bytes);
      cost.wire += write_packet_bytes(p, at, bytes, masked);
      ++cost.packets;
    }
  };
  const std::uint32_t unit = is_pcie(p.kind) ? 1 : sector;
  for (std::uint32_t i = 0; i < line_bytes;) {
    if (!mask.test(i)) {
      ++i;
      continue;
    }
    const std::uint32_t first = i;
    std::uint32_t last = i;
    std::uint32_t written = 0;
    // Bytes that are not written end a packet once a whole unit is missing.
    for (; i < line_bytes && i / unit <= last / unit + 1; ++i) {
      if (!mask.test(i)) continue;
      last = i;
      ++written;
    }
    i = last + 1;
    emit(first, last, written);
  }
  return cost;
}

}  // namespace interlace::sim
