// The placement of pages and blocks. Every page and every block has exactly one place, and invalid
// names are refused.
#include "interlace/kernel/placement.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "interlace/base/errors.hpp"

namespace interlace::kernel::placement_tests {
namespace {

TEST(placement, pages) {
  const auto homes = [](const page_placement& how, std::uint64_t before) {
    std::vector<std::uint32_t> found;
    for (std::uint64_t k = 0; k < 10; ++k) found.push_back(home_of_page(how, k, 10, before, 4));
    return found;
  };
  using list = std::vector<std::uint32_t>;
  EXPECT_EQ(homes({}, 0), (list{0, 1, 2, 3, 0, 1, 2, 3, 0, 1}));
  EXPECT_EQ(homes({}, 6), (list{2, 3, 0, 1, 2, 3, 0, 1, 2, 3}));
  EXPECT_EQ(homes(page_placement::contiguous(), 6), (list{0, 0, 1, 1, 2, 2, 3, 3, 3, 3}));
  EXPECT_EQ(homes(page_placement::on(2), 1), list(10, 2));
  // Fewer pages than devices.
  for (std::uint64_t k = 0; k < 3; ++k) {
    EXPECT_EQ(home_of_page(page_placement::contiguous(), k, 3, 0, 4), 0U);
  }
}

TEST(placement, blocks_go_somewhere_once) {
  for (const block_placement how :
       {block_placement::contiguous, block_placement::round_robin, block_placement::filled}) {
    for (const std::uint64_t blocks : {0U, 1U, 2U, 7U, 64U, 65U}) {
      for (std::uint32_t devices = 1; devices <= 5; ++devices) {
        std::vector<std::uint32_t> seen(blocks, 0);
        for (std::uint32_t d = 0; d < devices; ++d) {
          const block_share s = share_of(blocks, devices, d, how, 3);
          for (std::uint64_t k = 0; k < s.count; ++k) ++seen.at(s.first + k * s.stride);
        }
        EXPECT_EQ(seen, std::vector<std::uint32_t>(blocks, 1)) << blocks << " over " << devices;
      }
    }
  }
}

// As in MGPUSim, GPU g has the blocks from g * ceil(N / G) on.
TEST(placement, contiguous_blocks) {
  EXPECT_EQ(share_of(10, 4, 1, block_placement::contiguous).first, 3U);
  EXPECT_EQ(share_of(10, 4, 3, block_placement::contiguous).count, 1U);
  EXPECT_EQ(share_of(2, 4, 1, block_placement::contiguous).first, 1U);
  EXPECT_EQ(share_of(2, 4, 3, block_placement::contiguous).count, 0U);
  EXPECT_EQ(share_of(10, 4, 1, block_placement::round_robin).stride, 4U);
}

// As in MGPUSim since 2022, the number of blocks of a GPU is a multiple of its number of compute
// units. Only the last GPU with blocks can have another number.
TEST(placement, filled_blocks) {
  const auto share = [](std::uint64_t blocks, std::uint32_t device) {
    return share_of(blocks, 4, device, block_placement::filled, 64);
  };
  EXPECT_EQ(share(128, 1).first, 64U);
  EXPECT_EQ(share(128, 1).count, 64U);
  EXPECT_EQ(share(128, 2).count, 0U);
  EXPECT_EQ(share(257, 1).first, 128U);
  EXPECT_EQ(share(257, 2).count, 1U);
}

TEST(placement, names) {
  EXPECT_EQ(parse_page_placement("round-robin", 4), page_placement{});
  EXPECT_EQ(parse_page_placement("contiguous", 4), page_placement::contiguous());
  EXPECT_EQ(parse_page_placement("gpu3", 4), page_placement::on(3));
  EXPECT_EQ(parse_block_placement("round-robin"), block_placement::round_robin);
  EXPECT_EQ(parse_block_placement("filled"), block_placement::filled);
  const auto refusal = [](const auto& parse) {
    try {
      parse();
    } catch (const usage_error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_EQ(refusal([] { parse_page_placement("gpu4", 4); }),
            "pages cannot be placed on gpu4; give gpu0 to gpu3");
  for (const char* name : {"gpu", "gpu-1", "gpu1x", "", "greedy", "gpu99999999999"}) {
    EXPECT_EQ(refusal([&] { parse_page_placement(name, 4); }),
              "unknown placement '" + std::string(name) +
                  "' of pages; give round-robin, contiguous or a GPU, such as gpu0");
  }
  EXPECT_EQ(refusal([] { parse_block_placement("greedy"); }),
            "unknown placement 'greedy' of blocks; give contiguous, round-robin or filled");
}

}  // namespace
}  // namespace interlace::kernel::placement_tests
