// Pages move to the first remote GPU that touches them. The tests check which GPU gets a page, how
// long the move takes, and that no access is lost during a move.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "interlace/base/errors.hpp"
#include "interlace/kernel.hpp"
#include "interlace/sim/node.hpp"
#include "sim/described.hpp"
#include "sim/r9nano.hpp"

namespace interlace::sim::page_migration_tests {
namespace {

using kernel::page_placement;

constexpr std::uint64_t page_floats = 1024;

// Block b loads a word of page b, adds 1, and stores the word.
struct increments {
  static constexpr std::uint32_t threads = 64;
  unified<float> data;
  bool load = true;
  bool store = true;
  template <class Block>
  void operator()(Block& block) const {
    block.each([&](auto lane) {
      const std::uint64_t at = block.index() * page_floats + lane.index();
      const float value = load ? lane.load(data, at) : 0.0F;
      lane.compute(operation::fp32, 1);
      if (store) lane.store(data, at, value + 1);
    });
  }
};

class migrating : public testing::Test {
 protected:
  migrating() { n_.treat_loads(kernel::parse_remote_loads("page-migration")); }

  kernel::run_result launch(std::uint32_t device, const increments& k, std::uint64_t blocks) {
    return n_.run([&] {
      n_.launch(device, k, {blocks, 64, 0});
      n_.exchange();
    });
  }

  node n_{test::r9nano(), 4, [] {}};
};

TEST_F(migrating, the_first_gpu_gets_a_page_and_keeps_it) {
  const auto data = n_.allocate_unified<float>(page_floats, page_placement::on(0));
  auto c = launch(0, {data, true, false}, 1).loads;
  EXPECT_EQ(c.migrated_pages, 0U);
  c = launch(1, {data, true, false}, 1).loads;
  EXPECT_EQ(c.migrated_pages, 1U);
  EXPECT_EQ(c.requests, 0U);
  EXPECT_EQ(c.remote, 0U);
  c = launch(1, {data, true, false}, 1).loads;
  EXPECT_EQ(c.migrated_pages, 1U);
  EXPECT_EQ(c.requests, 0U);
  // The page stays on its new GPU. All other GPUs, including the previous owner, access it as
  // remote memory.
  c = launch(2, {data, true, false}, 1).loads;
  EXPECT_EQ(c.migrated_pages, 1U);
  EXPECT_EQ(c.requests, 4U);
  c = launch(0, {data, true, false}, 1).loads;
  EXPECT_EQ(c.migrated_pages, 1U);
  EXPECT_EQ(c.requests, 8U);
}

TEST_F(migrating, stores_move_pages_too) {
  const auto data = n_.allocate_unified<float>(page_floats, page_placement::on(0));
  const auto c = launch(3, {data, false, true}, 1).loads;
  EXPECT_EQ(c.migrated_pages, 1U);
  EXPECT_EQ(c.local_stores, 4U);
  EXPECT_EQ(c.remote_stores, 0U);
}

// A move has fourteen steps. Each step is a message between a GPU and the host, through one switch
// and the root. A message takes 250 ns. After these steps, the page itself moves, at 64 GB/s. The
// page's 4096 bytes take 64 packets. Each packet has 64 + 12 bytes, which take 80 bytes in flits.
TEST_F(migrating, the_time_of_a_move) {
  const auto data = n_.allocate_unified<float>(page_floats, page_placement::on(0));
  const double stays = launch(0, {data, true, false}, 1).time_s;
  const double moves = launch(1, {data, true, false}, 1).time_s;
  EXPECT_GT(moves - stays, 8 * 250e-9);
  EXPECT_LT(moves - stays, 14 * 250e-9);
}

TEST_F(migrating, pages_move_one_at_a_time) {
  const auto data = n_.allocate_unified<float>(64 * page_floats, page_placement::on(0));
  n_.upload(data, std::vector<float>(64 * page_floats, 2));
  const double one = launch(1, {data, true, true}, 1).time_s;
  const auto all = launch(1, {data, true, true}, 64);
  EXPECT_EQ(all.loads.migrated_pages, 64U);
  EXPECT_GT(all.time_s, 40 * (one - 5e-6));
  EXPECT_EQ(all.wire.useful, 64 * 4096.0);
  const auto found = n_.download(data);
  EXPECT_EQ(found[0], 4.0F);
  EXPECT_EQ(found[63 * page_floats + 63], 3.0F);
  EXPECT_EQ(found[64], 2.0F);
}

// All GPUs access all pages at the same time. Each page moves at most once, and no GPU waits
// forever.
TEST_F(migrating, gpus_that_access_the_same_pages) {
  const auto data = n_.allocate_unified<float>(16 * page_floats, page_placement::on(0));
  const auto c = n_.run([&] {
                     for (std::uint32_t d = 0; d < 4; ++d) {
                       n_.launch(d, increments{data, true, d == 2}, {16, 64, 0});
                     }
                     n_.exchange();
                   }).loads;
  EXPECT_EQ(c.migrated_pages, 16U);
  EXPECT_EQ(c.local + c.remote, 4U * 16 * 4);
  EXPECT_GT(c.requests, 0U);
  EXPECT_EQ(launch(3, {data, true, true}, 16).loads.migrated_pages, 16U);
}

TEST_F(migrating, runs_repeat) {
  const auto time = [] {
    node n(test::r9nano(), 4, [] {});
    n.treat_loads(kernel::parse_remote_loads("page-migration"));
    const auto data = n.allocate_unified<float>(32 * page_floats, page_placement::on(1));
    return n
        .run([&] {
          n.launch_over(increments{data}, {32, 64, 0}, kernel::block_placement::round_robin);
          n.exchange();
        })
        .time_s;
  };
  EXPECT_EQ(time(), time());
}

TEST(page_migration, needs_a_host_that_gpus_reach) {
  node n(test::meshed(2, machine::protocol_kind::pcie4), 2, [] {});
  try {
    n.treat_loads(kernel::parse_remote_loads("page-migration"));
    FAIL();
  } catch (const usage_error& e) {
    EXPECT_STREQ(e.what(),
                 "no link leads from gpu0 to the host, which moves pages; use another mechanism "
                 "than page-migration");
  }
}

}  // namespace
}  // namespace interlace::sim::page_migration_tests
