// Profiles of blocks. The times in a profile replace the times that were measured on an H200. Times
// that the profile lacks stay as they are.
#include "plan/block_profile.hpp"

#include <gtest/gtest.h>

#include <string>

#include "interlace/base/errors.hpp"

namespace interlace::plan {
namespace {

std::string profile_of(const std::string& classes, const std::string& format = "1") {
  return R"({"kind": "interlace block profile", "format": )" + format +
         R"(, "machine": {"model": "X"}, "directions": {"host-to-gpu": [)" + classes + "]}}";
}

const std::string two_classes =
    R"({"bytes": 4096, "ways": {"kernel": {"start_ns": 30000, "block_ps": 100000},)"
    R"( "driver-batch": {"start_ns": 1000, "block_ps": 50000}}},)"
    R"({"bytes": 8192, "ways": {"kernel": {"start_ns": 2000, "block_ps": 1000}}})";

TEST(BlockProfile, ItsTimesReplaceThoseOfTheH200) {
  const block_costs& rest = costs_of_h200();
  const block_costs read = read_block_profile(profile_of(two_classes), "a file", rest);
  const auto& up = read.classes[static_cast<std::size_t>(block_direction::to_gpu)];
  ASSERT_EQ(up.size(), 2U);
  EXPECT_EQ(up[0].bytes, 4096U);
  EXPECT_DOUBLE_EQ(up[0].ways[0].start_us, 30);
  EXPECT_DOUBLE_EQ(up[0].ways[0].block_us, 0.1);
  EXPECT_DOUBLE_EQ(up[0].ways[1].block_us, 0.05);
  // The profile lacks these times.
  EXPECT_DOUBLE_EQ(up[0].ways[2].block_us, class_at(rest.classes[0], 4096).ways[2].block_us);
  EXPECT_EQ(up[1].thread_blocks, class_at(rest.classes[0], 8192).thread_blocks);
  EXPECT_EQ(read.classes[1].size(), rest.classes[1].size());
  EXPECT_EQ(read.classes[2].size(), rest.classes[2].size());
  // The profile changes which way is chosen.
  const block_question asked{
      .direction = block_direction::to_gpu, .blocks = 1000, .bytes = 4096 * 1000};
  EXPECT_EQ(choose_way(rest, asked).way, block_way::kernel);
  EXPECT_EQ(choose_way(read, asked).way, block_way::driver_batch);
}

TEST(BlockProfile, OtherTextsAreRefusedWithTheFileAndTheReason) {
  const auto refusal = [](const std::string& text) -> std::string {
    try {
      (void)read_block_profile(text, "a/file.json", costs_of_h200());
    } catch (const usage_error& error) {
      return error.what();
    }
    return "";
  };
  const std::string descending = R"({"bytes": 8192, "ways": {}}, {"bytes": 8192, "ways": {}})";
  for (const auto& [text, reason] :
       {std::pair<std::string, std::string>{"", "it ends too early"},
        {"{}", "it is not a profile of this kind"},
        {R"({"kind": "interlace copy profile", "format": 1})", "it is not a profile of this kind"},
        {profile_of("", "2"), "its format is 2, and this version reads 1"},
        {profile_of(descending), "the classes of host-to-gpu do not ascend"},
        {profile_of(R"({"bytes": 0, "ways": {}})"), "do not ascend"},
        {profile_of("7"), "a class has the wrong type"},
        {profile_of(R"({"bytes": 8, "ways": {"kernel": {"start_ns": 1}}})"),
         "it has no block_ps"}}) {
    EXPECT_NE(refusal(text).find("the block profile a/file.json cannot be used: "),
              std::string::npos)
        << text;
    EXPECT_NE(refusal(text).find(reason), std::string::npos) << refusal(text);
  }
}

}  // namespace
}  // namespace interlace::plan
