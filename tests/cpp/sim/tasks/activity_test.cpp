#include "sim/tasks/activity.hpp"

#include <gtest/gtest.h>

namespace interlace::sim::activity_tests {
namespace {

TEST(activity, counts_what_goes_on_at_the_same_time) {
  activity a(3);
  a.kernel_begins(0, 100);  // all devices wait until time 100
  a.copy_begins(0, 150);
  a.kernel_begins(1, 200);
  a.kernel_ends(0, 300);
  a.copy_ends(0, 350);
  a.kernel_ends(1, 400);
  a.settle(1000);

  EXPECT_EQ(a[0].kernel_time, 200U);
  EXPECT_EQ(a[0].copy_time, 200U);
  EXPECT_EQ(a[0].idle_time, 100U + 650);
  EXPECT_EQ(a[0].idle_while_others, 50U);
  EXPECT_EQ(a[1].kernel_time, 200U);
  EXPECT_EQ(a[1].idle_time, 200U + 600);
  EXPECT_EQ(a[1].idle_while_others, 100U);
  EXPECT_EQ(a[2].idle_time, 1000U);
  EXPECT_EQ(a[2].idle_while_others, 300U);
}

}  // namespace
}  // namespace interlace::sim::activity_tests
