// Tests of finding the chunk for which a device waits.
#include "cuda/region/late_chunk.hpp"

#include <gtest/gtest.h>

#include <array>

namespace interlace::cuda {
namespace {

constexpr std::array<unsigned long long, 2> targets{100, 50};

TEST(late_chunk, is_the_first_one_below_its_target) {
  // In each epoch, the counters of the two chunks must grow by 100 and 50. After four epochs, they
  // must be 400 and 200. The counter of chunk 1 is only 190.
  const std::array<unsigned long long, 2> counters{400, 190};
  const std::array devices{counted_chunks{true, 3, counters, targets}};
  const auto late = find_late_chunk(devices);
  ASSERT_TRUE(late.has_value());
  EXPECT_EQ(late->chunk, 1U);
  EXPECT_EQ(late->seen, 40U);
  EXPECT_EQ(late->target, 50U);
}

TEST(late_chunk, is_not_one_of_a_device_that_waits_at_the_exchange) {
  const std::array<unsigned long long, 2> ready{400, 200};
  const std::array<unsigned long long, 2> late{400, 199};
  const std::array devices{counted_chunks{true, 4, ready, targets},
                           counted_chunks{true, 3, late, targets}};
  const auto found = find_late_chunk(devices);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->device, 1U);
  EXPECT_EQ(found->chunk, 1U);
  EXPECT_EQ(found->seen, 49U);
}

TEST(late_chunk, is_none_of_devices_that_do_not_run_or_whose_counters_are_not_known) {
  const std::array<unsigned long long, 2> ready{400, 200};
  const std::array<unsigned long long, 2> before{300, 150};
  const std::array devices{counted_chunks{true, 4, ready, targets},
                           counted_chunks{false, 3, before, targets},
                           counted_chunks{true, 0, {}, targets}};
  EXPECT_FALSE(find_late_chunk(devices).has_value());
}

}  // namespace
}  // namespace interlace::cuda
