// What a flushed window becomes on the wire: one FinePack packet, or the configuration packet and
// the packets behind it of the stateful alternative (Muthukrishnan et al., HPCA 2023, IV-B, VI-B).
#pragma once

#include <cstdint>

#include "machine/machine.hpp"
#include "sim/remote/finepack_packet.hpp"
#include "sim/remote/remote_write_queue.hpp"

namespace interlace::sim {

// The packet, a store for each run of enabled bytes of each line, in the order of the lines. The
// sub-header has no byte enables, so an entry whose bytes are not contiguous becomes several.
// byte_at(address) gives the data.
template <class ByteAt>
finepack_packet packetize(const flushed_window& window, const ByteAt& byte_at) {
  finepack_packet packet;
  packet.base = window.base;
  for (const queued_line& l : window.lines) {
    l.bytes.each_run([&](std::uint32_t first, std::uint32_t bytes) {
      packet.stores.push_back({l.line + first - window.base, bytes});
      for (std::uint32_t k = 0; k < bytes; ++k) packet.data.push_back(byte_at(l.line + first + k));
    });
  }
  return packet;
}

struct window_cost {
  std::uint32_t packets = 0;
  std::uint32_t stores = 0;   // sub-packets: runs of bytes
  std::uint32_t payload = 0;  // bytes stored
  std::uint32_t wire = 0;     // all bytes on the link
};

// The largest payload of a FinePack packet on a link: that of the queue, or that of the link's
// packets if it is less, as on NVLink (256 bytes).
std::uint32_t finepack_payload_bytes(const machine::remote_write_queue& q,
                                     const machine::protocol& p);

// PCIe: packet_overhead_bytes, which contain the header, and the payload in double words. NVLink: a
// header flit, which stands for the TLP header, and the payload in flits; each store says its
// length, so there is no byte-enable flit. NVLink's own encoding would be NVIDIA's to choose.
window_cost finepack_cost(const machine::protocol& p, const flushed_window& window,
                          std::uint32_t subheader_bytes);

// Stores stay packets of their own, of which a configuration packet before them has said what they
// have in common; it stays said until another one comes, so it is sent only where `announces`. The
// queue, its windows and its flushes are FinePack's. PCIe: the configuration packet is a header
// with what the link adds (packet_overhead_bytes). A store has what the link adds to each packet
// (those less the header: the sequence number and two CRCs, 10 bytes, in the paper), and its
// sub-header and data in double words. NVLink: each is a header flit, and a store's data flits; the
// flit has room for the sub-header.
window_cost configured_cost(const machine::protocol& p, const flushed_window& window,
                            std::uint32_t subheader_bytes, bool announces);

}  // namespace interlace::sim
