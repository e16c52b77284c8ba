// The bytes of a FinePack packet (Muthukrishnan et al., HPCA 2023, section IV-A). Many stores to
// one window of addresses are the payload of one PCIe memory-write packet.
//
// Header: the 16 bytes of a PCIe transaction-layer header with a 64-bit address (Table I), most
// significant byte and bit first:
//
//   byte 0      reserved 1, Format 2 (11: four double words, with data), Type 5
//   byte 1      reserved 1, Traffic Class 3, reserved 4
//   byte 2      TLP Digest 1, Error/Poisoned 1, Attribute 2, reserved 2, Length 2 (high)
//   byte 3      Length 8 (low)
//   bytes 4-5   Requester ID
//   byte 6      Tag
//   byte 7      Last BE 4, First BE 4
//   bytes 8-15  Address 62, reserved 2
//
// Type is 01111, which PCIe leaves unused. The types with data that PCIe uses are 00000 (memory
// write), 010xx (completions), 00010 (I/O), 0010x (configuration), 1xxxx (messages) and 01100 to
// 01110 (atomics). Length counts the double words of the payload. As in every PCIe packet, 0 means
// 1024. Zeros pad the payload to a double word. First BE is 0, because FinePack does not need it.
// Last BE has a one for each byte of the last double word that belongs to the payload: 0001, 0011,
// 0111 or 1111. Length and Last BE together give the payload's length in bytes. Address is the
// window's base in double words.
//
// Payload: the stores follow one after another. Each store is a sub-header of 2 to 6 bytes followed
// by its data (Table II). A sub-header is a number with the most significant byte first. Its low 10
// bits are the length in bytes, where 0 means 1024. The other bits are the offset of the data from
// the base. A store therefore has 1 to 1024 bytes. It must end inside of the window. The window has
// 2^(bits of the offset) bytes.
//
// The sequence number, the CRCs and the framing belong to the link and are not part of these bytes.
// The link's protocol counts them (packet_overhead_bytes). It also counts the digest that follows a
// packet whose TLP Digest is 1.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace interlace::sim {

inline constexpr std::uint32_t tlp_header_bytes = 16;
inline constexpr std::uint32_t subheader_length_bits = 10;
inline constexpr std::uint32_t most_store_bytes = 1U << subheader_length_bits;
inline constexpr std::uint32_t most_payload_bytes = 4096;  // 1024 double words

// A format for which both ends of a link are configured.
struct finepack_format {
  std::uint32_t subheader_bytes = 5;   // 2 to 6
  std::uint32_t payload_bytes = 4096;  // largest payload, including sub-headers

  std::uint32_t offset_bits() const { return subheader_bytes * 8 - subheader_length_bits; }
  std::uint64_t window_bytes() const { return std::uint64_t{1} << offset_bits(); }
};

struct finepack_store {
  std::uint64_t offset = 0;  // offset from the base
  std::uint32_t bytes = 0;
  friend bool operator==(const finepack_store&, const finepack_store&) = default;
};

struct finepack_packet {
  // Fields of a PCIe header with their standard meaning.
  std::uint8_t traffic_class = 0;  // 0 to 7
  std::uint8_t attribute = 0;      // 0 to 3
  bool digest = false;
  bool poisoned = false;
  std::uint16_t requester = 0;
  std::uint8_t tag = 0;

  std::uint64_t base = 0;  // a multiple of 4
  std::vector<finepack_store> stores;
  std::vector<std::uint8_t> data;  // data of all stores, one store after another
  friend bool operator==(const finepack_packet&, const finepack_packet&) = default;
};

// encode and decode are exact inverses of each other. Both throw model_error with one sentence.
// encode throws if a field is too large, if the packet has no stores, or if the payload exceeds the
// maximum. It also throws if a store is empty, too long or outside of the window, or if the length
// of the data is not the sum of the stores' lengths. decode throws for bytes that encode never
// makes.
std::vector<std::uint8_t> encode(const finepack_packet& packet, const finepack_format& format);
finepack_packet decode(std::span<const std::uint8_t> bytes, const finepack_format& format);

}  // namespace interlace::sim
