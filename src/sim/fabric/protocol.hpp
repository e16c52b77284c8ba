// How many bytes a packet puts on a link: headers, framing and padding, to the byte.
//
// PCIe (Base Specification, transaction and data link layers): a write packet is its payload in
// double words plus `packet_overhead_bytes` (default 24: 16-byte header of a 64-bit address, 4-byte
// framing token with the sequence number, 4-byte LCRC); a payload of several separate runs of bytes
// needs a packet each, since byte enables cover only the first and last double word. A link's rate
// is what remains after line coding (8b/10b, 128b/130b, or 236 of 256 bytes of a PCIe 6 flit).
// If the protocol has link_flit_bytes, each packet takes whole flits of that size.
//
// NVLink: 16-byte flits; a header flit, a byte-enable flit where the payload is not made of whole
// flits, up to 16 data flits. The packet format of NVLink 3 and 4 is not public: NVLink 2's is
// used.
#pragma once

#include <cstdint>

#include "interlace/machine/machine.hpp"
#include "machine/copy_rate.hpp"

namespace interlace::sim {

using machine::is_pcie;

inline constexpr std::uint32_t double_word_bytes = 4;  // PCIe's unit of lengths

// One contiguous write of `bytes` at `offset` inside its naturally aligned line, at most
// max_payload_bytes. `masked`: some bytes of the span are not written (NVLink only).
std::uint32_t write_packet_bytes(const machine::protocol& p, std::uint32_t offset,
                                 std::uint32_t bytes, bool masked);

// A bulk transfer of `bytes` from an aligned address, in packets of max_payload_bytes.
std::uint64_t bulk_write_bytes(const machine::protocol& p, std::uint64_t bytes);

// The size of a read request, and of the reply that carries `bytes`.
std::uint32_t read_request_bytes(const machine::protocol& p);
std::uint32_t read_reply_bytes(const machine::protocol& p, std::uint32_t bytes);

}  // namespace interlace::sim
