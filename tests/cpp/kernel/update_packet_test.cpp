#include "kernel/update_packet.hpp"

#include <gtest/gtest.h>

#include <random>

#include "interlace/base/errors.hpp"

namespace interlace::kernel {
namespace {

constexpr std::uint32_t offset_sizes[] = {2, 3, 4, 5, 6, 8};

TEST(update_packet, random_packets_come_back) {
  std::mt19937_64 random(7);
  for (const std::uint32_t offset_bytes : offset_sizes) {
    for (const std::uint32_t value_bytes : {4U, 8U}) {
      const packet_format f{offset_bytes, value_bytes};
      for (int round = 0; round < 50; ++round) {
        const std::uint64_t base = random() >> 20U;
        std::vector<packed_update> updates(random() % 40);
        for (packed_update& u : updates) {
          u.element = base + (random() & f.last_offset() >> 1U);
          u.value = random() >> (value_bytes == 8 ? 0U : 32U);
        }
        if (updates.size() > 2 && offset_bytes < 8) updates[1].element = base + f.last_offset();
        const auto bytes = encode_packet(base, updates, f, 9);
        EXPECT_EQ(bytes.size(), f.bytes(updates.size()));
        EXPECT_EQ(decode_packet(bytes, ~std::uint64_t{0}), updates);
      }
    }
  }
}

TEST(update_packet, has_the_bytes_that_its_page_says) {
  const std::vector<packed_update> updates = {{0x12345, 0xAABBCCDD}, {0x10000, 1}};
  const auto bytes = encode_packet(0x10000, updates, {3, 4}, 0x0102);
  const std::vector<std::uint8_t> wanted = {
      0,    0,    1,    0,    0, 0, 0, 0, 2,    0,    0,    0, 3, 4, 2, 1,  // header
      0xDD, 0xCC, 0xBB, 0xAA, 1, 0, 0, 0, 0x45, 0x23, 0x00, 0, 0, 0, 0, 0,  // values, offsets
  };
  EXPECT_EQ(bytes, wanted);
}

TEST(update_packet, takes_the_smallest_offsets) {
  EXPECT_EQ(smallest_format(0, 4).offset_bytes, 2U);
  EXPECT_EQ(smallest_format(1U << 16U, 4).offset_bytes, 2U);
  EXPECT_EQ(smallest_format((1U << 16U) + 1, 8).offset_bytes, 3U);
  EXPECT_EQ(smallest_format(std::uint64_t{1} << 48U, 8).offset_bytes, 6U);
  EXPECT_EQ(smallest_format((std::uint64_t{1} << 48U) + 1, 8).offset_bytes, 8U);
  for (const std::uint32_t offset_bytes : offset_sizes) {
    const packet_format f{offset_bytes, 8};
    for (const std::uint64_t most : {16U, 33U, 128U, 4096U}) {
      EXPECT_LE(f.bytes(f.updates_in(most)), most);
      EXPECT_GT(f.bytes(f.updates_in(most) + 1), most);
    }
  }
}

TEST(update_packet, refuses_what_no_encoder_writes) {
  const std::vector<packed_update> updates = {{70, 5}, {75, 6}, {64, 7}};
  const auto sound = encode_packet(64, updates, {2, 8});
  EXPECT_EQ(decode_packet(sound, 76), updates);
  EXPECT_THROW(decode_packet(sound, 75), model_error);
  EXPECT_THROW(decode_packet(sound, 0), model_error);
  const auto changed = [&](std::size_t at, std::uint8_t value) {
    auto bytes = sound;
    bytes[at] = value;
    return bytes;
  };
  EXPECT_THROW(decode_packet(changed(12, 7), 100), model_error);
  EXPECT_THROW(decode_packet(changed(12, 1), 100), model_error);
  EXPECT_THROW(decode_packet(changed(13, 5), 100), model_error);
  EXPECT_THROW(decode_packet(changed(8, 9), 100), model_error);
  EXPECT_THROW(decode_packet(changed(11, 255), 100), model_error);
  EXPECT_THROW(decode_packet(changed(sound.size() - 1, 1), 100), model_error);
  EXPECT_THROW(decode_packet(std::span(sound).first(15), 100), model_error);
  EXPECT_THROW(encode_packet(65, updates, {2, 8}), model_error);
  EXPECT_THROW(encode_packet(64, updates, {7, 8}), model_error);
  const std::vector<packed_update> large = {{64, std::uint64_t{1} << 32U}, {64 + 65536, 0}};
  EXPECT_THROW(encode_packet(64, std::span(large).first(1), {2, 4}), model_error);
  EXPECT_THROW(encode_packet(64, std::span(large).last(1), {2, 8}), model_error);
}

}  // namespace
}  // namespace interlace::kernel
