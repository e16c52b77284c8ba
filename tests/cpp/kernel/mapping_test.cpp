#include "interlace/kernel/mapping.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <set>
#include <vector>

#include "interlace/base/errors.hpp"

namespace interlace::kernel::mapping_tests {
namespace {

std::set<std::uint64_t> elements(const std::vector<element_range>& ranges) {
  std::set<std::uint64_t> all;
  for (const auto& r : ranges) {
    for (std::uint64_t i = r.begin; i < r.end; ++i) all.insert(i);
  }
  return all;
}

std::vector<element_range> random_ranges(std::mt19937_64& random) {
  std::vector<element_range> ranges(random() % 6);
  for (auto& r : ranges) {
    r.begin = random() % 60;
    r.end = r.begin + random() % 12;
  }
  return ranges;
}

TEST(ranges, merge_and_subtract_are_those_of_sets) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 3000; ++round) {
    const auto a = random_ranges(random);
    const auto b = random_ranges(random);
    const auto merged = merge_ranges(a);
    EXPECT_EQ(elements(merged), elements(a));
    for (std::size_t k = 1; k < merged.size(); ++k) EXPECT_GT(merged[k].begin, merged[k - 1].end);
    auto expected = elements(a);
    for (const auto e : elements(b)) expected.erase(e);
    EXPECT_EQ(elements(subtract_ranges(merged, merge_ranges(b))), expected);
  }
}

block_mapping random_mapping(std::mt19937_64& random, std::uint64_t& blocks) {
  switch (random() % 4) {
    case 0: {
      const auto per_block = 1 + random() % 7;
      blocks = 1 + random() % 20;
      return block_mapping::contiguous(0, per_block, blocks * per_block);
    }
    case 1: {
      const auto width = 1 + random() % 4;
      blocks = 1 + random() % 6;
      return block_mapping::strided(0, width, width * blocks, 1 + random() % 5);
    }
    case 2: {
      const auto columns = 1 + random() % 12;
      const auto rows = 1 + random() % 9;
      const auto x = 1 + random() % 5;
      const auto y = 1 + random() % 4;
      blocks = (columns + x - 1) / x * ((rows + y - 1) / y);
      return block_mapping::stencil(0, columns + random() % 3, columns, rows, x, y);
    }
    default: {  // blocks can write anywhere, even elements of other blocks
      blocks = 1 + random() % 12;
      std::vector<std::vector<element_range>> table(blocks);
      for (auto& ranges : table) ranges = random_ranges(random);
      return block_mapping::custom([table](std::uint64_t b) { return table[b]; });
    }
  }
}

TEST(block_mapping, split_completes_every_element_once_and_not_early) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 1000; ++round) {
    std::uint64_t blocks = 0;
    const auto mapping = random_mapping(random, blocks);
    const auto parts = mapping.split(blocks, static_cast<std::uint32_t>(1 + random() % 9));
    std::uint64_t next = 0;
    std::set<std::uint64_t> complete;
    for (std::size_t k = 0; k < parts.size(); ++k) {
      EXPECT_EQ(parts[k].first_block, next);
      EXPECT_LT(parts[k].first_block, parts[k].last_block);
      next = parts[k].last_block;
      std::set<std::uint64_t> later;
      for (std::uint64_t b = next; b < blocks; ++b) later.merge(elements(mapping.writes(b)));
      for (const auto e : elements(parts[k].complete)) {
        EXPECT_TRUE(complete.insert(e).second) << "listed twice";
        EXPECT_EQ(later.count(e), 0U) << "written again later";
      }
    }
    EXPECT_EQ(next, blocks);
    std::set<std::uint64_t> all;
    for (std::uint64_t b = 0; b < blocks; ++b) all.merge(elements(mapping.writes(b)));
    EXPECT_EQ(complete, all);
  }
}

TEST(block_mapping, strides_that_overlap_are_refused) {
  EXPECT_THROW(block_mapping::strided(0, 5, 4, 2), model_error);
}

}  // namespace
}  // namespace interlace::kernel::mapping_tests
