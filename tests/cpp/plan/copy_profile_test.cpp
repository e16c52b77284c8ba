// Tests the reader of copy profiles, which must refuse invalid profiles.
#include "plan/copy_profile.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>

#include "interlace/base/errors.hpp"

namespace interlace::copy_profile_tests {
namespace {

using machine::endpoint_kind;
using plan::copy_direction;

// This profile also has numbers, texts, lists and members that the engine ignores.
const std::string whole = R"({
  "kind": "interlace copy profile", "format": 1, "command": "interlace \"tune\" copy",
  "machine": {"node": "cuda", "name": "4x NVIDIA H200", "gpus": 4, "model": "NVIDIA H200",
              "driver": "580.1", "cuda": "13.0", "sha256": null},
  "directions": {
    "host-to-gpu": {"threshold_bytes": 1048576, "classes": [
      {"bytes": 1048576, "paths": "gpus", "chunks": 2, "executor": "streams", "median_s": 1e-5},
      {"bytes": 16777216, "paths": "gpus", "chunks": 8, "executor": "graphs"}]},
    "gpu-to-host": {"threshold_bytes": null, "classes": []},
    "gpu-to-gpu": {"threshold_bytes": 4194304, "classes": [
      {"bytes": 4194304, "paths": "direct", "chunks": 0, "executor": "auto"},
      {"bytes": 8388608, "paths": "gpus+host", "chunks": 4, "executor": "auto"},
      {"bytes": 33554432, "paths": "host", "chunks": 0, "executor": "graphs"}]}},
  "measured": [{"time_s": [1.5e-5, -2, true, false, null, {}, []]}]
})";

std::string error_of(const std::string& text) {
  try {
    (void)plan::read_copy_profile(text, "p.json");
  } catch (const usage_error& error) {
    return error.what();
  }
  return "";
}

std::string changed(const std::string& from, const std::string& to) {
  std::string text = whole;
  return text.replace(text.find(from), from.size(), to);
}

TEST(copy_profile, a_message_gets_what_was_measured_for_its_size) {
  const plan::copy_profile read = plan::read_copy_profile(whole, "p.json");
  EXPECT_EQ(read.model, "NVIDIA H200");
  EXPECT_EQ(read.least_bytes(), 1048576U);
  const auto to_gpu = copy_direction::host_to_gpu;
  for (const std::uint64_t bytes : {0ULL, 1ULL, 1048575ULL}) {
    const auto choice = read.of(to_gpu, bytes);
    EXPECT_FALSE(choice.gpus || choice.host) << bytes;
  }
  EXPECT_EQ(read.of(to_gpu, 1048576).chunks, 2U);
  EXPECT_EQ(read.of(to_gpu, 16777215).executor, copy_executor::streams);
  EXPECT_EQ(read.of(to_gpu, 16777216).executor, copy_executor::graphs);
  EXPECT_EQ(read.of(to_gpu, std::uint64_t{1} << 40U).chunks, 8U);
  EXPECT_FALSE(read.of(copy_direction::gpu_to_host, std::uint64_t{1} << 30U).gpus);
  const auto between = copy_direction::gpu_to_gpu;
  EXPECT_FALSE(read.of(between, 4194304).gpus);
  EXPECT_TRUE(read.of(between, 8388608).gpus && read.of(between, 8388608).host);
  EXPECT_TRUE(!read.of(between, 33554432).gpus && read.of(between, 33554432).host);
}

TEST(copy_profile, directions) {
  const machine::endpoint host{endpoint_kind::host, 0};
  const machine::endpoint gpu{endpoint_kind::gpu, 1};
  EXPECT_EQ(plan::direction_of(host, gpu), copy_direction::host_to_gpu);
  EXPECT_EQ(plan::direction_of(gpu, host), copy_direction::gpu_to_host);
  EXPECT_EQ(plan::direction_of(gpu, gpu), copy_direction::gpu_to_gpu);
}

