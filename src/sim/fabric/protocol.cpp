#include "sim/fabric/protocol.hpp"

#include <bit>

namespace interlace::sim {

namespace {

using machine::flit_bytes;
using machine::in_link_flits;

constexpr std::uint32_t word_bytes = 4;

// The number of units of `unit` bytes that [offset, offset + bytes) touches.
std::uint32_t units(std::uint32_t offset, std::uint32_t bytes, std::uint32_t unit) {
  return (offset % unit + bytes + unit - 1) / unit;
}

}  // namespace

std::uint32_t write_packet_bytes(const machine::protocol& p, std::uint32_t offset,
                                 std::uint32_t bytes, bool masked) {
  if (is_pcie(p.kind)) {
    return in_link_flits(
        p, p.packet_overhead_bytes + units(offset, bytes, double_word_bytes) * double_word_bytes);
  }
  if (bytes <= word_bytes && p.word_write_bytes != 0) return p.word_write_bytes;
  if (const std::uint32_t sector = p.partial_write_sector_bytes; sector != 0) {
    const bool lone = bytes <= flit_bytes && std::has_single_bit(bytes) && offset % bytes == 0;
    const bool whole = offset % sector == 0 && bytes % sector == 0;
    if (masked || !(lone || whole)) {
      return 2 * flit_bytes + units(offset, bytes, sector) * sector;
    }
  }
  const bool whole_flits = offset % flit_bytes == 0 && bytes % flit_bytes == 0 && !masked;
  return flit_bytes + (whole_flits ? 0 : flit_bytes) +
         units(offset, bytes, flit_bytes) * flit_bytes;
}

std::uint64_t bulk_write_bytes(const machine::protocol& p, std::uint64_t bytes) {
  const std::uint64_t full = bytes / p.max_payload_bytes;
  const auto rest = static_cast<std::uint32_t>(bytes % p.max_payload_bytes);
  return full * machine::full_packet_bytes(p) +
         (rest == 0 ? 0 : write_packet_bytes(p, 0, rest, false));
}

std::uint32_t read_request_bytes(const machine::protocol& p) {
  return is_pcie(p.kind) ? in_link_flits(p, p.read_request_bytes) : flit_bytes;
}

std::uint32_t read_reply_bytes(const machine::protocol& p, std::uint32_t bytes) {
  if (is_pcie(p.kind)) return in_link_flits(p, p.completion_overhead_bytes + bytes);
  return flit_bytes + units(0, bytes, flit_bytes) * flit_bytes;
}

}  // namespace interlace::sim
