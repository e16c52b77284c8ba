// The rates of accesses, the classes of pages that follow from these rates, and the table of counts
// of each GPU.
#include "sim/remote/page_classifier.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "sim/remote/access_counters.hpp"

namespace interlace::sim::page_classifier_tests {
namespace {

machine::griffin rules() {
  machine::griffin r;
  r.newest_weight = 0.25;
  r.least_rate = 0.5;
  r.dedicated_factor = 2;
  r.shared_factor = 1.25;
  return r;
}

class classified : public testing::Test {
 protected:
  // Counts accesses to page 5. `counts` has one number of accesses for each GPU.
  void count(std::uint64_t period, const std::vector<std::uint32_t>& counts) {
    for (std::uint32_t g = 0; g < counts.size(); ++g) {
      if (counts[g] != 0) c_.count(g, period, {{5, counts[g]}}, seen_);
    }
  }
  page_class look(std::uint32_t home, std::uint64_t period) {
    return c_.classify(5, home, period).kind;
  }

  page_classifier c_{rules(), 4};
  std::vector<std::uint64_t> seen_;
};

TEST_F(classified, old_periods_weigh_less) {
  count(0, {0, 8});
  EXPECT_DOUBLE_EQ(c_.rate(5, 1, 0), 2);
  EXPECT_DOUBLE_EQ(c_.rate(5, 1, 2), 2 * 0.75 * 0.75);
  count(2, {0, 4});
  EXPECT_DOUBLE_EQ(c_.rate(5, 1, 2), 1.125 + 1);
  EXPECT_EQ(c_.rate(5, 0, 2), 0);
  EXPECT_EQ(c_.rate(700, 0, 2), 0);
}

TEST_F(classified, hardly_accessed_pages_are_of_no_interest) {
  EXPECT_EQ(look(0, 0), page_class::out_of_interest);
  count(1, {0, 1});
  EXPECT_EQ(look(0, 1), page_class::out_of_interest);
}

TEST_F(classified, a_page_of_one_gpu) {
  count(1, {4, 0, 9, 1});
  const auto found = c_.classify(5, 0, 1);
  EXPECT_EQ(found.kind, page_class::mostly_dedicated);
  EXPECT_EQ(found.gpu, 2U);
}

TEST_F(classified, a_page_of_several) {
  count(1, {8, 8, 9, 8});
  EXPECT_EQ(look(0, 1), page_class::shared);
}

TEST_F(classified, pages_that_are_left) {
  count(1, {0, 100});
  EXPECT_EQ(look(0, 1), page_class::mostly_dedicated);
  EXPECT_EQ(look(0, 2), page_class::streaming);
  EXPECT_EQ(look(0, 40), page_class::out_of_interest);
}

// If the ratio of two GPUs' rates is between the two factors, the class depends on which of these
// rates grows.
TEST_F(classified, pages_whose_owner_changes) {
  count(1, {40, 8});
  EXPECT_EQ(look(0, 1), page_class::mostly_dedicated);
  count(2, {0, 30});
  count(3, {4, 15});
  const auto found = c_.classify(5, 0, 3);
  EXPECT_GT(c_.rate(5, 1, 3), 1.25 * c_.rate(5, 0, 3));
  EXPECT_LT(c_.rate(5, 1, 3), 2 * c_.rate(5, 0, 3));
  EXPECT_EQ(found.kind, page_class::owner_shifting);
  EXPECT_EQ(found.gpu, 1U);
  // The rates of both GPUs fall.
  count(4, {1, 1});
  EXPECT_EQ(look(0, 4), page_class::shared);
}

TEST_F(classified, each_page_is_seen_once_between_looks) {
  c_.count(0, 1, {{5, 9}, {6, 9}}, seen_);
  c_.count(1, 1, {{5, 9}}, seen_);
  EXPECT_EQ(seen_, (std::vector<std::uint64_t>{5, 6}));
  look(0, 1);
  c_.count(2, 2, {{5, 9}, {6, 9}}, seen_);
  EXPECT_EQ(seen_, (std::vector<std::uint64_t>{5, 6, 5}));
}

// A rate is a weighted sum of the counts of all periods.
TEST(page_classifier, rates_are_weighted_sums) {
  std::mt19937 random(3);
  page_classifier c(rules(), 4);
  std::vector<std::uint64_t> seen;
  std::vector<std::vector<std::vector<double>>> counts(
      3, std::vector<std::vector<double>>(4, std::vector<double>(60, 0)));
  for (std::uint64_t period = 0; period < 60; ++period) {
    for (std::uint32_t g = 0; g < 4; ++g) {
      std::vector<page_access> counted;
      for (std::uint64_t page = 0; page < 3; ++page) {
        if (random() % 3 != 0) continue;
        counted.push_back({page, 1 + static_cast<std::uint32_t>(random() % 50)});
        counts[page][g][period] = counted.back().count;
      }
      c.count(g, period, counted, seen);
    }
    for (std::uint64_t page = 0; page < 3; ++page) {
      for (std::uint32_t g = 0; g < 4; ++g) {
        double sum = 0;
        for (std::uint64_t k = 0; k <= period; ++k) {
          sum += 0.25 * counts[page][g][k] * std::pow(0.75, static_cast<double>(period - k));
        }
        ASSERT_NEAR(c.rate(page, g, period), sum, 1e-9 * (1 + sum));
      }
    }
  }
}

TEST(access_counters, the_most_accessed_pages_of_a_period) {
  access_counters c;
  EXPECT_TRUE(c.take(10).empty());
  for (const std::uint64_t page : {9U, 4U, 9U, 700U, 4U, 9U, 3U}) c.access(page);
  const auto found = c.take(3);
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[0].page, 9U);
  EXPECT_EQ(found[0].count, 3U);
  EXPECT_EQ(found[1].page, 4U);
  EXPECT_EQ(found[2].page, 3U);  // page 700 has as many accesses, but page 3 comes first
  c.access(9);
  EXPECT_EQ(c.take(3).front().count, 1U);
}

}  // namespace
}  // namespace interlace::sim::page_classifier_tests
