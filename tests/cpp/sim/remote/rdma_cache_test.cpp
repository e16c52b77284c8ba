// Tests of the sets, the replacement, the write-back and the size of the cache of remote lines. The
// cache must behave like a plain model.
#include "sim/remote/rdma_cache.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "interlace/base/errors.hpp"

namespace interlace::sim::rdma_cache_tests {
namespace {

byte_mask bytes(std::uint32_t first, std::uint32_t count) {
  byte_mask m;
  m.set(first, count);
  return m;
}

TEST(rdma_cache, the_papers_size) {
  EXPECT_EQ(rdma_cache(1536 << 10, 16, 64).sets(), 1536U);  // 1536 is not a power of two
  EXPECT_EQ(carve_rdma_cache(2048 << 10, 16 * 16 * 64, 1536 << 10, 16, 64), 512U << 10U);
}

TEST(rdma_cache, a_line_that_came_hits_until_the_kernel_ends) {
  rdma_cache c(4096, 4, 64);
  EXPECT_FALSE(c.read(0x40, bytes(0, 4)));
  EXPECT_FALSE(c.fill(0x40).bytes.any());
  EXPECT_TRUE(c.read(0x40, bytes(0, 64)));
  EXPECT_TRUE(c.flush().empty());
  EXPECT_FALSE(c.read(0x40, bytes(0, 4)));
  EXPECT_EQ(c.lines(), 0U);
}

TEST(rdma_cache, the_least_recently_used_line_goes) {
  rdma_cache c(2 * 64, 2, 64);  // one set
  c.fill(0);
  c.fill(64);
  EXPECT_TRUE(c.read(0, bytes(0, 4)));
  c.fill(128);
  EXPECT_TRUE(c.read(0, bytes(0, 4)));
  EXPECT_FALSE(c.read(64, bytes(0, 4)));
}

TEST(rdma_cache, stores_are_written_back) {
  rdma_cache c(2 * 64, 1, 64);  // two sets of one line
  EXPECT_FALSE(c.write(0, bytes(4, 4)).bytes.any());
  EXPECT_TRUE(c.read(0, bytes(4, 4)));
  EXPECT_FALSE(c.read(0, bytes(0, 8)));  // the rest of the line was not fetched
  c.fill(0);
  EXPECT_TRUE(c.read(0, bytes(0, 64)));
  EXPECT_EQ(c.fill(128), (rdma_cache::dirty_line{0, bytes(4, 4)}));
  c.write(192, bytes(0, 16));
  c.write(192, bytes(12, 8));
  EXPECT_EQ(c.flush(), (std::vector<rdma_cache::dirty_line>{{192, bytes(0, 20)}}));
  EXPECT_TRUE(c.flush().empty());
}

// The model of a set is a list of lines in order of use.
TEST(rdma_cache, behaves_as_lists) {
  std::mt19937_64 random(4);
  rdma_cache c(3 * 4 * 64, 4, 64);
  struct line {
    std::uint64_t address = 0;
    std::uint64_t valid = 0;
    std::uint64_t dirty = 0;
  };
  std::map<std::uint64_t, std::vector<line>> sets;  // most recently used line last
  std::uint64_t written = 0;
  std::uint64_t expected_written = 0;
  const auto touch = [&](std::uint64_t address, bool allocate) -> line* {
    auto& set = sets[address / 64 % 3];
    const auto at =
        std::find_if(set.begin(), set.end(), [&](const line& l) { return l.address == address; });
    if (at != set.end()) {
      std::rotate(at, at + 1, set.end());
      return &set.back();
    }
    if (!allocate) return nullptr;
    if (set.size() == 4) {
      expected_written += static_cast<std::uint64_t>(__builtin_popcountll(set.front().dirty));
      set.erase(set.begin());
    }
    set.push_back({address, 0, 0});
    return &set.back();
  };
  for (int round = 0; round < 20'000; ++round) {
    const std::uint64_t address = random() % 20 * 64;
    const auto first = static_cast<std::uint32_t>(random() % 16 * 4);
    const std::uint64_t wanted = std::uint64_t{0xf} << first;
    switch (random() % 3) {
      case 0: {
        const line* l = touch(address, false);
        ASSERT_EQ(c.read(address, bytes(first, 4)), l != nullptr && (wanted & ~l->valid) == 0);
        break;
      }
      case 1:
        written += c.fill(address).bytes.count();
        touch(address, true)->valid = ~std::uint64_t{0};
        break;
      default: {
        written += c.write(address, bytes(first, 4)).bytes.count();
        line* l = touch(address, true);
        l->valid |= wanted;
        l->dirty |= wanted;
      }
    }
    ASSERT_EQ(written, expected_written);
  }
  for (const auto& dirty : c.flush()) written += dirty.bytes.count();
  for (const auto& [set, lines] : sets) {
    for (const line& l : lines) {
      expected_written += static_cast<std::uint64_t>(__builtin_popcountll(l.dirty));
    }
  }
  EXPECT_EQ(written, expected_written);
}

TEST(rdma_cache, sizes_that_do_not_divide_are_refused) {
  const auto refusal = [](std::uint64_t l2, std::uint64_t rdma, std::uint32_t ways) {
    try {
      carve_rdma_cache(l2 << 10U, 16 * 16 * 64, rdma << 10U, ways, 64);
    } catch (const usage_error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_EQ(refusal(2048, 1536, 16), "");
  EXPECT_EQ(
      refusal(2048, 2048, 16),
      "gpu.dualopt.rdma_cache_KiB is 2048, which is not more than 0 and less than the L2, which "
      "has 2048 KiB");
  EXPECT_EQ(refusal(2048, 1536, 10),
            "gpu.dualopt.rdma_cache_KiB is 1536, which does not divide into sets of 10 ways; give "
            "a multiple of rdma_cache_ways x line_bytes");
  EXPECT_EQ(refusal(2048, 1537, 16),
            "gpu.dualopt.rdma_cache_KiB is 1537, which leaves 511 KiB to the L2, which do not "
            "divide into its sets");
}

}  // namespace
}  // namespace interlace::sim::rdma_cache_tests
