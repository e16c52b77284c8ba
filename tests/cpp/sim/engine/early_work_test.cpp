// Work that another thread may do before its result is needed.
#include "sim/engine/early_work.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <stdexcept>
#include <thread>

namespace interlace::sim::early_work_tests {
namespace {

TEST(early_work, whoever_needs_it_does_it) {
  early_work early;
  int done = 0;
  const std::function<void()> work = [&] { ++done; };
  EXPECT_FALSE(early.help());
  ASSERT_TRUE(early.offer(work));
  EXPECT_FALSE(early.offer(work));
  early.finish();
  EXPECT_EQ(done, 1);
  EXPECT_FALSE(early.help());
}

TEST(early_work, a_helper_does_it_once) {
  early_work early;
  int done = 0;
  const std::function<void()> work = [&] { ++done; };
  for (int round = 1; round <= 1000; ++round) {
    ASSERT_TRUE(early.offer(work));
    std::jthread helper([&] { early.help(); });
    early.finish();
    EXPECT_EQ(done, round);
  }
}

TEST(early_work, its_exception_reaches_the_thread_that_needs_it) {
  early_work early;
  const std::function<void()> fails = [] { throw std::runtime_error("no result"); };
  ASSERT_TRUE(early.offer(fails));
  std::jthread([&] { early.help(); }).join();
  EXPECT_THROW(early.finish(), std::runtime_error);
  int done = 0;
  const std::function<void()> work = [&] { ++done; };
  ASSERT_TRUE(early.offer(work));
  early.finish();
  EXPECT_EQ(done, 1);
}

}  // namespace
}  // namespace interlace::sim::early_work_tests
