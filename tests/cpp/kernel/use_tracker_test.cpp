#include "interlace/kernel/use_tracker.hpp"

#include <gtest/gtest.h>

#include <cstdint>

namespace interlace::kernel {
namespace {

// The boundaries of the devices' parts lie inside of groups of 64 elements.
TEST(use_tracker, counts_each_delivered_element_once_in_an_epoch) {
  use_tracker tracker(3, 300, {0, 70, 200, 300});
  for (std::uint64_t e = 0; e < 300; ++e) tracker.wrote(e);
  tracker.end_epoch();
  for (std::uint64_t e = 0; e < 300; ++e) {
    tracker.read(1, e);
    tracker.read(1, e);
  }
  tracker.end_epoch();
  // The elements of the last exchange are assumed to have as many used elements.
  const std::uint64_t others = 300 - 130;
  EXPECT_EQ(tracker.used(), 2 * others);
}

TEST(use_tracker, a_new_epoch_counts_reads_again) {
  use_tracker tracker(2, 100, {0, 50, 100});
  for (std::uint32_t epoch = 0; epoch < 3; ++epoch) {
    tracker.read(0, 99);
    tracker.read(1, 0);
    tracker.wrote(99);
    tracker.wrote(0);
    tracker.end_epoch();
  }
  // Epochs 1 and 2, and the last exchange.
  EXPECT_EQ(tracker.used(), 6U);
}

// A read of an element that was not written in the previous epoch does not count.
TEST(use_tracker, an_old_element_does_not_count) {
  use_tracker tracker(2, 100, {0, 50, 100});
  tracker.wrote(99);
  tracker.end_epoch();
  tracker.end_epoch();
  tracker.read(0, 99);
  tracker.end_epoch();
  EXPECT_EQ(tracker.used(), 0U);
}

}  // namespace
}  // namespace interlace::kernel
