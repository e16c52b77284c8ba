#include "sim/remote/packetizer.hpp"

#include <algorithm>

#include "sim/fabric/protocol.hpp"

namespace interlace::sim {

namespace {

using machine::in_link_flits;

std::uint32_t rounded(std::uint32_t bytes, std::uint32_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

}  // namespace

std::uint32_t finepack_payload_bytes(const machine::remote_write_queue& q,
                                     const machine::protocol& p) {
  return std::min(q.payload_bytes, p.max_payload_bytes);
}

window_cost finepack_cost(const machine::protocol& p, const flushed_window& window,
                          std::uint32_t subheader_bytes) {
  window_cost cost;
  cost.packets = 1;
  for (const queued_line& l : window.lines) cost.stores += l.bytes.runs();
  cost.payload = window.payload - cost.stores * subheader_bytes;
  cost.wire =
      is_pcie(p.kind)
          ? in_link_flits(p, p.packet_overhead_bytes + rounded(window.payload, double_word_bytes))
          : machine::flit_bytes + rounded(window.payload, machine::flit_bytes);
  return cost;
}

window_cost configured_cost(const machine::protocol& p, const flushed_window& window,
                            std::uint32_t subheader_bytes, bool announces) {
  const bool pcie = is_pcie(p.kind);
  window_cost cost;
  if (announces) {
    ++cost.packets;
    cost.wire += pcie ? in_link_flits(p, p.packet_overhead_bytes) : machine::flit_bytes;
  }
  const std::uint32_t added =
      p.packet_overhead_bytes - std::min(p.packet_overhead_bytes, tlp_header_bytes);
  for (const queued_line& l : window.lines) {
    l.bytes.each_run([&](std::uint32_t, std::uint32_t bytes) {
      ++cost.packets;
      ++cost.stores;
      cost.payload += bytes;
      cost.wire +=
          pcie ? in_link_flits(p, added + rounded(subheader_bytes + bytes, double_word_bytes))
               : machine::flit_bytes + rounded(bytes, machine::flit_bytes);
    });
  }
  return cost;
}

}  // namespace interlace::sim
