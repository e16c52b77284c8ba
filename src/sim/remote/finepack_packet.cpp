#include "sim/remote/finepack_packet.hpp"

#include <algorithm>
#include <string>

#include "interlace/base/errors.hpp"
#include "sim/fabric/protocol.hpp"

namespace interlace::sim {

namespace {

constexpr std::uint8_t format_with_data = 0b11;
constexpr std::uint8_t type_finepack = 0b01111;

[[noreturn]] void refuse(const std::string& what) { throw model_error("FinePack packet: " + what); }

std::string number(std::uint64_t n) { return std::to_string(n); }

void check_format(const finepack_format& f) {
  if (f.subheader_bytes < 2 || f.subheader_bytes > 6) {
    refuse("sub-headers of " + number(f.subheader_bytes) + " bytes; give a size from 2 to 6 bytes");
  }
}

void check_store(std::uint64_t base, const finepack_store& s, const finepack_format& f) {
  if (s.bytes == 0 || s.bytes > most_store_bytes) {
    refuse("a store of " + number(s.bytes) + " bytes; give a size from 1 to " +
           number(most_store_bytes) + " bytes");
  }
  if (s.offset >= f.window_bytes() || s.bytes > f.window_bytes() - s.offset) {
    refuse("a store of " + number(s.bytes) + " bytes at offset " + number(s.offset) +
           " leaves the window of " + number(f.window_bytes()) + " bytes");
  }
  if (s.offset + s.bytes - 1 > ~std::uint64_t{0} - base) {
    refuse("a store at offset " + number(s.offset) + " lies above the last address");
  }
}

void put(std::vector<std::uint8_t>& to, std::uint64_t value, std::uint32_t bytes) {
  for (std::uint32_t k = bytes; k-- > 0;) to.push_back(static_cast<std::uint8_t>(value >> 8 * k));
}

std::uint64_t get(std::span<const std::uint8_t> from, std::size_t at, std::uint32_t bytes) {
  std::uint64_t value = 0;
  for (std::uint32_t k = 0; k < bytes; ++k) value = value << 8U | from[at + k];
  return value;
}

}  // namespace

std::vector<std::uint8_t> encode(const finepack_packet& packet, const finepack_format& format) {
  check_format(format);
  if (packet.traffic_class > 7) refuse("a traffic class above 7");
  if (packet.attribute > 3) refuse("an attribute above 3");
  if (packet.base % double_word_bytes != 0) refuse("a base that is not a multiple of 4");
  if (packet.stores.empty()) refuse("no stores");
  std::uint64_t payload = 0;
  std::uint64_t data = 0;
  for (const finepack_store& s : packet.stores) {
    check_store(packet.base, s, format);
    payload += format.subheader_bytes + s.bytes;
    data += s.bytes;
  }
  if (data != packet.data.size()) {
    refuse("the stores have " + number(data) + " bytes of data together, but the packet has " +
           number(packet.data.size()) + " bytes");
  }
  if (payload > format.payload_bytes || payload > most_payload_bytes) {
    refuse("a payload of " + number(payload) + " bytes; at most " +
           number(std::min(format.payload_bytes, most_payload_bytes)) + " fit");
  }
  const std::uint64_t words = (payload + double_word_bytes - 1) / double_word_bytes;
  const auto length = static_cast<std::uint32_t>(words % 1024);
  const auto last = static_cast<std::uint32_t>(payload - (words - 1) * double_word_bytes);

  std::vector<std::uint8_t> bytes;
  bytes.reserve(tlp_header_bytes + words * double_word_bytes);
  bytes.push_back(static_cast<std::uint8_t>(format_with_data << 5U | type_finepack));
  bytes.push_back(static_cast<std::uint8_t>(packet.traffic_class << 4U));
  bytes.push_back(static_cast<std::uint8_t>((packet.digest ? 0x80U : 0U) |
                                            (packet.poisoned ? 0x40U : 0U) |
                                            std::uint32_t{packet.attribute} << 4U | length >> 8U));
  bytes.push_back(static_cast<std::uint8_t>(length));
  put(bytes, packet.requester, 2);
  bytes.push_back(packet.tag);
  bytes.push_back(static_cast<std::uint8_t>(((1U << last) - 1U) << 4U));
  put(bytes, packet.base, 8);
  auto from = packet.data.begin();
  for (const finepack_store& s : packet.stores) {
    put(bytes, s.offset << subheader_length_bits | s.bytes % most_store_bytes,
        format.subheader_bytes);
    bytes.insert(bytes.end(), from, from + s.bytes);
    from += s.bytes;
  }
  bytes.resize(tlp_header_bytes + words * double_word_bytes, 0);
  return bytes;
}

finepack_packet decode(std::span<const std::uint8_t> bytes, const finepack_format& format) {
  check_format(format);
  if (bytes.size() < tlp_header_bytes) {
    refuse("cut: " + number(bytes.size()) + " bytes; the header alone has 16");
  }
  if ((bytes[0] & 0x80U) != 0 || (bytes[1] & 0x8fU) != 0 || (bytes[2] & 0x0cU) != 0 ||
      (bytes[15] & 0x03U) != 0) {
    refuse("a reserved bit of the header is set");
  }
  if (bytes[0] >> 5U != format_with_data || (bytes[0] & 0x1fU) != type_finepack) {
    refuse("format " + number(bytes[0] >> 5U) + " and type " + number(bytes[0] & 0x1fU) +
           " are those of another packet; FinePack has format 3 and type 15");
  }
  if ((bytes[7] & 0x0fU) != 0) refuse("First BE is not 0");
  const std::uint32_t enables = bytes[7] >> 4U;
  if (enables != 1 && enables != 3 && enables != 7 && enables != 15) {
    refuse("Last BE is " + number(enables) + ", not 1, 3, 7 or 15");
  }
  const std::uint32_t field = (bytes[2] & 0x03U) << 8U | bytes[3];
  const std::size_t words = field == 0 ? 1024 : field;
  if (bytes.size() != tlp_header_bytes + words * double_word_bytes) {
    refuse("its length says " + number(words * double_word_bytes) + " bytes of payload, but " +
           number(bytes.size() - tlp_header_bytes) + " follow the header");
  }
  const std::size_t padding =
      double_word_bytes - static_cast<std::size_t>(__builtin_popcount(enables));
  const std::size_t end = bytes.size() - padding;
  if (end - tlp_header_bytes > format.payload_bytes) {
    refuse("a payload of " + number(end - tlp_header_bytes) + " bytes; at most " +
           number(format.payload_bytes) + " fit");
  }
  for (std::size_t at = end; at < bytes.size(); ++at) {
    if (bytes[at] != 0) refuse("its padding is not 0");
  }

  finepack_packet packet;
  packet.traffic_class = static_cast<std::uint8_t>(bytes[1] >> 4U);
  packet.digest = (bytes[2] & 0x80U) != 0;
  packet.poisoned = (bytes[2] & 0x40U) != 0;
  packet.attribute = static_cast<std::uint8_t>(bytes[2] >> 4U & 3U);
  packet.requester = static_cast<std::uint16_t>(get(bytes, 4, 2));
  packet.tag = bytes[6];
  packet.base = get(bytes, 8, 8);
  for (std::size_t at = tlp_header_bytes; at < end;) {
    if (end - at < format.subheader_bytes) {
      refuse("cut: " + number(end - at) + " bytes where a sub-header of " +
             number(format.subheader_bytes) + " should be");
    }
    const std::uint64_t header = get(bytes, at, format.subheader_bytes);
    at += format.subheader_bytes;
    finepack_store s;
    s.offset = header >> subheader_length_bits;
    s.bytes = static_cast<std::uint32_t>(header % most_store_bytes);
    if (s.bytes == 0) s.bytes = most_store_bytes;
    if (end - at < s.bytes) {
      refuse("a store says " + number(s.bytes) + " bytes, but " + number(end - at) +
             " are left of the payload");
    }
    check_store(packet.base, s, format);
    packet.stores.push_back(s);
    const auto data = bytes.subspan(at, s.bytes);
    packet.data.insert(packet.data.end(), data.begin(), data.end());
    at += s.bytes;
  }
  return packet;
}

}  // namespace interlace::sim
