#include "sim/engine/event_queue.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <random>
#include <utility>

namespace interlace::sim::event_queue_tests {
namespace {

// Compares the queue with a sorted map. Some events are near and some are far in time, some have
// equal times, and some are pushed while another event is handled.
TEST(event_queue, order_of_time_then_insertion) {
  for (unsigned seed = 0; seed < 8; ++seed) {
    std::mt19937_64 random(seed);
    event_queue queue;
    std::map<std::pair<picoseconds, std::uint64_t>, std::uint64_t> expected;
    std::uint64_t inserted = 0;
    const auto push = [&] {
      const picoseconds ranges[] = {1, 400, 5'000, 3'000'000, 40'000'000, 5'000'000'000};
      const picoseconds time = queue.now() + random() % ranges[random() % 6];
      queue.push(time, event_kind::load_done, 3, 1, inserted);
      expected[{time, inserted}] = inserted;
      ++inserted;
    };
    for (int k = 0; k < 200; ++k) push();
    while (!queue.empty()) {
      const event e = queue.pop([](const auto&) {});
      ASSERT_FALSE(expected.empty());
      EXPECT_EQ(e.time, expected.begin()->first.first);
      EXPECT_EQ(e.b, expected.begin()->second);
      expected.erase(expected.begin());
      if (inserted < 5000) {
        for (auto k = random() % 3; k > 0; --k) push();
      }
    }
    EXPECT_TRUE(expected.empty());
    EXPECT_EQ(queue.processed(), inserted);
  }
}

// Events lie in stretches of half a nanosecond. Some stretches hold few events, and some hold many.
TEST(event_queue, order_of_dense_stretches) {
  std::mt19937_64 random(1);
  event_queue queue;
  std::multimap<picoseconds, std::uint64_t> expected;  // equal times keep their order
  std::uint64_t inserted = 0;
  for (std::uint64_t stretch = 1; stretch < 40; ++stretch) {
    for (std::uint64_t k = 0; k < stretch * stretch; ++k) {
      const picoseconds time = 512 * stretch + random() % 512;
      queue.push(time, event_kind::load_done, 0, 0, inserted);
      expected.emplace(time, inserted++);
    }
  }
  for (const auto& [time, number] : expected) {
    const event e = queue.pop([](const auto&) {});
    ASSERT_EQ(e.time, time);
    ASSERT_EQ(e.b, number);
  }
  EXPECT_TRUE(queue.empty());
}

TEST(resource, serves_in_turn) {
  resource r;
  EXPECT_EQ(r.reserve(100, 10), 100U);
  EXPECT_EQ(r.reserve(100, 10), 110U);
  EXPECT_EQ(r.reserve(500, 1), 500U);
  r.hold_until(1000);
  EXPECT_EQ(r.reserve(600, 5), 1000U);
}

}  // namespace
}  // namespace interlace::sim::event_queue_tests
