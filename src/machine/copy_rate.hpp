// What a long copy gets of a link.
#pragma once

#include <cstdint>

#include "machine/machine.hpp"

namespace interlace::machine {

inline constexpr std::uint32_t flit_bytes = 16;  // of NVLink: a header is one

inline bool is_pcie(protocol_kind kind) { return kind <= protocol_kind::pcie6; }

// Bytes on a PCIe link of a packet of so many: whole flits, where the link has flits.
inline std::uint32_t in_link_flits(const protocol& rules, std::uint32_t bytes) {
  const std::uint32_t flit = rules.link_flit_bytes;
  return flit == 0 ? bytes : (bytes + flit - 1) / flit * flit;
}

// Bytes on the link of a write packet with the largest payload.
inline std::uint32_t full_packet_bytes(const protocol& rules) {
  return is_pcie(rules.kind)
             ? in_link_flits(rules, rules.max_payload_bytes + rules.packet_overhead_bytes)
             : rules.max_payload_bytes + flit_bytes;
}

// Payload of a long copy in one direction, in bytes a second: measured where the machine knows it,
// else what the packets leave.
inline double copy_bytes_per_s(const link& edge) {
  if (edge.copy_bytes_per_s > 0) return edge.copy_bytes_per_s;
  return edge.bytes_per_s * edge.protocol.max_payload_bytes / full_packet_bytes(edge.protocol);
}

}  // namespace interlace::machine
