// The tests cover each case of Fig. 8 of the paper and the limits of the MSHR. They also compare
// the MSHR with a plain list.
#include "sim/remote/masked_mshr.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <vector>

namespace interlace::sim::masked_mshr_tests {
namespace {

using outcome = masked_mshr::outcome;

// The paper writes the first piece of a line leftmost. Its 0b10000000 is piece 0 here.
constexpr piece_mask first_piece = 1U << 0U;
constexpr piece_mask seventh_piece = 1U << 6U;

TEST(masked_mshr, same_address_same_mask_hits) {
  masked_mshr m(32);
  const auto first = m.request(0x100, first_piece);
  const auto second = m.request(0x100, first_piece);
  EXPECT_EQ(second.what, outcome::hit);
  EXPECT_EQ(second.entry, first.entry);
  EXPECT_EQ(m.used(), 1U);
}

TEST(masked_mshr, a_subset_hits) {
  masked_mshr m(32);
  const auto first = m.request(0x100, 0b0110);
  EXPECT_EQ(m.request(0x100, 0b0010).what, outcome::hit);
  EXPECT_EQ(m.request(0x100, 0b0100).entry, first.entry);
  EXPECT_EQ(m.used(), 1U);
}

TEST(masked_mshr, same_address_different_mask_misses) {
  masked_mshr m(32);
  const auto first = m.request(0x100, first_piece);
  const auto second = m.request(0x100, seventh_piece);
  EXPECT_EQ(second.what, outcome::other_mask);
  EXPECT_NE(second.entry, first.entry);
  EXPECT_EQ(m.used(), 2U);
  // Both pieces are in flight, but in two entries. No single entry has both.
  EXPECT_EQ(m.request(0x100, first_piece | seventh_piece).what, outcome::other_mask);
  // Now one entry has both pieces.
  EXPECT_EQ(m.request(0x100, first_piece | seventh_piece).what, outcome::hit);
}

TEST(masked_mshr, different_address_misses) {
  masked_mshr m(32);
  m.request(0x100, first_piece);
  EXPECT_EQ(m.request(0x140, first_piece).what, outcome::other_line);
  EXPECT_EQ(m.used(), 2U);
}

TEST(masked_mshr, a_full_one_still_hits) {
  masked_mshr m(2);
  const auto first = m.request(0x100, 0b1);
  m.request(0x140, 0b1);
  EXPECT_EQ(m.request(0x180, 0b1).what, outcome::full);
  EXPECT_EQ(m.request(0x100, 0b10).what, outcome::full);
  EXPECT_EQ(m.request(0x100, 0b1).what, outcome::hit);
  m.release(first.entry);
  EXPECT_EQ(m.request(0x100, 0b10).what, outcome::other_line);
}

TEST(masked_mshr, behaves_as_a_list_of_requests) {
  struct request {
    std::uint32_t entry = 0;
    std::uint64_t line = 0;
    piece_mask pieces = 0;
  };
  std::mt19937_64 random(2);
  masked_mshr m(8);
  std::vector<request> list;
  for (int round = 0; round < 20'000; ++round) {
    if (!list.empty() && random() % 3 == 0) {
      const auto at = list.begin() + static_cast<std::ptrdiff_t>(random() % list.size());
      m.release(at->entry);
      list.erase(at);
      continue;
    }
    const std::uint64_t line = random() % 4 * 64;
    const auto pieces = static_cast<piece_mask>(1 + random() % 7);
    const bool serves = std::any_of(list.begin(), list.end(), [&](const request& r) {
      return r.line == line && (pieces & ~r.pieces) == 0;
    });
    const bool same_line =
        std::any_of(list.begin(), list.end(), [&](const request& r) { return r.line == line; });
    const auto answer = m.request(line, pieces);
    const outcome expected = serves             ? outcome::hit
                             : list.size() == 8 ? outcome::full
                             : same_line        ? outcome::other_mask
                                                : outcome::other_line;
    ASSERT_EQ(answer.what, expected);
    if (expected == outcome::hit) {
      ASSERT_EQ(m.line(answer.entry), line);
      ASSERT_EQ(pieces & ~m.pieces(answer.entry), 0U);
    } else if (expected != outcome::full) {
      for (const request& r : list) ASSERT_NE(r.entry, answer.entry);
      list.push_back({answer.entry, line, pieces});
    }
    ASSERT_EQ(m.used(), list.size());
  }
}

}  // namespace
}  // namespace interlace::sim::masked_mshr_tests
