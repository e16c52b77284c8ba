#include "interlace/base/statistics.hpp"

#include <gtest/gtest.h>

namespace interlace::statistics_tests {
namespace {

TEST(statistics, medians_and_quantiles) {
  EXPECT_EQ(median({7}), 7);
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 2, 8}), 3);
  EXPECT_EQ(quantile({1, 2, 4, 8, 16}, 0.25), 2);
  EXPECT_EQ(quantile({1, 2, 4, 8}, 0.5), 3);
  EXPECT_EQ(quantile({1, 2, 4, 8}, 1), 8);
  EXPECT_EQ(quantile({5}, 0.75), 5);
}

}  // namespace
}  // namespace interlace::statistics_tests
