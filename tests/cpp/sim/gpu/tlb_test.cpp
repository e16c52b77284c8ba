// Compares the sets, the replacement and the removal of pages in TLBs with a plain model.
#include "sim/gpu/tlb.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace interlace::sim::tlb_tests {
namespace {

TEST(tlb, has_what_was_inserted) {
  tlb t(4, 4);
  EXPECT_FALSE(t.find(0));  // an empty entry does not stand for page 0
  t.insert(0);
  EXPECT_TRUE(t.find(0));
  EXPECT_FALSE(t.find(1));
}

TEST(tlb, the_least_recently_used_page_goes) {
  tlb t(2, 2);
  t.insert(10);
  t.insert(11);
  EXPECT_TRUE(t.find(10));
  t.insert(12);
  EXPECT_TRUE(t.find(10));
  EXPECT_FALSE(t.find(11));
}

TEST(tlb, sets_are_by_the_low_bits) {
  tlb t(4, 1);
  for (const std::uint64_t page : {4U, 5U, 6U, 7U}) t.insert(page);
  for (const std::uint64_t page : {4U, 5U, 6U, 7U}) EXPECT_TRUE(t.find(page));
  t.insert(9);
  EXPECT_FALSE(t.find(5));
  EXPECT_TRUE(t.find(4));
}

TEST(tlb, a_page_that_is_forgotten_leaves_its_entry) {
  tlb t(3, 3);
  for (const std::uint64_t page : {1U, 2U, 3U}) t.insert(page);
  t.erase(2);
  t.erase(7);  // page 7 is not in the TLB
  EXPECT_FALSE(t.find(2));
  t.insert(4);
  for (const std::uint64_t page : {1U, 3U, 4U}) EXPECT_TRUE(t.find(page));
}

// The model of a set is a list of pages in order of use.
TEST(tlb, behaves_as_lists) {
  struct shape {
    std::uint32_t entries;
    std::uint32_t ways;
  };
  for (const auto& [entries, ways] : {shape{1, 1}, shape{8, 8}, shape{8, 2}, shape{64, 4}}) {
    tlb t(entries, ways);
    std::vector<std::vector<std::uint64_t>> sets(entries / ways);  // most recently used page last
    std::mt19937_64 random(entries * 100 + ways);
    std::uint64_t hits = 0;
    for (int k = 0; k < 20'000; ++k) {
      const std::uint64_t page = random() % (2 * entries + 1);
      auto& set = sets[page % sets.size()];
      const auto at = std::find(set.begin(), set.end(), page);
      const bool there = at != set.end();
      if (there) set.erase(at);
      if (random() % 16 == 0) {
        t.erase(page);
        continue;
      }
      ASSERT_EQ(t.find(page), there) << k;
      if (there) ++hits;
      if (!there) {
        t.insert(page);
        if (set.size() == ways) set.erase(set.begin());
      }
      set.push_back(page);
    }
    EXPECT_GT(hits, 1000U);
  }
}

}  // namespace
}  // namespace interlace::sim::tlb_tests
