// The bitmasks of loads. The tests use the paper's example (Fig. 7b), all granularities, and a
// model that marks single bytes.
#include "sim/remote/bitmask_generator.hpp"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace interlace::sim::bitmask_generator_tests {
namespace {

// Four threads load. The second and the third thread touch the same line, so there are three
// accesses.
TEST(bitmask_generator, the_papers_example) {
  const bitmask_generator g(64, 4);
  const std::vector<std::uint64_t> addresses{0x2c0, 0x100, 0x104, 0x43c};
  const std::vector<masked_line> expected{{0x2c0, 0b1}, {0x100, 0b11}, {0x400, 1U << 15U}};
  EXPECT_EQ(g.coalesce(addresses, 4), expected);
}

TEST(bitmask_generator, pieces_of_a_line) {
  EXPECT_EQ(bitmask_generator(64, 4).pieces(), 16U);
  EXPECT_EQ(bitmask_generator(64, 4).whole_line(), 0xffffU);
  EXPECT_EQ(bitmask_generator(64, 8).pieces(), 8U);
  EXPECT_EQ(bitmask_generator(64, 16).whole_line(), 0xfU);
  EXPECT_EQ(bitmask_generator(128, 4).whole_line(), 0xffffffffU);
}

TEST(bitmask_generator, small_and_large_elements) {
  EXPECT_EQ(bitmask_generator(64, 4).mask(0x1006, 1), 0b10U);
  EXPECT_EQ(bitmask_generator(64, 4).mask(0x1008, 8), 0b1100U);
  EXPECT_EQ(bitmask_generator(64, 8).mask(0x1004, 4), 0b1U);
  EXPECT_EQ(bitmask_generator(64, 16).mask(0x1030, 16), 0b1000U);
  EXPECT_EQ(bitmask_generator(64, 4).mask(0x1000, 64), 0xffffU);
  EXPECT_EQ(bitmask_generator(128, 4).mask(0x1040, 64), 0xffff0000U);
}

// Bits 5 to 2 of a lane's address are the number of the bit that the lane sets in the mask. A model
// that marks single bytes must give the same mask.
TEST(bitmask_generator, masks_are_those_of_single_bytes) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 500; ++round) {
    const std::uint32_t line_bytes = random() % 2 == 0 ? 64 : 128;
    const std::uint32_t piece = 4U << random() % 3;
    const std::uint32_t size = 1U << random() % 5;
    const bitmask_generator g(line_bytes, piece);
    std::vector<std::uint64_t> addresses;
    for (int k = 0; k < 64; ++k) addresses.push_back(random() % 64 * size + 4096 * (random() % 2));
    for (const masked_line& l : g.coalesce(addresses, size)) {
      byte_mask bytes;
      piece_mask expected = 0;
      for (const std::uint64_t a : addresses) {
        if (a / line_bytes * line_bytes != l.line) continue;
        bytes.set(static_cast<std::uint32_t>(a - l.line), size);
        for (std::uint64_t b = a; b < a + size; ++b) expected |= 1U << (b - l.line) / piece;
      }
      ASSERT_EQ(l.pieces, expected);
      ASSERT_EQ(g.mask(bytes), expected);
    }
  }
}

TEST(bitmask_generator, granularities_that_do_not_fit_are_refused) {
  for (const std::uint32_t piece : {0U, 1U, 3U, 32U, 64U}) {
    try {
      bitmask_generator(64, piece);
      ADD_FAILURE() << piece;
    } catch (const usage_error& e) {
      EXPECT_EQ(std::string(e.what()),
                "gpu.dualopt.granularity_bytes is " + std::to_string(piece) +
                    ", which does not divide a line of 64 bytes; give 4, 8 or "
                    "16");
    }
  }
}

}  // namespace
}  // namespace interlace::sim::bitmask_generator_tests
