#include "checkpoint/crc32c.hpp"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <string_view>

namespace interlace::checkpoint::crc32c_test {

std::uint32_t of(std::string_view text) { return crc32c({text.data(), text.size()}); }

// Computes the CRC by its definition, bit by bit.
std::uint32_t by_definition(std::string_view text) {
  std::uint32_t state = ~std::uint32_t{0};
  for (const char c : text) {
    state ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) {
      state = (state >> 1U) ^ ((state & 1U) != 0 ? 0x82f63b78U : 0U);
    }
  }
  return ~state;
}

std::string random_text(std::size_t bytes, std::mt19937_64& random) {
  std::string text(bytes, '\0');
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

// The values are those of RFC 3720, appendix B.4.
TEST(crc32c, published_values) {
  EXPECT_EQ(of(""), 0U);
  EXPECT_EQ(of("123456789"), 0xe3069283U);
  EXPECT_EQ(of(std::string(32, '\0')), 0x8a9136aaU);
  EXPECT_EQ(of(std::string(32, '\xff')), 0x62a8ab43U);
}

TEST(crc32c, is_that_of_the_definition) {
  std::mt19937_64 random(7);
  for (const std::size_t bytes : {1, 7, 8, 9, 4095, 24575, 24576, 24577, 60000}) {
    const std::string text = random_text(bytes + 3, random);
    for (std::size_t begin = 0; begin < 3; ++begin) {
      const auto part = std::string_view(text).substr(begin, bytes);
      ASSERT_EQ(of(part), by_definition(part)) << bytes << " from " << begin;
    }
  }
}

TEST(crc32c, of_pieces_is_joined) {
  std::mt19937_64 random(8);
  for (int k = 0; k < 200; ++k) {
    const std::string text = random_text(random() % 3000, random);
    std::uint32_t joined = 0;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t bytes = std::min<std::size_t>(text.size() - at, random() % 700);
      joined = join_crc32c(joined, of(std::string_view(text).substr(at, bytes)), bytes);
      at += bytes;
    }
    ASSERT_EQ(joined, of(text));
  }
  // The text is one byte followed by 5 TB of zeros. Its CRC is computed in two ways.
  const std::uint64_t many = 5'000'000'000'001;
  std::uint32_t whole = join_crc32c(of("a"), 0, many);
  whole = join_crc32c(whole, 0, 12345);
  EXPECT_EQ(whole, join_crc32c(of("a"), 0, many + 12345));
}

}  // namespace interlace::checkpoint::crc32c_test
