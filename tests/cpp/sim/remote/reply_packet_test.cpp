// Reply packets must have the bytes of Fig. 9 and decode to what was encoded. Wrong packets must be
// refused.
#include "sim/remote/reply_packet.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <string>
#include <vector>

#include "interlace/base/errors.hpp"

namespace interlace::sim::reply_packet_tests {
namespace {

using bytes = std::vector<std::uint8_t>;

template <class Packet>
std::string refusal(const Packet& packet, const reply_format& format) {
  try {
    if constexpr (std::is_same_v<Packet, bytes>) {
      decode_reply(packet, format);
    } else {
      encode_reply(packet, format);
    }
  } catch (const model_error& e) {
    return e.what();
  }
  return "";
}

reply_packet random_packet(std::mt19937_64& random, const reply_format& f) {
  reply_packet p;
  p.coalesced = random() % 4 != 0;
  const std::uint64_t n = p.coalesced ? 1 + random() % f.most_pieces() : 1;
  for (std::uint64_t k = 0; k < n; ++k) p.ids.push_back(static_cast<std::uint16_t>(random()));
  const std::uint64_t size = p.coalesced ? n * f.piece_bytes : f.line_bytes;
  for (std::uint64_t k = 0; k < size; ++k) p.data.push_back(static_cast<std::uint8_t>(random()));
  return p;
}

// In Fig. 9, a packet without CoDec has a header and a line. A packet with CoDec has a header and
// up to ten pieces, each with its ID. A packet with ten pieces has 64 bytes.
TEST(reply_packet, known_bytes) {
  reply_packet line{false, {0x1234}, bytes(64, 0xab)};
  bytes expected{0x20, 0x00, 0x12, 0x34};
  expected.insert(expected.end(), 64, 0xab);
  EXPECT_EQ(encode_reply(line, {}), expected);
  EXPECT_EQ(decode_reply(expected, reply_format{}), line);

  const reply_packet two{true, {0x0102, 0x0304}, {1, 2, 3, 4, 5, 6, 7, 8}};
  const bytes pieces{0x24, 0x20, 0, 0, 0x01, 0x02, 1, 2, 3, 4, 0x03, 0x04, 5, 6, 7, 8};
  EXPECT_EQ(encode_reply(two, {}), pieces);
  EXPECT_EQ(decode_reply(pieces, reply_format{}), two);
}

TEST(reply_packet, sizes_of_all_granularities) {
  EXPECT_EQ(reply_format{}.most_pieces(), 10U);
  EXPECT_EQ((reply_format{64, 8, 64}.most_pieces()), 6U);
  EXPECT_EQ((reply_format{64, 16, 64}.most_pieces()), 3U);
  // 15 is the largest count that the header can hold.
  EXPECT_EQ((reply_format{64, 4, 128}.most_pieces()), 15U);
  EXPECT_EQ(reply_format{}.bytes_of_pieces(10), 64U);  // four flits of 16 bytes
  EXPECT_EQ(reply_format{}.bytes_of_line(), 68U);      // five flits
  const reply_packet ten{true, std::vector<std::uint16_t>(10, 7), bytes(40, 1)};
  EXPECT_EQ(encode_reply(ten, {}).size(), 64U);
}

TEST(reply_packet, encode_and_decode_are_inverses) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 2000; ++round) {
    reply_format f;
    f.line_bytes = random() % 2 == 0 ? 64 : 128;
    f.piece_bytes = 4U << random() % 3;
    f.packet_bytes = static_cast<std::uint32_t>(f.bytes_of_pieces(1) + random() % 128);
    const reply_packet p = random_packet(random, f);
    const bytes wire = encode_reply(p, f);
    EXPECT_EQ(wire.size(), p.coalesced ? f.bytes_of_pieces(static_cast<std::uint32_t>(p.ids.size()))
                                       : f.bytes_of_line());
    if (p.coalesced) {
      EXPECT_LE(wire.size(), f.packet_bytes);
    }
    ASSERT_EQ(decode_reply(wire, f), p);
  }
}

