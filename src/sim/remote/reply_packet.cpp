#include "sim/remote/reply_packet.hpp"

#include <string>

#include "interlace/base/errors.hpp"

namespace interlace::sim {

namespace {

constexpr std::uint32_t data_reply = 0b0010;
constexpr std::uint32_t of_line = 0b00;
constexpr std::uint32_t of_pieces = 0b01;

[[noreturn]] void refuse_reply(const std::string& what) {
  throw model_error("reply packet: " + what);
}

void check_format(const reply_format& f) {
  if (f.packet_bytes < f.bytes_of_pieces(1)) {
    refuse_reply("a packet of " + std::to_string(f.packet_bytes) +
                 " bytes has no room for a piece of " + std::to_string(f.piece_bytes));
  }
}

void put_id(std::vector<std::uint8_t>& to, std::uint16_t id) {
  to.push_back(static_cast<std::uint8_t>(id >> 8U));
  to.push_back(static_cast<std::uint8_t>(id & 0xffU));
}

std::uint16_t id_at(std::span<const std::uint8_t> bytes, std::size_t at) {
  return static_cast<std::uint16_t>(bytes[at] << 8U | bytes[at + 1]);
}

}  // namespace

std::vector<std::uint8_t> encode_reply(const reply_packet& packet, const reply_format& format) {
  check_format(format);
  const auto n = static_cast<std::uint32_t>(packet.ids.size());
  const std::uint32_t most = packet.coalesced ? format.most_pieces() : 1;
  if (packet.ids.empty() || packet.ids.size() > most) {
    refuse_reply(std::to_string(packet.ids.size()) + " responses; a packet has 1 to " +
                 std::to_string(most));
  }
  const std::uint32_t expected = packet.coalesced ? n * format.piece_bytes : format.line_bytes;
  if (packet.data.size() != expected) {
    refuse_reply("the responses have " + std::to_string(expected) +
                 " bytes of data, but the packet has " + std::to_string(packet.data.size()) +
                 " bytes");
  }
  std::vector<std::uint8_t> bytes;
  bytes.reserve(packet.coalesced ? format.bytes_of_pieces(n) : format.bytes_of_line());
  bytes.push_back(
      static_cast<std::uint8_t>(data_reply << 4U | (packet.coalesced ? of_pieces : of_line) << 2U));
  bytes.push_back(static_cast<std::uint8_t>(packet.coalesced ? n << 4U : 0));
  put_id(bytes, packet.coalesced ? std::uint16_t{0} : packet.ids.front());
  auto from = packet.data.begin();
  if (!packet.coalesced) {
    bytes.insert(bytes.end(), from, packet.data.end());
    return bytes;
  }
  for (const std::uint16_t id : packet.ids) {
    put_id(bytes, id);
    bytes.insert(bytes.end(), from, from + format.piece_bytes);
    from += format.piece_bytes;
  }
  return bytes;
}

reply_packet decode_reply(std::span<const std::uint8_t> bytes, const reply_format& format) {
  check_format(format);
  if (bytes.size() < reply_header_bytes) {
    refuse_reply("cut: " + std::to_string(bytes.size()) + " bytes; the header alone has " +
                 std::to_string(reply_header_bytes));
  }
  if ((bytes[0] & 3U) != 0 || (bytes[1] & 0xfU) != 0)
    refuse_reply("a reserved bit of the header is set");
  if (bytes[0] >> 4U != data_reply) {
    refuse_reply("type " + std::to_string(bytes[0] >> 4U) +
                 " is that of another message; a reply has " + std::to_string(data_reply));
  }
  const std::uint32_t compression = bytes[0] >> 2U & 3U;
  const std::uint32_t n = bytes[1] >> 4U;
  const std::uint16_t id = id_at(bytes, 2);
  if (compression != of_line && compression != of_pieces) {
    refuse_reply("compression " + std::to_string(compression) + " is unknown");
  }
  reply_packet packet;
  packet.coalesced = compression == of_pieces;
  if (packet.coalesced && (n == 0 || n > format.most_pieces())) {
    refuse_reply(std::to_string(n) + " pieces; a packet has 1 to " +
                 std::to_string(format.most_pieces()));
  }
  if (!packet.coalesced && n != 0) refuse_reply("a line with a count");
  if (packet.coalesced && id != 0) refuse_reply("pieces with an ID in the header");
  const std::uint32_t expected =
      packet.coalesced ? format.bytes_of_pieces(n) : format.bytes_of_line();
  if (bytes.size() != expected) {
    refuse_reply("its header says " + std::to_string(expected) + " bytes, but there are " +
                 std::to_string(bytes.size()));
  }
  if (!packet.coalesced) {
    packet.ids.push_back(id);
    packet.data.assign(bytes.begin() + reply_header_bytes, bytes.end());
    return packet;
  }
  for (std::size_t at = reply_header_bytes; at < bytes.size();
       at += response_id_bytes + format.piece_bytes) {
    packet.ids.push_back(id_at(bytes, at));
    const auto first = bytes.begin() + static_cast<std::ptrdiff_t>(at + response_id_bytes);
    packet.data.insert(packet.data.end(), first, first + format.piece_bytes);
  }
  return packet;
}

}  // namespace interlace::sim
