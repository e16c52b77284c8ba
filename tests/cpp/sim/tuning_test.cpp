// The search on simulated GPUs, called from C++. The result of every run is checked. No candidate
// that is tried separately may be faster than the pick.
#include <gtest/gtest.h>

#include <algorithm>

#include "interlace/sim/node.hpp"
#include "interlace/tune.hpp"
#include "sim/described.hpp"
#include "tune/region_options.hpp"

namespace interlace::tuning_tests {
namespace {

constexpr std::uint64_t elements = 1U << 15U;

struct squares {
  static constexpr std::uint32_t threads = 128;
  replicated<float> out;
  std::uint32_t work = 0;
  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    block.each([&](auto lane) {
      const std::uint64_t i = lane.global_index();
      lane.compute(operation::fp32, work);
      lane.store(out, i, static_cast<float>(i) * static_cast<float>(i));
    });
  }
};

// Returns the time of an epoch. The first of two GPUs computes what the second GPU needs.
double epoch_s(const tune_candidate& candidate, std::uint32_t work) {
  sim::node node(test::meshed(2, machine::protocol_kind::nvlink2), 2, [] {});
  kernel::region_options options;
  options.boundaries = {0, elements, elements};
  const auto region = node.create_region<float>(with_candidate(candidate, options));
  const auto writes = kernel::block_mapping::contiguous(0, squares::threads, elements);
  const auto result = node.run([&] {
    const squares kernel{node.view(region, 0), work};
    node.launch(0, kernel, {elements / squares::threads, squares::threads, 0}, region, writes);
    node.exchange(region);
  });
  const auto got = node.front(region, 1);
  for (std::uint64_t i = 0; i < elements; ++i) {
    EXPECT_EQ(got[i], static_cast<float>(i) * static_cast<float>(i)) << candidate.mechanism;
  }
  return result.time_s;
}

TEST(tuning, picks_what_is_fastest_of_all) {
  const tune_space space = tune_space_of(
      {elements * sizeof(float), sizeof(float), 1},
      {"bulk-copy", "split", "inline", "polling", "copy-engine"},
      {{2, 4}, tune_grid::powers_of_two(8U << 10U, 128U << 10U), {32, 1024}, 32U << 10U});
  tune_rules rules;
  rules.repeatable = true;
  for (const std::uint32_t work : {1U, 2000U}) {
    const auto measure = [&](const tune_candidate& c, std::uint32_t) {
      return std::vector{epoch_s(c, work)};
    };
    const tune_result found = tune(space, measure, rules);
    const double picked = found.candidates[found.pick].median_s;
    for (const tune_measured& it : found.candidates) {
      const double time_s = it.rounds.empty() ? epoch_s(it.candidate, work) : it.median_s;
      EXPECT_LE(picked, time_s) << work << " " << it.candidate.mechanism;
    }
    EXPECT_DOUBLE_EQ(epoch_s(found.candidates[found.pick].candidate, work), picked);
    ASSERT_TRUE(found.best_control.has_value());
    EXPECT_LE(picked, found.candidates[*found.best_control].median_s);
  }
}

}  // namespace
}  // namespace interlace::tuning_tests