TEST(reply_packet, what_has_no_encoding_is_refused) {
  const std::string start = "reply packet: ";
  EXPECT_EQ(refusal(reply_packet{true, {}, {}}, {}), start + "0 responses; a packet has 1 to 10");
  EXPECT_EQ(refusal(reply_packet{true, std::vector<std::uint16_t>(11), bytes(44)}, {}),
            start + "11 responses; a packet has 1 to 10");
  EXPECT_EQ(refusal(reply_packet{false, {1, 2}, bytes(64)}, {}),
            start + "2 responses; a packet has 1 to 1");
  EXPECT_EQ(refusal(reply_packet{true, {1}, bytes(5)}, {}),
            start + "the responses have 4 bytes of data, but the packet has 5 bytes");
  EXPECT_EQ(refusal(reply_packet{true, {1}, bytes(16)}, {64, 16, 20}),
            start + "a packet of 20 bytes has no room for a piece of 16");
}

TEST(reply_packet, malformed_bytes_are_refused) {
  const bytes good = encode_reply(reply_packet{true, {5, 6}, bytes(8, 1)}, {});
  const bytes line = encode_reply(reply_packet{false, {5}, bytes(64, 1)}, {});
  const auto with = [](bytes b, const std::function<void(bytes&)>& change) {
    change(b);
    return refusal(b, {});
  };
  const std::string start = "reply packet: ";
  EXPECT_EQ(with(good, [](auto&) {}), "");
  EXPECT_EQ(with(good, [](auto& b) { b.resize(3); }),
            start + "cut: 3 bytes; the header alone has 4");
  EXPECT_EQ(with(good, [](auto& b) { b[0] |= 1; }), start + "a reserved bit of the header is set");
  EXPECT_EQ(with(good, [](auto& b) { b[1] |= 8; }), start + "a reserved bit of the header is set");
  EXPECT_EQ(with(good, [](auto& b) { b[0] = 0x34; }),
            start + "type 3 is that of another message; a reply has 2");
  EXPECT_EQ(with(good, [](auto& b) { b[0] = 0x28; }), start + "compression 2 is unknown");
  EXPECT_EQ(with(good, [](auto& b) { b[1] = 0; }), start + "0 pieces; a packet has 1 to 10");
  EXPECT_EQ(with(good, [](auto& b) { b[1] = 0xb0; }), start + "11 pieces; a packet has 1 to 10");
  EXPECT_EQ(with(good, [](auto& b) { b[1] = 0x30; }),
            start + "its header says 22 bytes, but there are 16");
  EXPECT_EQ(with(good, [](auto& b) { b[3] = 1; }), start + "pieces with an ID in the header");
  EXPECT_EQ(with(line, [](auto& b) { b[1] = 0x10; }), start + "a line with a count");
  EXPECT_EQ(with(line, [](auto& b) { b.pop_back(); }),
            start + "its header says 68 bytes, but there are 67");
}

// The decoder either refuses arbitrary bytes, or it decodes them to a packet whose encoding has the
// same bytes.
TEST(reply_packet, decoded_bytes_encode_to_themselves) {
  std::mt19937_64 random(2);
  std::uint32_t accepted = 0;
  for (int round = 0; round < 5000; ++round) {
    bytes b = encode_reply(random_packet(random, {}), {});
    for (std::uint64_t k = random() % 3; k > 0; --k) {
      auto& byte = b[random() % b.size()];
      byte = static_cast<std::uint8_t>(byte ^ 1U << random() % 8);
    }
    try {
      const reply_packet p = decode_reply(b, reply_format{});
      ++accepted;
      ASSERT_EQ(encode_reply(p, {}), b);
    } catch (const model_error&) {
    }
  }
  EXPECT_GT(accepted, 1000U);
  EXPECT_LT(accepted, 5000U);
}

}  // namespace
}  // namespace interlace::sim::reply_packet_tests
