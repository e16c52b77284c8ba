// The bytes that a packet puts on a link: headers, framing and padding, to the byte.
//
// PCIe (Base Specification, transaction and data link layers): a write packet is its payload in
// double words plus `packet_overhead_bytes`. The default of 24 bytes is the sum of a 16-byte header
// with a 64-bit address, a 4-byte framing token with the sequence number, and a 4-byte LCRC. If a
// payload has several separate runs of bytes, each run needs a packet of its own, because byte
// enables cover only the first and last double word. The rate of a link is the rate after line
// coding (8b/10b, 128b/130b, or 236 of 256 bytes of a PCIe 6 flit). If the protocol has
// link_flit_bytes, each packet takes whole flits of that size.
//
// NVLink: a flit has 16 bytes. A packet has a header flit and up to 16 data flits. It also has a
// byte-enable flit if its payload is not made of whole flits. The packet format of NVLink 3 and 4
// is not public, so the model uses the format of NVLink 2 for them. A protocol can state two
// measured rules that change this format: packets with byte enables carry whole sectors, and bytes
// return for each packet of stores.
#pragma once

#include <cstdint>

#include "interlace/machine/machine.hpp"
#include "machine/copy_rate.hpp"

namespace interlace::sim {

using machine::is_pcie;

inline constexpr std::uint32_t double_word_bytes = 4;  // the unit of lengths in PCIe

// The size of the packets for one contiguous write of `bytes` bytes at `offset` inside its
// naturally aligned line. A write has at most max_payload_bytes. If `masked`, some bytes between
// the first and the last are not written (only on NVLink).
std::uint32_t write_packet_bytes(const machine::protocol& p, std::uint32_t offset,
                                 std::uint32_t bytes, bool masked);

// The size of the packets for a bulk transfer of `bytes` bytes from an aligned address, in packets
// of max_payload_bytes.
std::uint64_t bulk_write_bytes(const machine::protocol& p, std::uint64_t bytes);

// The size of a read request.
std::uint32_t read_request_bytes(const machine::protocol& p);
// The size of a reply that carries `bytes` bytes.
std::uint32_t read_reply_bytes(const machine::protocol& p, std::uint32_t bytes);

}  // namespace interlace::sim
