// Tests of the TLBs of a GPU and of the page walks of the host, without the rest of a node.
// Requests for the same page are merged, and requests that find no room wait. Answers come at known
// times.
#include "sim/gpu/translator.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "interlace/base/errors.hpp"
#include "sim/described.hpp"
#include "sim/r9nano.hpp"
#include "sim/remote/iommu.hpp"

namespace interlace::sim::translator_tests {
namespace {

// Two GPUs with two L1 TLBs each, and the host.
class translated : public testing::Test, public message_receiver {
 protected:
  using answer = translator::answer;

  void departed(const message& /*m*/) override {}
  void delivered(const message& m) override {
    if (m.kind == message_kind::translation_request) {
      walker_->delivered(m);
    } else {
      gpus_[m.to].walked(m.address, m.unit != 0);
    }
  }

  void build(const machine::machine& m) {
    links_.emplace(m, queue_, *this);
    walker_.emplace(m.gpu.tlb, 2, queue_, *links_);
    for (std::uint32_t g = 0; g < 2; ++g) {
      gpus_.emplace_back(g, m.gpu.tlb, 2, queue_, *links_);
    }
  }

  // Looks up a page, and waits for the translation if necessary. done_[who] becomes the time at
  // which `who` continues.
  answer access(std::uint32_t gpu, std::uint32_t buffer, std::uint64_t page, std::uint32_t who) {
    const answer found = gpus_[gpu].look_up(buffer, page);
    if (found == answer::there) {
      done_[who] = queue_.now();
    } else {
      gpus_[gpu].wait(buffer, page, {who, 0});
    }
    return found;
  }

  void handle_all() {
    while (!queue_.empty()) {
      const event e = queue_.pop([](const auto&) {});
      if (e.kind == event_kind::page_walked) {
        walker_->walked(e.device, e.b);
      } else if (e.kind == event_kind::page_translated) {
        for (const page_waiter& w : gpus_[e.device].answered(e.a, e.b)) done_[w.warp] = e.time;
      } else {
        links_->handle(e);
      }
    }
  }
  void run() {
    handle_all();
    EXPECT_TRUE(gpus_[0].empty() && gpus_[1].empty());
    links_->check_delivered();
  }

