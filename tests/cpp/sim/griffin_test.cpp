// Griffin decides which GPU gets a page, when a page moves again, and which pages move together.
// With Griffin, programs must be faster than with a mechanism that moves each page only once.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "interlace/base/errors.hpp"
#include "interlace/kernel.hpp"
#include "interlace/sim/node.hpp"
#include "sim/r9nano.hpp"

namespace interlace::sim::griffin_tests {
namespace {

using kernel::page_placement;

constexpr std::uint64_t page_floats = 1024;

// Block b adds 1 to 64 words of page b, `times` times.
struct increments {
  static constexpr std::uint32_t threads = 64;
  unified<float> data;
  std::uint32_t rounds = 1;
  template <class Block>
  void operator()(Block& block) const {
    block.each([&](auto lane) {
      const std::uint64_t at = block.index() * page_floats + lane.index();
      for (auto round : lane.range(0U, rounds)) {
        const float value = lane.load(data, at);
        lane.compute(operation::fp32, 1 + 0 * round);
        lane.store(data, at, value + 1);
      }
    });
  }
};

class pages : public testing::Test {
 protected:
  kernel::run_result launch(node& n, std::uint32_t device, const increments& k,
                            std::uint64_t blocks) {
    return n.run([&] {
      n.launch(device, k, {blocks, 64, 0});
      n.exchange();
    });
  }
};

class under_griffin : public pages {
 protected:
  under_griffin() { n_.treat_loads(kernel::parse_remote_loads("griffin")); }
  kernel::run_result launch(std::uint32_t device, const increments& k, std::uint64_t blocks) {
    return pages::launch(n_, device, k, blocks);
  }
  node n_{test::r9nano(), 4, [] {}};
};

TEST_F(under_griffin, the_first_touch_moves_a_page) {
  const auto data = n_.allocate_unified<float>(page_floats, page_placement::on(0));
  const auto c = launch(1, {data}, 1).loads;
  EXPECT_EQ(c.migrated_pages, 1U);
  EXPECT_EQ(c.migrated_again, 0U);
  EXPECT_EQ(c.migration_batches, 1U);
  EXPECT_EQ(c.requests, 0U);
  EXPECT_EQ(c.delayed_touches, 0U);
}

TEST_F(under_griffin, a_gpu_with_its_share_waits_for_the_second_touch) {
  const auto data = n_.allocate_unified<float>(2 * page_floats, page_placement::on(0));
  launch(1, {data}, 1);
  const increments second{{data.data + page_floats, page_floats}};
  auto c = launch(1, second, 1).loads;  // this GPU has all pages that have moved to a GPU so far
  EXPECT_EQ(c.delayed_touches, 1U);
  EXPECT_GT(c.requests + c.remote_stores, 0U);
  c = launch(1, second, 1).loads;
  EXPECT_EQ(c.migrated_pages, 2U);
  EXPECT_EQ(c.delayed_touches, 1U);
  c = launch(2, {data}, 2).loads;
  EXPECT_EQ(c.delayed_touches, 1U);
}

TEST_F(under_griffin, pages_that_their_home_accesses_stay) {
  const auto data = n_.allocate_unified<float>(4 * page_floats, page_placement::on(0));
  const auto c = launch(0, {data, 3}, 4).loads;
  EXPECT_EQ(c.migrated_pages, 0U);
  EXPECT_EQ(c.delayed_touches, 0U);
}

TEST_F(under_griffin, a_page_follows_the_gpu_that_accesses_it) {
  const auto data = n_.allocate_unified<float>(page_floats, page_placement::on(0));
  n_.upload(data, std::vector<float>(page_floats, 0));
  launch(1, {data}, 1);
  const auto c = launch(2, {data, 200}, 1).loads;
  EXPECT_EQ(c.migrated_again, 1U);
  EXPECT_LT(c.requests, 4U * 200);
  const auto before = c.requests;
  EXPECT_EQ(launch(2, {data, 50}, 1).loads.requests, before);  // the page is now on this GPU
  EXPECT_EQ(n_.download(data)[0], 251.0F);
}

TEST_F(under_griffin, pages_that_all_access_stay) {
  const auto data = n_.allocate_unified<float>(page_floats, page_placement::on(0));
  launch(1, {data}, 1);
  const auto c = n_.run([&] {
                     for (std::uint32_t d = 0; d < 4; ++d) {
                       n_.launch(d, increments{data, 100}, {1, 64, 0});
                     }
                     n_.exchange();
                   }).loads;
  EXPECT_EQ(c.migrated_again, 0U);
  EXPECT_GT(c.remote_stores, 1000U);
}

TEST_F(under_griffin, pages_move_in_batches) {
  const auto data = n_.allocate_unified<float>(64 * page_floats, page_placement::on(0));
  n_.upload(data, std::vector<float>(64 * page_floats, 2));
  const auto c =
      n_.run([&] {
          n_.launch_over(increments{data, 2}, {64, 64, 0}, kernel::block_placement::contiguous);
          n_.exchange();
        }).loads;
  EXPECT_GE(c.migrated_pages, 40U);
  EXPECT_LT(c.migration_batches, c.migrated_pages / 2);
  const auto found = n_.download(data);
  EXPECT_EQ(found[0], 4.0F);
  EXPECT_EQ(found[63 * page_floats + 63], 4.0F);
  EXPECT_EQ(found[64], 2.0F);
}

// Each block reads eight pages several times. No other block reads these pages. The eight pages are
// larger than an L1.
struct sweeps {
  static constexpr std::uint32_t threads = 64;
  static constexpr std::uint32_t block_floats = 8 * page_floats;
  unified<float> data;
  std::uint32_t rounds = 1;
  template <class Block>
  void operator()(Block& block) const {
    block.each([&](auto lane) {
      for ([[maybe_unused]] auto round : lane.range(0U, rounds)) {
        for (auto k : lane.range(0U, block_floats / threads)) {
          lane.load(data, block.index() * block_floats + k * threads + lane.index());
        }
      }
    });
  }
};

// One GPU uses the pages first, and another GPU uses them later.
TEST_F(pages, gains_where_pages_change_owners) {
  const auto last = [&](const std::string& how) {
    node n(test::r9nano(), 4, [] {});
    n.treat_loads(kernel::parse_remote_loads(how));
    const auto data = n.allocate_unified<float>(16 * sweeps::block_floats, page_placement::on(0));
    const auto launch = [&](std::uint32_t device, std::uint32_t rounds) {
      return n.run([&] {
        n.launch(device, sweeps{data, rounds}, {16, 64, 0});
        n.exchange();
      });
    };
    launch(1, 1);
    launch(2, 8);
    return launch(2, 8);
  };
  const auto once = last("page-migration");
  const auto griffin = last("griffin");
  EXPECT_EQ(once.loads.migrated_pages, 128U);
  EXPECT_GT(griffin.loads.migrated_again, 100U);
  EXPECT_GT(once.time_s, 1.5 * griffin.time_s);
}

// Several pages move together. The compute units continue to run during the move.
TEST_F(pages, gains_while_pages_are_spread) {
  const auto time = [](const std::string& how) {
    node n(test::r9nano(), 4, [] {});
    n.treat_loads(kernel::parse_remote_loads(how));
    const auto data = n.allocate_unified<float>(32 * sweeps::block_floats, page_placement::on(0));
    return n
        .run([&] {
          n.launch_over(sweeps{data, 2}, {32, 64, 0}, kernel::block_placement::contiguous);
          n.exchange();
        })
        .time_s;
  };
  EXPECT_GT(time("page-migration"), 1.5 * time("griffin"));
}

TEST_F(pages, runs_repeat) {
  const auto run = [] {
    node n(test::r9nano(), 4, [] {});
    n.treat_loads(kernel::parse_remote_loads("griffin"));
    const auto data = n.allocate_unified<float>(48 * page_floats, page_placement::on(1));
    const auto found = n.run([&] {
      n.launch_over(increments{data, 20}, {48, 64, 0}, kernel::block_placement::round_robin);
      n.launch_over(increments{data, 20}, {48, 64, 0}, kernel::block_placement::contiguous);
      n.exchange();
    });
    return std::pair{found.time_s, found.wire.protocol};
  };
  EXPECT_EQ(run(), run());
}

TEST_F(pages, machines_that_have_nothing_of_it) {
  for (const bool translates : {false, true}) {
    machine::machine m = test::r9nano();
    (translates ? m.gpu.griffin.batch_pages : m.gpu.tlb.page_bytes) = 0;
    node n(m, 2, [] {});
    try {
      n.treat_loads(kernel::parse_remote_loads("griffin"));
      FAIL();
    } catch (const usage_error& e) {
      EXPECT_STREQ(e.what(),
                   "the machine has no hardware for griffin; add tables [gpu.tlb] and "
                   "[gpu.griffin], as in 4x-r9nano, or use another mechanism");
    }
  }
}

}  // namespace
}  // namespace interlace::sim::griffin_tests
