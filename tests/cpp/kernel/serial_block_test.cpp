#include "interlace/kernel/serial_block.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "each_node.hpp"
#include "workload/shared/parts.hpp"

namespace interlace::serial_block_tests {
namespace {

constexpr std::uint32_t threads = 64;

// Blocks form groups of n. Each block of a group stores a number for each lane. The last block of
// the group to arrive adds up the numbers of the group.
struct add_up_behind {
  local<std::uint32_t> numbers;  // [blocks][threads]
  local<std::uint32_t> arrived;
  local<std::uint32_t> times;      // how often a block was the last one of its group
  replicated<std::uint32_t> sums;  // [blocks / n][threads]
  std::uint32_t n = 1;
  std::uint32_t base = 0;
  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    const auto index = static_cast<std::uint32_t>(block.index());
    block.each([&](auto lane) {
      const std::uint32_t i = index * threads + lane.index();
      lane.store(numbers, i, base + i * i);
    });
    if (!block.last_to_arrive(arrived, index / n, n)) return;
    block.each([&](auto lane) {
      if (lane.index() == 0) lane.atomic_add(times, index / n, 1);
      std::uint32_t sum = 0;
      const std::uint32_t first = index / n * n * threads + lane.index();
      for (auto k : lane.range(0U, n)) sum += lane.load(numbers, first + k * threads);
      lane.store(sums, index / n * threads + lane.index(), sum);
    });
  }
};

TEST(block, the_last_to_arrive_sees_what_the_others_stored) {
  for (const std::uint32_t n : {1U, 2U, 5U}) {
    const std::uint32_t places = 7;
    test::on_every_node([&](auto& node, std::uint32_t devices, std::uint32_t, auto how) {
      kernel::region_options options;
      // All elements are on the first device.
      options.boundaries.assign(devices + 1, places * threads);
      options.boundaries[0] = 0;
      options.mechanism = how;
      options.split_ranges = 3;  // the borders between ranges split groups of blocks
      options.chunk_bytes = 1024;
      const auto sums = node.template create_region<std::uint32_t>(options);
      const auto numbers =
          node.template allocate<std::uint32_t>(0, std::uint64_t{places} * n * threads);
      const auto arrived = workload::put(node, 0, std::vector<std::uint32_t>(places, 0));
      const auto times = workload::put(node, 0, std::vector<std::uint32_t>(places, 0));
      std::uint32_t rounds = 0;
      // The counters must start anew for the second launch.
      for (const std::uint32_t base : {0U, 1000U}) {
        node.run([&] {
          node.launch(0, add_up_behind{numbers, arrived, times, node.view(sums, 0), n, base},
                      {places * n, threads, 0}, sums,
                      kernel::block_mapping::custom([n](std::uint64_t block) {
                        const std::uint64_t first = block / n * threads;
                        return std::vector<kernel::element_range>{{first, first + threads}};
                      }));
          node.exchange(sums);
        });
        std::vector<std::uint32_t> expected(places * threads, 0);
        for (std::uint32_t i = 0; i < places * n * threads; ++i) {
          expected[i / threads / n * threads + i % threads] += base + i * i;
        }
        for (std::uint32_t d = 0; d < devices; ++d) EXPECT_EQ(node.front(sums, d), expected);
        EXPECT_EQ(node.download(times), std::vector<std::uint32_t>(places, ++rounds));
      }
    });
  }
}

}  // namespace
}  // namespace interlace::serial_block_tests
