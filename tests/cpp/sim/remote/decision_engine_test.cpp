// After its warm-up and its window, the decision engine takes every branch of the paper's flow
// chart (Fig. 11).
#include "sim/remote/decision_engine.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>

#include "interlace/base/errors.hpp"

namespace interlace::sim::decision_engine_tests {
namespace {

// Makes `accesses` accesses. Every `remote_every`-th access is a remote load that uses `used` of 16
// pieces of a line. Every `hit_every`-th remote load hits. If `hit_every` is 0, none hits.
decision_engine::decision after(decision_engine& engine, std::uint32_t accesses,
                                std::uint32_t remote_every, std::uint32_t used,
                                std::uint32_t hit_every) {
  std::uint32_t loads = 0;
  for (std::uint32_t k = 0; k < accesses && engine.decisions().empty(); ++k) {
    if (k % remote_every != 0) {
      engine.local(k);
    } else {
      engine.remote_load(k, used, 16, hit_every != 0 && loads % hit_every == 0);
      ++loads;
    }
  }
  return engine.decisions().empty() ? engine.now(accesses) : engine.decisions().front();
}

optimisation choice(std::uint32_t remote_every, std::uint32_t used, std::uint32_t hit_every) {
  decision_engine engine({.monitored = 1000});
  return after(engine, 200'000, remote_every, used, hit_every).choice;
}

TEST(decision_engine, the_flow_chart) {
  EXPECT_EQ(choice(100, 1, 0), optimisation::leave);   // 1 % of the loads are remote
  EXPECT_EQ(choice(2, 1, 0), optimisation::coalesce);  // loads use 1/16 of a line, and none hits
  // The used share of a line (0.1875) and the share of hits (0.33) are both below their thresholds.
  EXPECT_EQ(choice(2, 3, 3), optimisation::coalesce);
  EXPECT_EQ(choice(2, 4, 0), optimisation::cache);      // loads use 4/16 of a line
  EXPECT_EQ(choice(2, 1, 2), optimisation::cache);      // half of the loads hit
  EXPECT_EQ(choice(2, 16, 1), optimisation::cache);     // loads use whole lines, and all hit
  EXPECT_EQ(choice(49, 1, 0), optimisation::coalesce);  // just above 2 % of the loads are remote
}

TEST(decision_engine, decides_once_by_the_window) {
  decision_engine engine({.monitored = 100});
  const auto d = after(engine, 1'000'000, 2, 1, 0);
  EXPECT_EQ(d.remote, 100U);
  EXPECT_EQ(d.accesses, 199U);
  EXPECT_EQ(d.when, 198U);
  EXPECT_DOUBLE_EQ(d.block_utilisation, 1.0 / 16);
  EXPECT_DOUBLE_EQ(d.hit_rate, 0);
  EXPECT_NEAR(d.remote_ratio, 0.5, 0.01);
  EXPECT_FALSE(engine.watches());
  for (int k = 0; k < 1000; ++k) engine.remote_load(500, 16, 16, true);
  EXPECT_EQ(engine.decisions().size(), 1U);
}

// Makes `count` windows of 100 loads. All loads use a whole line, or all loads use one piece.
void windows(decision_engine& engine, std::uint32_t count, bool whole) {
  for (std::uint32_t k = 0; k < 100 * count; ++k) {
    engine.remote_load(k, whole ? 16 : 1, 16, std::nullopt);
  }
}

TEST(decision_engine, windows_that_agree_change_its_mind) {
  decision_engine engine({.monitored = 100, .agreeing = 3});
  windows(engine, 1, false);
  ASSERT_EQ(engine.decisions().size(), 1U);
  EXPECT_TRUE(engine.watches());
  EXPECT_EQ(engine.decisions()[0].choice, optimisation::coalesce);
  windows(engine, 5, false);
  windows(engine, 2, true);
  windows(engine, 1, false);  // the two earlier windows were not enough
  windows(engine, 2, true);
  EXPECT_EQ(engine.decisions().size(), 1U);
  windows(engine, 1, true);
  ASSERT_EQ(engine.decisions().size(), 2U);
  EXPECT_EQ(engine.decisions()[1].choice, optimisation::cache);
  EXPECT_EQ(engine.decisions()[1].loads, 100U);  // the number of loads in the last window
  EXPECT_DOUBLE_EQ(engine.decisions()[1].block_utilisation, 1);
  for (int k = 0; k < 3 * 5001; ++k) engine.local(7);  // three windows without remote accesses
  ASSERT_EQ(engine.decisions().size(), 3U);
  EXPECT_EQ(engine.decisions()[2].choice, optimisation::leave);
}

// The engine changes its choice only if three windows in a row agree on another choice.
TEST(decision_engine, windows_agree_on_one_choice) {
  decision_engine engine({.monitored = 100, .agreeing = 3});
  windows(engine, 1, false);
  windows(engine, 2, true);
  for (int k = 0; k < 2 * 5001; ++k) engine.local(7);
  windows(engine, 2, true);
  EXPECT_EQ(engine.decisions().size(), 1U);
}

TEST(decision_engine, without_a_look_hits_are_those_known) {
  decision_engine engine({.monitored = 100, .agreeing = 1});
  for (int k = 0; k < 100; ++k) engine.remote_load(0, 1, 16, k % 2 == 0);
  windows(engine, 3, false);
  EXPECT_EQ(engine.windows(), 4U);
  ASSERT_EQ(engine.decisions().size(), 1U);
  EXPECT_EQ(engine.decisions()[0].choice, optimisation::cache);
}

TEST(decision_engine, hits_are_of_loads_that_looked) {
  decision_engine engine({.monitored = 100});
  for (int k = 0; k < 90; ++k) engine.remote_load(0, 1, 16, std::nullopt);
  for (int k = 0; k < 10; ++k) engine.remote_load(0, 1, 16, k < 5);
  ASSERT_EQ(engine.decisions().size(), 1U);
  EXPECT_DOUBLE_EQ(engine.decisions()[0].hit_rate, 0.5);
  EXPECT_EQ(engine.decisions()[0].choice, optimisation::cache);
}

TEST(decision_engine, the_warm_up_does_not_count) {
  decision_engine engine({.warm_up = 500, .monitored = 100});
  for (int k = 0; k < 500; ++k) engine.remote_load(0, 16, 16, true);
  EXPECT_EQ(engine.now(0).accesses, 0U);
  EXPECT_EQ(after(engine, 1'000'000, 2, 1, 0).choice, optimisation::coalesce);
}

// After more than 5000 local accesses, even 100 remote loads, which fill a window, would be less
// than 2 % of all accesses. The engine can then decide.
TEST(decision_engine, too_few_remote_accesses_are_known_in_time) {
  decision_engine engine({.monitored = 100});
  for (std::uint32_t k = 0; k < 5000; ++k) engine.local(k);
  EXPECT_TRUE(engine.decisions().empty());
  engine.local(5000);
  ASSERT_FALSE(engine.decisions().empty());
  EXPECT_EQ(engine.decisions().front().choice, optimisation::leave);
  EXPECT_EQ(engine.decisions().front().when, 5000U);
}

TEST(decision_engine, remote_stores_count_for_the_ratio_alone) {
  decision_engine engine({.monitored = 100});
  for (std::uint32_t k = 0; k < 20'000; ++k) engine.remote_store(k);
  EXPECT_TRUE(engine.decisions().empty());  // stores say nothing about the locality of loads
  EXPECT_EQ(engine.now(20'000).choice, optimisation::leave);
  for (std::uint32_t k = 0; k < 100; ++k) engine.remote_load(20'000 + k, 1, 16, false);
  ASSERT_FALSE(engine.decisions().empty());
  EXPECT_EQ(engine.decisions().front().remote, 20'100U);
  EXPECT_EQ(engine.decisions().front().loads, 100U);
  EXPECT_DOUBLE_EQ(engine.decisions().front().remote_ratio, 1);
  EXPECT_DOUBLE_EQ(engine.decisions().front().block_utilisation, 1.0 / 16);
  EXPECT_EQ(engine.decisions().front().choice, optimisation::coalesce);
}

// With many stores and few loads, the window stays open while the ratio is above the threshold.
// Loads can still come during this time.
TEST(decision_engine, stores_keep_the_window_open_until_their_ratio_falls) {
  decision_engine engine({.monitored = 100});
  for (std::uint32_t k = 0; k < 150; ++k) engine.remote_store(k);
  for (std::uint32_t k = 150; k < 7500; ++k) engine.local(k);
  EXPECT_TRUE(engine.decisions().empty());  // 2 % of 7500 accesses are 150, so loads may still come
  engine.local(7500);
  ASSERT_FALSE(engine.decisions().empty());
  EXPECT_EQ(engine.decisions().front().choice, optimisation::leave);
  EXPECT_EQ(engine.decisions().front().loads, 0U);
}

TEST(decision_engine, a_run_that_is_too_short_says_what_it_would_decide) {
  decision_engine engine({});
  for (int k = 0; k < 50; ++k) engine.remote_load(7, 16, 16, false);
  EXPECT_TRUE(engine.decisions().empty());
  EXPECT_EQ(engine.now(9).choice, optimisation::cache);
  EXPECT_EQ(engine.now(9).when, 9U);
  EXPECT_EQ(decision_engine({}).now(0).choice, optimisation::leave);
}

TEST(decision_engine, thresholds_outside_of_0_to_1_are_refused) {
  const auto refusal = [](const decision_engine::settings& s) {
    try {
      decision_engine engine(s);
    } catch (const usage_error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_EQ(refusal({.thresholds = {.remote = 0, .block = 1, .hit = 0}}), "");
  EXPECT_EQ(refusal({.thresholds = {.remote = -0.1}}),
            "gpu.dualopt.remote_threshold is -0.100000; it must be 0 to 1");
  EXPECT_EQ(refusal({.thresholds = {.block = 1.5}}),
            "gpu.dualopt.block_threshold is 1.500000; it must be 0 to 1");
  EXPECT_EQ(refusal({.thresholds = {.hit = 2}}),
            "gpu.dualopt.hit_threshold is 2.000000; it must be 0 to 1");
  EXPECT_EQ(refusal({.monitored = 0}), "gpu.dualopt.monitored_accesses is 0; give at least 1");
}

}  // namespace
}  // namespace interlace::sim::decision_engine_tests
