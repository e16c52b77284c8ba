// Turns a flushed window into packets (Muthukrishnan et al., HPCA 2023, sections IV-B and VI-B).
// The result is one FinePack packet. In the stateful alternative, the result is a configuration
// packet followed by one packet for each store.
#pragma once

#include <cstdint>

#include "interlace/machine/machine.hpp"
#include "sim/remote/finepack_packet.hpp"
#include "sim/remote/remote_write_queue.hpp"

namespace interlace::sim {

// Makes the packet of a window. The packet has one store for each run of enabled bytes of each
// line, in the order of the lines. A sub-header has no byte enables, so a line whose enabled bytes
// are not contiguous becomes several stores. byte_at(address) supplies the data.
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
  std::uint32_t stores = 0;   // number of sub-packets; each run of bytes is a sub-packet
  std::uint32_t payload = 0;  // number of stored bytes
  std::uint32_t wire = 0;     // number of all bytes on the link
};

// The largest payload of a FinePack packet on a link. This is the queue's limit or the limit of the
// link's packets (256 bytes on NVLink), whichever is smaller.
std::uint32_t finepack_payload_bytes(const machine::remote_write_queue& q,
                                     const machine::protocol& p);

// The cost of one FinePack packet. On PCIe, the cost is packet_overhead_bytes, which include the
// header, and the payload in double words. On NVLink, the cost is a header flit, which stands for
// the TLP header, and the payload in flits. Each store states its length, so there is no
// byte-enable flit. NVIDIA would choose the real encoding on NVLink.
window_cost finepack_cost(const machine::protocol& p, const flushed_window& window,
                          std::uint32_t subheader_bytes);

// The cost if each store stays a packet of its own. A configuration packet precedes the stores and
// holds the fields that they have in common. A configuration packet is valid until the next
// configuration packet, so it is sent only if `announces` is true. The queue, its windows and its
// flushes are the same as for FinePack.
//
// On PCIe, the configuration packet is a header plus the overhead that the link adds
// (packet_overhead_bytes). A store has its sub-header and its data in double words. The link adds
// its overhead without the header to each store: the sequence number and two CRCs, 10 bytes in the
// paper. On NVLink, the configuration packet is a header flit. A store is a header flit, which has
// room for the sub-header, and data flits.
window_cost configured_cost(const machine::protocol& p, const flushed_window& window,
                            std::uint32_t subheader_bytes, bool announces);

}  // namespace interlace::sim
