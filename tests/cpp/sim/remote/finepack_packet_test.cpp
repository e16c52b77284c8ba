// The codec must give known bytes, decode what it encodes, and refuse wrong packets.
#include "sim/remote/finepack_packet.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "interlace/base/errors.hpp"

namespace interlace::sim::finepack_packet_tests {
namespace {

using bytes = std::vector<std::uint8_t>;

std::string refusal(const bytes& packet, const finepack_format& format) {
  try {
    decode(packet, format);
  } catch (const model_error& e) {
    return e.what();
  }
  return "";
}

std::string refusal(const finepack_packet& packet, const finepack_format& format) {
  try {
    encode(packet, format);
  } catch (const model_error& e) {
    return e.what();
  }
  return "";
}

finepack_packet random_packet(std::mt19937_64& random, const finepack_format& f) {
  finepack_packet p;
  p.traffic_class = random() % 8;
  p.attribute = random() % 4;
  p.digest = random() % 2 == 0;
  p.poisoned = random() % 2 == 0;
  p.requester = static_cast<std::uint16_t>(random());
  p.tag = static_cast<std::uint8_t>(random());
  p.base = random() >> (random() % 32) & ~(f.window_bytes() - 1);
  std::uint32_t left = f.payload_bytes;
  const std::uint64_t stores = 1 + random() % 100;
  for (std::uint64_t k = 0; k < stores && left > f.subheader_bytes; ++k) {
    const auto longest = std::min<std::uint64_t>(
        {left - f.subheader_bytes, most_store_bytes, f.window_bytes(), 1U << random() % 11});
    finepack_store s;
    s.bytes = static_cast<std::uint32_t>(1 + random() % longest);
    s.offset = random() % (f.window_bytes() - s.bytes + 1);
    left -= f.subheader_bytes + s.bytes;
    for (std::uint32_t b = 0; b < s.bytes; ++b) {
      p.data.push_back(static_cast<std::uint8_t>(random()));
    }
    p.stores.push_back(s);
  }
  return p;
}

TEST(finepack_packet, known_bytes) {
  finepack_packet p;
  p.traffic_class = 5;
  p.attribute = 2;
  p.digest = true;
  p.poisoned = true;
  p.requester = 0x1234;
  p.tag = 0x56;
  p.base = 0x0000'0012'c000'0000;
  p.stores = {{0x1004, 4}, {0x3fff'ffff, 1}};
  p.data = {0xa0, 0xa1, 0xa2, 0xa3, 0xb0};
  // The payload has 5 + 4 + 5 + 1 = 15 bytes. They fill four double words, of which the last has
  // three bytes. The sub-headers are (0x1004 << 10) + 4 = 0x401004 and (0x3fffffff << 10) + 1 =
  // 0xfffffffc01.
  const bytes expected{0x6f, 0x50, 0xe0, 0x04, 0x12, 0x34, 0x56, 0x70, 0x00, 0x00, 0x00,
                       0x12, 0xc0, 0x00, 0x00, 0x00, 0x00, 0x00, 0x40, 0x10, 0x04, 0xa0,
                       0xa1, 0xa2, 0xa3, 0xff, 0xff, 0xff, 0xfc, 0x01, 0xb0, 0x00};
  EXPECT_EQ(encode(p, {}), expected);
  EXPECT_EQ(decode(expected, finepack_format{}), p);
}

// The windows are those of Table II of the paper.
TEST(finepack_packet, windows_of_all_subheaders) {
  const std::uint64_t windows[] = {64, 16 << 10, 4 << 20, std::uint64_t{1} << 30,
                                   std::uint64_t{256} << 30};
  for (std::uint32_t n = 2; n <= 6; ++n) {
    EXPECT_EQ(finepack_format{.subheader_bytes = n}.window_bytes(), windows[n - 2]);
  }
}

TEST(finepack_packet, encode_and_decode_are_inverses) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 800; ++round) {
    finepack_format f;
    f.subheader_bytes = static_cast<std::uint32_t>(2 + random() % 5);
    f.payload_bytes = static_cast<std::uint32_t>(f.subheader_bytes + 1 + random() % 4090);
    const finepack_packet p = random_packet(random, f);
    const bytes wire = encode(p, f);
    EXPECT_EQ(wire.size() % 4, 0U);
    EXPECT_LE(wire.size(), 16 + (f.payload_bytes + 3) / 4 * 4);
    ASSERT_EQ(decode(wire, f), p);
  }
}

// The length 1024 is encoded as 0. The length in a sub-header counts bytes. The length in the
// header counts double words.
TEST(finepack_packet, the_longest_lengths) {
  finepack_packet p;
  p.stores = {{0, 1024}, {1024, 1024}, {2048, 1024}, {4096, 1004}};
  p.data.assign(4076, 7);
  const bytes wire = encode(p, {});
  ASSERT_EQ(wire.size(), 16U + 4096);
  EXPECT_EQ(wire[2] & 3, 0);
  EXPECT_EQ(wire[3], 0);
  EXPECT_EQ(wire[20], 0);  // the sub-header's low bits
  EXPECT_EQ(decode(wire, finepack_format{}), p);
  p.stores.back().bytes = 1005;
  p.data.push_back(7);
  EXPECT_EQ(refusal(p, {}), "FinePack packet: a payload of 4097 bytes; at most 4096 fit");
}

TEST(finepack_packet, what_has_no_encoding_is_refused) {
  const auto with = [](const std::function<void(finepack_packet&)>& change) {
    finepack_packet p;
    p.base = 1 << 30;
    p.stores = {{8, 4}};
    p.data.assign(4, 1);
    change(p);
    return refusal(p, {});
  };
  const std::string start = "FinePack packet: ";
  EXPECT_EQ(with([](auto&) {}), "");
  EXPECT_EQ(with([](auto& p) { p.stores.clear(); }), start + "no stores");
  EXPECT_EQ(with([](auto& p) { p.stores[0].bytes = 0; }),
            start + "a store of 0 bytes; give a size from 1 to 1024 bytes");
  EXPECT_EQ(with([](auto& p) { p.stores[0].bytes = 1025; }),
            start + "a store of 1025 bytes; give a size from 1 to 1024 bytes");
  EXPECT_EQ(
      with([](auto& p) { p.stores[0].offset = (1 << 30) - 3; }),
      start + "a store of 4 bytes at offset 1073741821 leaves the window of 1073741824 bytes");
  EXPECT_EQ(with([](auto& p) { p.data.pop_back(); }),
            start + "the stores have 4 bytes of data together, but the packet has 3 bytes");
  EXPECT_EQ(with([](auto& p) { p.base = 2; }), start + "a base that is not a multiple of 4");
  EXPECT_EQ(with([](auto& p) { p.base = ~std::uint64_t{7}; }),
            start + "a store at offset 8 lies above the last address");
  EXPECT_EQ(with([](auto& p) { p.traffic_class = 8; }), start + "a traffic class above 7");
  EXPECT_EQ(with([](auto& p) { p.attribute = 4; }), start + "an attribute above 3");
  finepack_packet p;
  p.stores = {{0, 1}};
  p.data = {1};
  EXPECT_EQ(refusal(p, {.subheader_bytes = 7}),
            start + "sub-headers of 7 bytes; give a size from 2 to 6 bytes");
}

TEST(finepack_packet, malformed_bytes_are_refused) {
  finepack_packet p;
  p.base = 1 << 30;
  p.stores = {{8, 4}, {64, 9}};
  p.data.assign(13, 1);
  const bytes good = encode(p, {});  // 23 bytes of payload, one of padding
  const auto with = [&](const std::function<void(bytes&)>& change) {
    bytes b = good;
    change(b);
    return refusal(b, {});
  };
  const std::string start = "FinePack packet: ";
  EXPECT_EQ(with([](auto&) {}), "");
  EXPECT_EQ(with([](auto& b) { b.resize(15); }), start + "cut: 15 bytes; the header alone has 16");
  EXPECT_EQ(with([](auto& b) { b.resize(36); }),
            start + "its length says 24 bytes of payload, but 20 follow the header");
  EXPECT_EQ(with([](auto& b) { b.push_back(0); }),
            start + "its length says 24 bytes of payload, but 25 follow the header");
  EXPECT_EQ(with([](auto& b) { b[3] = 0; }),
            start + "its length says 4096 bytes of payload, but 24 follow the header");
  for (const auto& [at, bit] : {std::pair{0, 0x80},
                                {1, 0x80},
                                {1, 0x01},
                                {1, 0x08},
                                {2, 0x04},
                                {2, 0x08},
                                {15, 0x01},
                                {15, 0x02}}) {
    EXPECT_EQ(with([&](auto& b) { b[at] = static_cast<std::uint8_t>(b[at] | bit); }),
              start + "a reserved bit of the header is set");
  }
  EXPECT_EQ(
      with([](auto& b) { b[0] = 0x60; }),
      start + "format 3 and type 0 are those of another packet; FinePack has format 3 and type 15");
  EXPECT_EQ(with([](auto& b) { ++b[7]; }), start + "First BE is not 0");
  EXPECT_EQ(with([](auto& b) { b[7] = 0x50; }), start + "Last BE is 5, not 1, 3, 7 or 15");
  EXPECT_EQ(with([](auto& b) { b[39] = 1; }), start + "its padding is not 0");
  // The length of the second store is too large by one. A length of 0 stands for 1024.
  EXPECT_EQ(with([](auto& b) { ++b[29]; }),
            start + "a store says 10 bytes, but 9 are left of the payload");
  EXPECT_EQ(with([](auto& b) { b[29] = 0; }),
            start + "a store says 1024 bytes, but 9 are left of the payload");
  // The first store is three bytes longer. Only two bytes are then left after the second
  // sub-header.
  EXPECT_EQ(with([](auto& b) { b[20] = 16; }),
            start + "cut: 2 bytes where a sub-header of 5 should be");
  EXPECT_EQ(
      with([](auto& b) {
        std::fill(b.begin() + 16, b.begin() + 19, 0xff);
        b[19] = 0xfc;
      }),
      start + "a store of 4 bytes at offset 1073741823 leaves the window of 1073741824 bytes");
  EXPECT_EQ(with([](auto& b) {
              std::fill(b.begin() + 8, b.begin() + 15, 0xff);
              b[15] = 0xfc;
            }),
            start + "a store at offset 8 lies above the last address");
  EXPECT_EQ(refusal(good, {.payload_bytes = 22}), start + "a payload of 23 bytes; at most 22 fit");
}

// The decoder either refuses arbitrary bytes, or it decodes them to a packet whose encoding has the
// same bytes.
TEST(finepack_packet, decoded_bytes_encode_to_themselves) {
  std::mt19937_64 random(2);
  std::uint32_t accepted = 0;
  for (int round = 0; round < 8000; ++round) {
    finepack_format f;
    f.subheader_bytes = static_cast<std::uint32_t>(2 + random() % 5);
    f.payload_bytes = 200;
    bytes b = encode(random_packet(random, f), f);
    for (std::uint64_t k = random() % 3; k > 0; --k) {
      auto& byte = b[random() % b.size()];
      byte = static_cast<std::uint8_t>(byte ^ 1U << random() % 8);
    }
    if (random() % 8 == 0) b.resize(random() % b.size());
    try {
      const finepack_packet p = decode(b, f);
      ++accepted;
      ASSERT_EQ(encode(p, f), b);
    } catch (const model_error&) {
    }
  }
  EXPECT_GT(accepted, 2000U);
}

}  // namespace
}  // namespace interlace::sim::finepack_packet_tests