  event_queue queue_;
  std::optional<fabric> links_;
  std::optional<iommu> walker_;
  std::vector<translator> gpus_;
  std::map<std::uint32_t, picoseconds> done_;
};

// A flit takes 250.25 ns in each direction, through one switch and the root. The walk itself takes
// 100 ns, and the L2 TLB takes 3 ns.
constexpr picoseconds walk_time = 2 * 250'250 + 100'000 + 3'000;

TEST_F(translated, a_walk_goes_to_the_host_and_back) {
  build(test::r9nano());
  EXPECT_EQ(access(0, 0, 7, 1), answer::under_way);
  run();
  EXPECT_NEAR(static_cast<double>(done_[1]), static_cast<double>(walk_time), 1'000);
  const translation_counts& c = gpus_[0].counts();
  EXPECT_EQ(c.l1_misses, 1U);
  EXPECT_EQ(c.l2_misses, 1U);
  EXPECT_EQ(c.walks, 1U);
  EXPECT_EQ(c.wire, 16U);                   // a request has 12 bytes, rounded up to one flit
  EXPECT_EQ(walker_->counted().wire, 16U);  // an answer has 4 + 8 bytes, rounded up to one flit
  EXPECT_EQ(walker_->counted().replies, 1U);
  EXPECT_EQ(c.walk_latency, done_[1] - 3'000);
}

TEST_F(translated, both_levels_keep_it) {
  build(test::r9nano());
  access(0, 0, 7, 1);
  run();
  const picoseconds then = queue_.now();
  EXPECT_EQ(access(0, 0, 7, 2), answer::there);
  EXPECT_EQ(access(0, 1, 7, 3), answer::under_way);
  run();
  EXPECT_EQ(done_[3] - then, 3'000U);
  EXPECT_EQ(gpus_[0].counts().l1_hits, 1U);
  EXPECT_EQ(gpus_[0].counts().l2_hits, 1U);
  EXPECT_EQ(gpus_[0].counts().walks, 1U);
}

TEST_F(translated, one_walk_for_all_accesses_to_a_page) {
  build(test::r9nano());
  for (std::uint32_t k = 0; k < 10; ++k) access(0, k % 2, 7, k);
  run();
  EXPECT_EQ(done_.size(), 10U);
  EXPECT_EQ(gpus_[0].counts().l1_misses, 10U);
  EXPECT_EQ(gpus_[0].counts().l2_misses, 2U);
  EXPECT_EQ(gpus_[0].counts().walks, 1U);
  access(1, 0, 7, 20);  // another GPU has its own TLBs
  run();
  EXPECT_EQ(gpus_[1].counts().walks, 1U);
}

TEST_F(translated, an_l1_tlb_has_a_limited_number_of_pages_in_flight) {
  build(test::r9nano());
  for (std::uint32_t k = 0; k < 4; ++k) EXPECT_EQ(access(0, 0, k, k), answer::under_way);
  for (std::uint32_t k = 4; k < 9; ++k) EXPECT_EQ(access(0, 0, k, k), answer::no_entry);
  EXPECT_EQ(gpus_[0].counts().walks, 4U);
  EXPECT_EQ(gpus_[0].counts().l1_misses, 4U);
  run();
  EXPECT_EQ(done_.size(), 9U);
  EXPECT_EQ(gpus_[0].counts().l1_misses, 9U);
  EXPECT_LT(done_[3], walk_time + 10'000);
  EXPECT_GT(done_[4], 2 * (walk_time - 4'000));
  EXPECT_GT(done_[8], 3 * (walk_time - 4'000));
}

TEST_F(translated, the_host_walks_so_many_at_a_time) {
  machine::machine m = test::r9nano();
  m.gpu.tlb.l1_mshrs = 64;
  m.gpu.tlb.walks = 2;
  build(m);
  for (std::uint32_t k = 0; k < 6; ++k) access(k % 2, 0, 10 + k, k);
  run();
  EXPECT_LT(done_[1], walk_time + 2'000);
  EXPECT_GT(done_[2], walk_time + 98'000);
  EXPECT_LT(done_[3], walk_time + 102'000);
  EXPECT_GT(done_[4], walk_time + 198'000);
}

TEST_F(translated, the_l2_tlb_has_a_limited_number_of_pages_in_flight) {
  machine::machine m = test::r9nano();
  m.gpu.tlb.l2_mshrs = 1;
  build(m);
  access(0, 0, 1, 1);
  access(0, 0, 2, 2);
  access(0, 1, 2, 3);
  EXPECT_EQ(gpus_[0].counts().walks, 1U);
  run();
  EXPECT_EQ(gpus_[0].counts().walks, 2U);
  EXPECT_EQ(gpus_[0].counts().l2_misses, 3U);
  EXPECT_GT(done_[2], 2 * (walk_time - 4'000));
  EXPECT_EQ(done_[2], done_[3]);
}

TEST_F(translated, a_page_that_moves_is_walked_again) {
  build(test::r9nano());
  access(0, 0, 7, 1);
  access(0, 1, 7, 2);
  run();
  gpus_[0].shoot_down(7);
  EXPECT_EQ(access(0, 0, 7, 3), answer::under_way);
  run();
  EXPECT_EQ(gpus_[0].counts().walks, 2U);
}

TEST_F(translated, a_fault_is_answered_by_its_handler) {
  build(test::r9nano());
  walker_->decide([](std::uint32_t /*gpu*/, std::uint64_t page) {
    return page == 7 ? walk_end::taken : walk_end::kept;
  });
  access(0, 0, 7, 1);
  access(0, 0, 8, 2);
  handle_all();
  EXPECT_EQ(walker_->counted().replies, 1U);
  EXPECT_EQ(done_.count(1), 0U);
  EXPECT_FALSE(gpus_[0].empty());
  gpus_[0].walked(7, true);
  run();
  EXPECT_EQ(done_.count(1), 1U);
}

TEST_F(translated, a_translation_for_one_use_is_walked_again) {
  build(test::r9nano());
  walker_->decide([](std::uint32_t /*gpu*/, std::uint64_t page) {
    return page == 7 ? walk_end::once : walk_end::kept;
  });
  for (const std::uint32_t page : {7U, 8U, 7U, 8U}) {
    access(0, 0, page, page);
    run();
  }
  EXPECT_EQ(gpus_[0].counts().walks, 3U);
  EXPECT_EQ(gpus_[0].counts().l1_hits, 1U);
}

TEST_F(translated, needs_a_host_that_gpus_reach) {
  machine::machine m = test::meshed(2, machine::protocol_kind::pcie4);
  m.gpu.tlb = test::r9nano().gpu.tlb;
  try {
    build(m);
    FAIL();
  } catch (const usage_error& e) {
    EXPECT_STREQ(
        e.what(),
        "no link leads from gpu0 to the host, which translates addresses; leave out the table "
        "[gpu.tlb] or add one");
  }
}

}  // namespace
}  // namespace interlace::sim::translator_tests
