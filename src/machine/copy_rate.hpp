// What a long copy gets of a link.
#pragma once

#include <cstdint>

#include "machine/machine.hpp"

namespace interlace::machine {

inline constexpr std::uint32_t flit_bytes = 16;  // of NVLink: a header is one

inline bool is_pcie(protocol_kind kind) { return kind <= protocol_kind::pcie6; }

// Bytes on the link of a write packet with the largest payload.
inline std::uint32_t full_packet_bytes(const protocol& rules) {
  return rules.max_payload_bytes + (is_pcie(rules.kind) ? rules.packet_overhead_bytes : flit_bytes);
}

// Payload of a long copy in one direction, in bytes a second: measured where the machine knows it,
// else what the packets leave.
inline double copy_bytes_per_s(const link& edge) {
  if (edge.copy_bytes_per_s > 0) return edge.copy_bytes_per_s;
  return edge.bytes_per_s * edge.protocol.max_payload_bytes / full_packet_bytes(edge.protocol);
}

}  // namespace interlace::machine
