// The choice between the ways to copy a batch of blocks.
#include "plan/block_choice.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "plan/random_below.hpp"

namespace interlace::plan {
namespace {

block_costs random_costs(std::mt19937_64& random) {
  block_costs made;
  for (auto& all : made.classes) {
    std::uint64_t bytes = 0;
    for (std::uint64_t left = 1 + below(random, 5); left > 0; --left) {
      bytes += 1 + below(random, 10000);
      block_class one{
          .bytes = bytes, .ways = {}, .thread_blocks = 1 + static_cast<unsigned>(random() % 40)};
      for (way_cost& way : one.ways)
        way = {static_cast<double>(below(random, 20)), static_cast<double>(below(random, 90)) / 9};
      all.push_back(one);
    }
  }
  return made;
}

TEST(block_choice, the_chosen_way_is_possible_and_takes_the_least_time) {
  std::mt19937_64 random(4);
  for (int trial = 0; trial < 3000; ++trial) {
    const block_costs costs = random_costs(random);
    const block_question what{.direction = static_cast<block_direction>(below(random, 3)),
                              .blocks = 1 + below(random, 20000),
                              .bytes = below(random, 1 << 28U),
                              .kernel_possible = below(random, 3) != 0,
                              .driver_batch_possible = below(random, 3) != 0,
                              .most_thread_blocks = static_cast<unsigned>(below(random, 30))};
    const block_choice made = choose_way(costs, what);
    for (std::size_t way = 0; way < block_ways; ++way) {
      const bool possible =
          static_cast<block_way>(way) == block_way::copies ||
          (static_cast<block_way>(way) == block_way::kernel ? what.kernel_possible
                                                            : what.driver_batch_possible);
      if (possible) {
        // The choice prefers the kernel to a driver batch that is hardly faster. The bound allows
        // for this preference.
        const double taken = made.predicted_us[static_cast<std::size_t>(made.way)];
        EXPECT_LE(made.way == block_way::kernel ? 0.98 * taken - 10 : taken,
                  made.predicted_us[way]);
      } else {
        EXPECT_NE(static_cast<std::size_t>(made.way), way);
      }
    }
    EXPECT_GE(made.thread_blocks, 1U);
    EXPECT_TRUE(what.most_thread_blocks == 0 || made.thread_blocks <= what.most_thread_blocks);
  }
}

TEST(block_choice, times_between_two_sizes_lie_between_theirs_and_grow_beyond_the_last) {
  block_costs costs;
  const auto ways = [](double block_us) {
    return std::array<way_cost, block_ways>{{{1, block_us}, {1, block_us}, {1, block_us}}};
  };
  costs.classes[0] = {{.bytes = 1000, .ways = ways(2)}, {.bytes = 3000, .ways = ways(4)}};
  const auto time = [&](std::uint64_t bytes) {
    return choose_way(costs, {.blocks = 10, .bytes = 10 * bytes}).predicted_us[0];
  };
  EXPECT_DOUBLE_EQ(time(100), 21);
  EXPECT_DOUBLE_EQ(time(1000), 21);
  EXPECT_DOUBLE_EQ(time(2000), 31);
  EXPECT_DOUBLE_EQ(time(3000), 41);
  EXPECT_DOUBLE_EQ(time(6000), 81);
}

TEST(block_choice, a_bound_on_thread_blocks_makes_the_kernel_slower) {
  block_costs costs;
  costs.classes[0] = {{.bytes = 4096, .ways = {{{5, 1}, {5, 3}, {5, 9}}}, .thread_blocks = 8}};
  block_question what{.blocks = 100, .bytes = 409600};
  EXPECT_EQ(choose_way(costs, what).way, block_way::kernel);
  EXPECT_EQ(choose_way(costs, what).thread_blocks, 8U);
  what.most_thread_blocks = 4;
  EXPECT_EQ(choose_way(costs, what).way, block_way::kernel);
  EXPECT_EQ(choose_way(costs, what).thread_blocks, 4U);
  what.most_thread_blocks = 2;
  EXPECT_EQ(choose_way(costs, what).way, block_way::driver_batch);
}

TEST(block_choice, a_driver_batch_that_is_hardly_faster_than_the_kernel_is_not_taken) {
  block_costs costs;
  costs.classes[0] = {{.bytes = 1048576, .ways = {{{32, 21}, {33.5, 20}, {90, 22}}}}};
  const auto way = [&](std::size_t blocks) {
    return choose_way(costs, {.blocks = blocks, .bytes = blocks << 20U}).way;
  };
  // For each number of blocks, a comment gives the predicted times of the kernel and of the driver
  // batch in us.
  EXPECT_EQ(way(2), block_way::kernel);          // 74 and 73.5
  EXPECT_EQ(way(16), block_way::driver_batch);   // 368 and 353.5
  EXPECT_EQ(way(256), block_way::driver_batch);  // 5408 and 5153.5
  EXPECT_EQ(choose_way(costs, {.blocks = 2, .bytes = 2U << 20U, .batch_of_program = true}).way,
            block_way::driver_batch);
}

TEST(block_choice, small_blocks_go_by_kernel_and_large_ones_by_copy_engine_on_an_h200) {
  for (const block_direction direction : {block_direction::to_gpu, block_direction::to_host}) {
    const auto way = [&](std::size_t blocks, std::uint64_t bytes) {
      return choose_way(costs_of_h200(),
                        {.direction = direction, .blocks = blocks, .bytes = blocks * bytes})
          .way;
    };
    for (const std::uint64_t bytes : {512, 4096, 16384})
      EXPECT_EQ(way(4096, bytes), block_way::kernel);
    EXPECT_EQ(way(256, std::uint64_t{4} << 20U), block_way::driver_batch);
  }
}

}  // namespace
}  // namespace interlace::plan
