// Kernels on a machine with address translation. The TLBs look up every access once, and page walks
// take time. Machines without TLBs translate in no time.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "interlace/kernel.hpp"
#include "interlace/sim/node.hpp"
#include "sim/r9nano.hpp"

namespace interlace::sim::translation_tests {
namespace {

using kernel::page_placement;

constexpr std::uint64_t page_floats = 1024;

// Lane k of block b loads element (b * 64 + k) * stride `rounds` times, and stores the value.
struct strided {
  static constexpr std::uint32_t threads = 64;
  unified<float> data;
  unified<float> out;
  std::uint32_t stride = 1;
  std::uint32_t rounds = 1;
  template <class Block>
  void operator()(Block& block) const {
    block.each([&](auto lane) {
      float sum = 0;
      for (auto round : lane.range(0U, rounds)) {
        sum += lane.load(data, lane.global_index() * stride) + static_cast<float>(round);
        lane.compute(operation::fp32, 1);
      }
      lane.store(out, lane.global_index(), sum);
    });
  }
};

struct outcome {
  kernel::remote_load_counts loads;
  double time_s = 0;
  double protocol = 0;
  std::vector<float> values;
};

outcome strided_on(const machine::machine& m, std::uint32_t stride, std::uint32_t rounds,
                   std::uint64_t blocks = 1) {
  node n(m, 4, [] {});
  const std::uint64_t lanes = blocks * 64;
  const auto data = n.allocate_unified<float>(lanes * stride, page_placement::on(0));
  const auto out = n.allocate_unified<float>(lanes, page_placement::on(0));
  std::vector<float> values(lanes * stride);
  for (std::size_t k = 0; k < values.size(); ++k) values[k] = static_cast<float>(k % 8191);
  n.upload(data, values);
  const auto run = n.run([&] {
    n.launch(0, strided{data, out, stride, rounds}, {blocks, 64, 0});
    n.exchange();
  });
  return {run.loads, run.time_s, run.wire.protocol, n.download(out)};
}

std::uint64_t looked_up(const kernel::remote_load_counts& c) { return c.tlb_hits + c.tlb_misses; }
std::uint64_t accesses(const kernel::remote_load_counts& c) {
  return c.vector_accesses + c.scalar_accesses;
}

TEST(translation, every_access_is_looked_up_once) {
  for (const std::uint32_t entries : {64U, 2U, 1U}) {
    machine::machine m = test::r9nano();
    m.gpu.tlb.l1_entries = m.gpu.tlb.l1_ways = entries;
    m.gpu.tlb.l2_entries = m.gpu.tlb.l2_ways = entries;
    for (const std::uint32_t stride : {1U, 300U, 1024U}) {
      const outcome found = strided_on(m, stride, 3, 70);
      EXPECT_EQ(looked_up(found.loads), accesses(found.loads)) << entries << " " << stride;
      EXPECT_EQ(found.values[69 * 64], static_cast<float>(3 * (69 * 64 * stride % 8191) + 3));
    }
  }
}

TEST(translation, pages_that_fit_are_walked_once) {
  const outcome one = strided_on(test::r9nano(), 16, 1, 4);  // four lines on each of 4 pages
  EXPECT_EQ(one.loads.walks, 5U);  // the fifth walk is for the page of the results
  const outcome again = strided_on(test::r9nano(), 16, 2, 4);
  EXPECT_EQ(again.loads.walks, 5U);
  EXPECT_EQ(again.loads.tlb_misses, one.loads.tlb_misses);
  EXPECT_EQ(again.loads.tlb_hits, one.loads.tlb_hits + 4 * 64);
  EXPECT_EQ(one.loads.walk_wire, 5U * 32);
}

// 64 pages go through a TLB of 64 entries, four pages at a time. This takes 16 walks of 604 ns, one
// after another, and one walk for the page of the results. Neighbouring elements are one page plus
// one line apart, so their lines are in all sets of the L1.
TEST(translation, a_row_of_walks) {
  constexpr std::uint32_t stride = page_floats + 16;
  machine::machine m = test::r9nano();
  const outcome walked = strided_on(m, stride, 1);
  EXPECT_EQ(walked.loads.walks, 65U);
  EXPECT_NEAR(walked.loads.mean_walk_s, 602e-9, 6e-9);
  m.gpu.tlb.page_bytes = 0;
  const outcome plain = strided_on(m, stride, 1);
  EXPECT_NEAR(walked.time_s - plain.time_s, 17 * 604e-9, 1e-6);
  EXPECT_EQ(walked.values, plain.values);
  EXPECT_EQ(walked.protocol - plain.protocol, 65 * 32);
  m.gpu.tlb = test::r9nano().gpu.tlb;
  m.gpu.tlb.l1_mshrs = 64;
  const outcome at_once = strided_on(m, stride, 1);
  EXPECT_LT(at_once.time_s - plain.time_s, 3 * 604e-9);
}

TEST(translation, a_machine_without_tlbs_translates_in_no_time) {
  machine::machine m = test::r9nano();
  m.gpu.tlb.page_bytes = 0;
  const auto c = strided_on(m, 16, 2, 4).loads;
  EXPECT_EQ(looked_up(c), 0U);
  EXPECT_EQ(c.l2_tlb_hits + c.l2_tlb_misses + c.walks + c.walk_wire, 0U);
  EXPECT_EQ(c.mean_walk_s, 0);
}

TEST(translation, larger_pages_reach_further) {
  machine::machine m = test::r9nano();
  m.gpu.tlb.page_bytes = 64 << 10;
  // There are walks for 256 KiB of data, and for the page of the results.
  EXPECT_EQ(strided_on(m, page_floats, 1).loads.walks, 5U);
}

// The first access by another GPU leads to a walk that ends in a fault. The page moves, and the
// translations of the old owner are removed.
TEST(translation, pages_that_move_are_walked_anew) {
  node n(test::r9nano(), 4, [] {});
  n.treat_loads(kernel::parse_remote_loads("page-migration"));
  const auto data = n.allocate_unified<float>(page_floats, page_placement::on(0));
  const auto launch = [&](std::uint32_t device) {
    return n
        .run([&] {
          n.launch(device, strided{data, data, 1, 1}, {1, 64, 0});
          n.exchange();
        })
        .loads;
  };
  EXPECT_EQ(launch(0).walks, 1U);
  EXPECT_EQ(launch(0).walks, 1U);
  auto c = launch(1);
  EXPECT_EQ(c.walks, 2U);
  EXPECT_EQ(c.migrated_pages, 1U);
  EXPECT_EQ(c.requests, 0U);
  c = launch(0);  // the page is now remote for this GPU
  EXPECT_EQ(c.walks, 3U);
  EXPECT_EQ(c.requests, 4U);
  EXPECT_EQ(launch(1).walks, 3U);
  EXPECT_EQ(launch(1).migrated_pages, 1U);
}

}  // namespace
}  // namespace interlace::sim::translation_tests
