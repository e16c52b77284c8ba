// The relays that a plan may use, depending on the options and on a copy profile.
#include "cuda/transfer/copy_planner.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "cuda/copy_world.hpp"
#include "cuda/profile_file.hpp"

namespace interlace::copy_engine_tests {
namespace {

TEST(copy_planner, only_allowed_places_relay) {
  for (const bool all : {true, false}) {
    copy_options options = options_of(copy_executor::streams);
    if (!all) options.relays = std::vector<int>{2, copy_through_host, 9};
    four_gpus in(options);
    in.move(in.gpu[1], in.gpu[0], in.driver.stream(0, false));
    in.expect_right(in.gpu[1]);
    // The plan has the direct path, the path through the host, and one or two paths through relays
    // with staging memory.
    EXPECT_EQ(in.driver.calls("allocate"), all ? 2U : 1U);
    EXPECT_EQ(in.driver.calls("allocate_host"), 1U);
    EXPECT_EQ(in.reports.size(), all ? 0U : 1U);  // one report says that there is no gpu9
  }
}

TEST(copy_planner, a_profile_says_how_messages_of_a_size_are_copied) {
  const profile_file profile(
      classes("host-to-gpu", "") + "," + classes("gpu-to-host", "") + "," +
      classes("gpu-to-gpu", R"({"bytes": 1000, "paths": "gpus", "chunks": 2, "executor": "streams"},
                               {"bytes": 30000, "paths": "gpus", "chunks": 4,
                                "executor": "graphs"})"));
  copy_options options = options_of(copy_executor::automatic);
  options.profile = profile.name();
  options.threshold_bytes.reset();
  four_gpus in(options);
  CUstream_st* const stream = in.driver.stream(0, false);
  in.engine->prepare();
  // The profile says that copies from the host to a GPU are always plain.
  in.move(in.gpu[0], in.host, stream);
  EXPECT_EQ(in.engine->statistics().direct, 1U);
  in.move(in.gpu[1], in.gpu[0], stream, 999);
  EXPECT_EQ(in.engine->statistics().direct, 2U);
  in.move(in.gpu[1], in.gpu[0], stream, 29'999);
  EXPECT_EQ(in.engine->statistics().streams, 1U);
  // Even the first message takes the paths of the profile.
  in.move(in.gpu[2], in.gpu[0], stream, 30'000);
  const copy_statistics counted = in.engine->statistics();
  EXPECT_EQ(counted.graphs, 1U);
  EXPECT_GT(counted.nodes, 4U);
  for (const buffer* one : {&in.gpu[0], &in.gpu[1], &in.gpu[2]}) in.expect_right(*one);
  EXPECT_TRUE(in.reports.empty());
  in.expect_no_errors();
}

TEST(copy_planner, options_take_precedence_over_a_profile) {
  const std::string always = R"({"bytes": 1, "paths": "gpus", "chunks": 2, "executor": "graphs"})";
  const profile_file profile(classes("host-to-gpu", always) + "," + classes("gpu-to-host", always) +
                             "," + classes("gpu-to-gpu", always));
  copy_options options = options_of(copy_executor::streams);
  options.profile = profile.name();
  options.threshold_bytes = 50'000;
  four_gpus in(options);
  CUstream_st* const stream = in.driver.stream(0, false);
  in.move(in.gpu[1], in.gpu[0], stream, 49'999);
  EXPECT_EQ(in.engine->statistics().direct, 1U);
  in.move(in.gpu[1], in.gpu[0], stream);
  EXPECT_EQ(in.engine->statistics().streams, 1U);
  EXPECT_EQ(in.engine->statistics().graphs, 0U);
  in.expect_right(in.gpu[1]);
}

TEST(copy_planner, a_profile_of_another_machine_is_used_after_a_warning) {
  const std::string always = R"({"bytes": 1, "paths": "gpus", "chunks": 2, "executor": "graphs"})";
  const std::string all = classes("host-to-gpu", always) + "," + classes("gpu-to-host", always) +
                          "," + classes("gpu-to-gpu", always);
  const profile_file profile(all, "0.9");
  copy_options options = options_of(copy_executor::automatic);
  options.profile = profile.name();
  four_gpus in(options);
  for (int turn = 0; turn < 2; ++turn) in.move(in.gpu[1], in.gpu[0], in.driver.stream(0, false));
  EXPECT_EQ(in.engine->statistics().graphs, 2U);
  ASSERT_EQ(in.reports.size(), 1U);
  EXPECT_NE(in.reports[0].find("was made on another machine: it has driver 0.9, but "
                               "this machine has 1.0. This profile is used nevertheless"),
            std::string::npos)
      << in.reports[0];
}

TEST(copy_planner, a_profile_that_cannot_be_read_changes_nothing) {
  const profile_file damaged("");
  for (const std::string& name :
       {damaged.name(), std::string("/nowhere/profile.json"), std::string("/tmp/")}) {
    copy_options options = options_of(copy_executor::automatic);
    options.profile = name;
    four_gpus in(options);
    in.move(in.gpu[1], in.gpu[0], in.driver.stream(0, false));
    EXPECT_EQ(in.engine->statistics().streams, 1U);
    ASSERT_EQ(in.reports.size(), 1U);
    EXPECT_NE(in.reports[0].find("copy profile " + name), std::string::npos) << in.reports[0];
  }
}

}  // namespace
}  // namespace interlace::copy_engine_tests
