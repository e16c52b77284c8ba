// The share of a link's rate that a long copy achieves.
#pragma once

#include <cstdint>

#include "interlace/machine/machine.hpp"

namespace interlace::machine {

inline constexpr std::uint32_t flit_bytes = 16;  // flits of NVLink; a header takes one flit

inline bool is_pcie(protocol_kind kind) { return kind <= protocol_kind::pcie6; }

// The number of bytes that a packet of `bytes` bytes takes on a PCIe link. If the link has flits,
// the packet takes whole flits.
inline std::uint32_t in_link_flits(const protocol& rules, std::uint32_t bytes) {
  const std::uint32_t flit = rules.link_flit_bytes;
  return flit == 0 ? bytes : (bytes + flit - 1) / flit * flit;
}

// The number of bytes that a write packet with the largest payload takes on the link.
inline std::uint32_t full_packet_bytes(const protocol& rules) {
  return is_pcie(rules.kind)
             ? in_link_flits(rules, rules.max_payload_bytes + rules.packet_overhead_bytes)
             : rules.max_payload_bytes + flit_bytes;
}

// The payload rate of a long copy in one direction, in bytes per second. If the machine has a
// measured rate, the result is that rate. Otherwise it is the rate that remains after the overhead
// of packets.
inline double copy_bytes_per_s(const link& edge) {
  if (edge.copy_bytes_per_s > 0) return edge.copy_bytes_per_s;
  return edge.bytes_per_s * edge.protocol.max_payload_bytes / full_packet_bytes(edge.protocol);
}

}  // namespace interlace::machine
