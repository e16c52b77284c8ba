// Tests to which devices a store goes, and in which order.
#include "interlace/kernel/region.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace interlace::region_tests {
namespace {

std::vector<std::uint32_t> order(const replicated<float>& view, std::uint64_t element) {
  std::vector<std::uint32_t> devices;
  view.each_subscriber(element, [&](std::uint32_t d) { devices.push_back(d); });
  return devices;
}

TEST(region, stores_begin_with_the_next_device) {
  replicated<float> view;
  view.everybody = 0b1011;
  view.device = 2;
  EXPECT_EQ(order(view, 0), (std::vector<std::uint32_t>{3, 0, 1}));
  for (std::uint32_t devices = 1; devices <= max_devices; ++devices) {
    for (std::uint32_t d = 0; d < devices; ++d) {
      view.device = d;
      view.everybody = ((1U << devices) - 1U) & ~(1U << d);
      std::vector<std::uint32_t> expected;
      for (std::uint32_t step = 1; step < devices; ++step) expected.push_back((d + step) % devices);
      EXPECT_EQ(order(view, 7), expected);
    }
  }
}

TEST(region, stores_go_to_subscribers_of_the_range_or_to_readers) {
  replicated<float> view;
  view.device = 1;
  view.range_count = 2;
  view.ranges[0] = {0, 10, 0b0101};
  view.ranges[1] = {8, 20, 0b1000};
  EXPECT_EQ(order(view, 3), (std::vector<std::uint32_t>{2, 0}));
  EXPECT_EQ(order(view, 9), (std::vector<std::uint32_t>{2, 3, 0}));
  EXPECT_EQ(order(view, 15), (std::vector<std::uint32_t>{3}));
  EXPECT_TRUE(order(view, 20).empty());
  const std::vector<std::uint16_t> readers{0b0000, 0b0001, 0b0100};
  view.readers = readers.data();
  view.reader_shift = 2;
  EXPECT_TRUE(order(view, 3).empty());
  EXPECT_EQ(order(view, 4), (std::vector<std::uint32_t>{0}));
  EXPECT_EQ(order(view, 11), (std::vector<std::uint32_t>{2}));
}

}  // namespace
}  // namespace interlace::region_tests
