// Turns a flushed window into packets: one FinePack packet, or, in the stateful alternative, a
// configuration packet followed by one packet for each store (Muthukrishnan et al., HPCA 2023,
// IV-B, VI-B).
#pragma once

#include <cstdint>

#include "interlace/machine/machine.hpp"
#include "sim/remote/finepack_packet.hpp"
#include "sim/remote/remote_write_queue.hpp"

namespace interlace::sim {

// Makes the packet. It has one store for each run of enabled bytes of each line, in the order of
// the lines. The sub-header has no byte enables, so an entry whose bytes are not contiguous becomes
// several stores. byte_at(address) supplies the data.
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
  std::uint32_t stores = 0;   // number of sub-packets, which are runs of bytes
  std::uint32_t payload = 0;  // bytes stored
  std::uint32_t wire = 0;     // all bytes on the link
};

// The largest payload of a FinePack packet on a link: the queue's limit or the limit of the link's
// packets (256 bytes on NVLink), whichever is smaller.
std::uint32_t finepack_payload_bytes(const machine::remote_write_queue& q,
                                     const machine::protocol& p);

// On PCIe, the cost is packet_overhead_bytes, which include the header, and the payload in double
// words. On NVLink, the cost is a header flit, which stands for the TLP header, and the payload in
// flits. Each store states its length, so there is no byte-enable flit. The real NVLink encoding
// would be for NVIDIA to choose.
window_cost finepack_cost(const machine::protocol& p, const flushed_window& window,
                          std::uint32_t subheader_bytes);

// The cost if each store stays a packet of its own. A configuration packet before the stores holds
// the fields that they have in common. It holds until the next configuration packet, so it is sent
// only if `announces`. The queue, its windows and its flushes are FinePack's.
//
// On PCIe, the configuration packet is a header plus the overhead that the link adds
// (packet_overhead_bytes). A store is its sub-header and data in double words, plus the overhead
// that the link adds to each packet without the header: the sequence number and two CRCs, 10 bytes
// in the paper. On NVLink, the configuration packet is a header flit. A store is a header flit,
// which has room for the sub-header, and data flits.
window_cost configured_cost(const machine::protocol& p, const flushed_window& window,
                            std::uint32_t subheader_bytes, bool announces);

}  // namespace interlace::sim
