#include "cuda/transfer/block_overlap.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <random>
#include <vector>

namespace block_overlap_test {
namespace {

using interlace::cuda::blocks_overlap;
using interlace::cuda::device_address;

struct blocks {
  std::vector<device_address> at;
  std::vector<std::size_t> bytes;

  bool overlap_by_pairs() const {
    for (std::size_t one = 0; one < at.size(); ++one)
      for (std::size_t other = 0; other < one; ++other)
        if (bytes[one] != 0 && bytes[other] != 0 && at[one] < at[other] + bytes[other] &&
            at[other] < at[one] + bytes[one])
          return true;
    return false;
  }
};

// Makes blocks that do not overlap, in random order.
blocks apart(std::mt19937_64& random, std::size_t count, bool one_size, std::size_t align) {
  blocks made;
  device_address next = 0x7f0000000000U + random() % 3 * align;
  for (std::size_t index = 0; index < count; ++index) {
    const std::size_t bytes = one_size ? 4096 : 1 + random() % (index % 50 == 0 ? 100000 : 300);
    made.at.push_back(next);
    made.bytes.push_back(bytes);
    next += (bytes + align - 1) / align * align + random() % 3 * align;
  }
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::shuffle(order.begin(), order.end(), random);
  blocks mixed;
  for (const std::size_t index : order) {
    mixed.at.push_back(made.at[index]);
    mixed.bytes.push_back(made.bytes[index]);
  }
  return mixed;
}

TEST(BlockOverlap, AgreesWithAllPairs) {
  std::mt19937_64 random(3);
  int overlapping = 0;
  for (int round = 0; round < 300; ++round) {
    const std::size_t align = std::vector<std::size_t>{1, 16, 4096}[random() % 3];
    blocks made = apart(random, 2 + random() % 200, random() % 2 == 0, align);
    EXPECT_FALSE(blocks_overlap(made.at, made.bytes)) << round;
    // The test moves one block, or makes it one byte longer.
    const std::size_t moved = random() % made.at.size();
    switch (random() % 3) {
      case 0:
        made.at[moved] = made.at[random() % made.at.size()];
        break;
      case 1:
        made.at[moved] += random() % 5000;
        break;
      default:
        made.bytes[moved] += 1 + random() % 5000;
    }
    EXPECT_EQ(blocks_overlap(made.at, made.bytes), made.overlap_by_pairs()) << round;
    overlapping += made.overlap_by_pairs() ? 1 : 0;
  }
  EXPECT_GT(overlapping, 50);
}

TEST(BlockOverlap, ManyBlocksInOnePlaceAndFarApart) {
  // Next to a large block there are more small blocks than the list of one cell can hold.
  blocks made;
  for (device_address index = 0; index < 1000; ++index) {
    made.at.push_back(1 << 20 | (index * 7 % 1000) * 64);
    made.bytes.push_back(64);
  }
  made.at.push_back(device_address{1} << 40U);
  made.bytes.push_back(std::size_t{1} << 20U);
  EXPECT_FALSE(blocks_overlap(made.at, made.bytes));
  made.at.push_back(made.at[500] + 63);
  made.bytes.push_back(1);
  EXPECT_TRUE(blocks_overlap(made.at, made.bytes));
  EXPECT_FALSE(blocks_overlap({}, {}));
}

}  // namespace
}  // namespace block_overlap_test