TEST(copy_profile, differences_are_named) {
  const plan::copy_profile read = plan::read_copy_profile(whole, "p.json");
  EXPECT_TRUE(read.differences("NVIDIA H200", 4, "580.1").empty());
  const auto found = read.differences("NVIDIA A100", 2, "590");
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[0], "it has NVIDIA H200, but this machine has NVIDIA A100");
  EXPECT_EQ(found[1], "it has 4 GPUs, but this machine has 2");
  EXPECT_EQ(found[2], "it has driver 580.1, but this machine has 590");
}

TEST(copy_profile, a_file_that_is_no_profile_is_refused_in_one_sentence) {
  const std::map<std::string, std::string> wrong{
      {"", "it ends too early"},
      {"[]", "it is not a profile of this kind"},
      {"{}", "it is not a profile of this kind"},
      {whole + "x", "there is text after its end"},
      {whole.substr(0, whole.size() - 2), "there is no"},
      {std::string(1000, '['), "it is nested too deeply"},
      {changed("\"format\": 1", "\"format\": 2"), "its format is 2"},
      {changed("\"model\": \"NVIDIA H200\"", "\"model\": 5"), "model has the wrong type"},
      {changed("gpu-to-host", "gpu-to-hosts"), "it has no gpu-to-host"},
      {changed("\"paths\": \"gpus\"", "\"paths\": \"all\""),
       "unknown paths 'all'; give gpus, host, gpus+host or direct"},
      {changed("\"chunks\": 2", "\"chunks\": 2000"), "2000 chunks are too many"},
      {changed("\"chunks\": 2", "\"chunks\": -2"), "chunks has the wrong type"},
      {changed("\"chunks\": 2", "\"chunks\": "), "a value is missing or not valid"},
      {changed("\"streams\"", "\"fast\""), "unknown executor 'fast'; give auto, streams or graphs"},
      {changed("\"bytes\": 16777216", "\"bytes\": 1048576"), "host-to-gpu do not ascend"},
  };
  for (const auto& [text, part] : wrong) {
    const std::string error = error_of(text);
    EXPECT_EQ(error.find("the copy profile p.json cannot be used: "), 0U) << error;
    EXPECT_NE(error.find(part), std::string::npos) << error << " has no " << part;
    EXPECT_EQ(error.find('\n'), std::string::npos);
  }
}

// The reader refuses a truncated text. It accepts or refuses a changed text, but does not crash.
TEST(copy_profile, damaged_texts) {
  std::mt19937_64 random(7);
  for (std::size_t end = 0; end < whole.size() - 1; ++end)
    EXPECT_NE(error_of(whole.substr(0, end)), "") << end;
  for (int turn = 0; turn < 20000; ++turn) {
    std::string text = whole;
    for (int change = 0; change < 3; ++change)
      text[random() % text.size()] = static_cast<char>(random() % 256);
    (void)error_of(text);
  }
}

TEST(copy_profile, where_it_is_kept) {
  std::map<std::string, std::string> values{{"HOME", "/home/a"}};
  const auto path = [&](const std::string& model) {
    return plan::copy_profile_path(model, [&](const std::string& name) {
      const auto found = values.find(name);
      return found == values.end() ? std::nullopt : std::optional(found->second);
    });
  };
  EXPECT_EQ(path("NVIDIA H200"), "/home/a/.config/interlace/profiles/copy-nvidia-h200.json");
  EXPECT_EQ(path("-A (1.5)_-x. "), "/home/a/.config/interlace/profiles/copy-a-1.5-x.json");
  values["XDG_CONFIG_HOME"] = "relative";
  EXPECT_EQ(path("a"), "/home/a/.config/interlace/profiles/copy-a.json");
  values["XDG_CONFIG_HOME"] = "/etc/x";
  EXPECT_EQ(path("a"), "/etc/x/interlace/profiles/copy-a.json");
  values.clear();
  EXPECT_EQ(path("a"), std::nullopt);
}

}  // namespace
}  // namespace interlace::copy_profile_tests
