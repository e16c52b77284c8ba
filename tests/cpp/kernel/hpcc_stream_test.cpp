#include "kernel/hpcc_stream.hpp"

#include <gtest/gtest.h>

#include <random>

namespace interlace::kernel::hpcc {
namespace {

// Returns the next number. The code is that of the benchmark, with signed numbers and one
// polynomial.
std::uint64_t next_of_the_benchmark(std::uint64_t r) {
  return (r << 1U) ^ (static_cast<std::int64_t>(r) < 0 ? 7U : 0U);
}

TEST(hpcc_stream, every_way_to_skip_leads_to_the_same_numbers) {
  std::uint64_t r = 1;
  for (std::uint32_t n = 0; n < 5000; ++n) {
    ASSERT_EQ(number(n), r) << n;
    r = next_of_the_benchmark(r);
  }
  std::mt19937_64 random(3);
  for (int round = 0; round < 20; ++round) {
    const std::uint64_t start = random();
    std::uint64_t walked = start;
    for (std::uint32_t n = 0; n < 2048; ++n) {
      ASSERT_EQ(skip_some(start, n), walked) << n;
      if (n <= 62) {
        ASSERT_EQ(skip(start, n), walked) << n;
      }
      walked = next(walked);
    }
  }
}

TEST(hpcc_stream, repeats_after_its_period) {
  EXPECT_EQ(number(period), 1U);
  EXPECT_EQ(number(period + 77), number(77));
}

TEST(hpcc_stream, far_numbers_are_products_of_near_ones) {
  std::mt19937_64 random(4);
  for (int round = 0; round < 20; ++round) {
    const std::uint64_t a = random() >> 2U;
    const std::uint64_t b = random() >> 2U;
    EXPECT_EQ(number(a + b), times(number(a), number(b)));
  }
}

}  // namespace
}  // namespace interlace::kernel::hpcc
