// The bytes of a reply to remote loads (DualOpt, PACT 2022, section 4.1.3 and Fig. 9). A reply
// carries a whole line, or pieces that several loads requested.
//
// Header, most significant bit first:
//
//   byte 0      Message Type 4 (0010: data reply), Compression 2 (00: line, 01: pieces), reserved 2
//   byte 1      Count 4 (number of pieces; 0 for a line), reserved 4
//   bytes 2-3   Response ID of a line; 0 for pieces
//
// After the header, a line follows unchanged. Pieces follow one after another, and each piece is a
// response ID of 2 bytes followed by the data. Pieces of one load have the same ID and come in
// ascending order of their addresses, so the GPU that requested the pieces can identify them. The
// paper's count has 3 bits, which cannot express 10. The count here has 4 bits.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace interlace::sim {

inline constexpr std::uint32_t reply_header_bytes = 4;
inline constexpr std::uint32_t response_id_bytes = 2;
inline constexpr std::uint32_t most_reply_pieces = 15;

// A format for which both ends of a link are configured.
struct reply_format {
  std::uint32_t line_bytes = 64;
  std::uint32_t piece_bytes = 4;
  std::uint32_t packet_bytes = 64;  // largest packet of pieces, including the header

  // A packet of 64 bytes holds 10 pieces of 4 bytes, 6 pieces of 8 bytes or 3 pieces of 16 bytes.
  std::uint32_t most_pieces() const {
    const std::uint32_t fit =
        (packet_bytes - reply_header_bytes) / (response_id_bytes + piece_bytes);
    return fit < most_reply_pieces ? fit : most_reply_pieces;
  }
  std::uint32_t bytes_of_line() const { return reply_header_bytes + line_bytes; }
  std::uint32_t bytes_of_pieces(std::uint32_t n) const {
    return reply_header_bytes + n * (response_id_bytes + piece_bytes);
  }
};

struct reply_packet {
  bool coalesced = false;
  std::vector<std::uint16_t> ids;  // one ID for each piece, or one for a whole line
  std::vector<std::uint8_t> data;  // data of the line, or of the pieces one after another
  friend bool operator==(const reply_packet&, const reply_packet&) = default;
};

// encode_reply and decode_reply are exact inverses of each other. Both throw model_error with one
// sentence. encode_reply throws if a packet has no encoding: it has too few or too many IDs, or its
// data does not have the length that the IDs require. decode_reply throws for bytes that
// encode_reply never makes.
std::vector<std::uint8_t> encode_reply(const reply_packet& packet, const reply_format& format);
reply_packet decode_reply(std::span<const std::uint8_t> bytes, const reply_format& format);

}  // namespace interlace::sim
