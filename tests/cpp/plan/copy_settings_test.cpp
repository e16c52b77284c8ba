// The environment variables of copies: what their values mean, and which values are refused.
#include "plan/copy_settings.hpp"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "interlace/base/errors.hpp"

namespace interlace::copy_settings_tests {
namespace {

copy_options read(const std::map<std::string, std::string>& environment) {
  return plan::read_copy_options([&](const std::string& name) -> std::optional<std::string> {
    const auto found = environment.find(name);
    if (found == environment.end()) return std::nullopt;
    return found->second;
  });
}

TEST(copy_settings, an_empty_environment_gives_the_defaults) {
  const copy_options made = read({});
  const copy_options standard;
  EXPECT_EQ(made.executor, standard.executor);
  EXPECT_EQ(made.threshold_bytes, standard.threshold_bytes);
  EXPECT_EQ(made.relays, standard.relays);
  EXPECT_EQ(made.chunks, standard.chunks);
  EXPECT_EQ(made.profile, standard.profile);
  EXPECT_EQ(made.staging_bytes, standard.staging_bytes);
  EXPECT_EQ(made.graphs, standard.graphs);
  EXPECT_EQ(made.traffic_file, standard.traffic_file);
}

TEST(copy_settings, the_defaults_that_are_listed_are_those) {
  std::map<std::string, std::string> listed;
  for (const plan::copy_setting& one : plan::copy_settings())
    listed.emplace(one.variable, one.standard);
  EXPECT_EQ(listed.size(), 8U);
  const copy_options made = read(listed);
  const copy_options standard;
  EXPECT_EQ(made.executor, standard.executor);
  EXPECT_EQ(made.threshold_bytes, standard.threshold_bytes);
  EXPECT_EQ(made.relays, standard.relays);
  EXPECT_EQ(made.chunks, standard.chunks);
  EXPECT_EQ(made.profile, standard.profile);
  EXPECT_EQ(made.staging_bytes, standard.staging_bytes);
  EXPECT_EQ(made.graphs, standard.graphs);
  EXPECT_EQ(made.traffic_file, standard.traffic_file);
}

TEST(copy_settings, every_variable_sets_its_member) {
  const copy_options made = read({{"INTERLACE_COPY", "graphs"},
                                  {"INTERLACE_COPY_THRESHOLD", "64K"},
                                  {"INTERLACE_COPY_RELAYS", "gpu3,host,gpu0"},
                                  {"INTERLACE_COPY_STAGING", "2G"},
                                  {"INTERLACE_COPY_GRAPHS", "7"},
                                  {"INTERLACE_COPY_TRAFFIC", "/tmp/messages"}});
  EXPECT_EQ(made.executor, copy_executor::graphs);
  EXPECT_EQ(made.threshold_bytes, 65536U);
  EXPECT_EQ(made.relays, (std::vector<int>{3, copy_through_host, 0}));
  EXPECT_EQ(made.staging_bytes, std::uint64_t{2} << 30U);
  EXPECT_EQ(made.graphs, 7U);
  EXPECT_EQ(made.traffic_file, "/tmp/messages");
  EXPECT_EQ(read({{"INTERLACE_COPY_TRAFFIC", "none"}}).traffic_file, "");
  EXPECT_EQ(read({{"INTERLACE_COPY_CHUNKS", "12"}}).chunks, 12U);
  EXPECT_EQ(read({{"INTERLACE_COPY_PROFILE", "./a.json"}}).profile, "./a.json");
  EXPECT_EQ(read({{"INTERLACE_COPY_RELAYS", "none"}}).relays, std::vector<int>{});
  EXPECT_EQ(read({{"INTERLACE_COPY_THRESHOLD", "0"}}).threshold_bytes, 0U);
  EXPECT_EQ(read({{"INTERLACE_COPY_STAGING", "0"}}).staging_bytes, 0U);
  EXPECT_EQ(read({{"INTERLACE_COPY_STAGING", "1M"}}).staging_bytes, 1048576U);
}

TEST(copy_settings, a_value_that_means_nothing_is_refused_in_one_sentence) {
  const std::vector<std::pair<std::string, std::string>> wrong{
      {"INTERLACE_COPY", "fast"},
      {"INTERLACE_COPY", ""},
      {"INTERLACE_COPY_THRESHOLD", "-1"},
      {"INTERLACE_COPY_THRESHOLD", "1.5M"},
      {"INTERLACE_COPY_THRESHOLD", "K"},
      {"INTERLACE_COPY_STAGING", "99999999999G"},
      {"INTERLACE_COPY_STAGING", "1MB"},
      {"INTERLACE_COPY_STAGING", "4096"},
      {"INTERLACE_COPY_STAGING", "1023K"},
      {"INTERLACE_COPY_RELAYS", "1,2"},
      {"INTERLACE_COPY_RELAYS", "gpu1,"},
      {"INTERLACE_COPY_RELAYS", "gpu"},
      {"INTERLACE_COPY_RELAYS", "gpu-1"},
      {"INTERLACE_COPY_RELAYS", "gpu9999"},
      {"INTERLACE_COPY_GRAPHS", "0"},
      {"INTERLACE_COPY_GRAPHS", "many"},
      {"INTERLACE_COPY_GRAPHS", "100000"},
      {"INTERLACE_COPY_CHUNKS", "0"},
      {"INTERLACE_COPY_CHUNKS", "1025"},
      {"INTERLACE_COPY_PROFILE", "yes"},
      {"INTERLACE_COPY_TRAFFIC", "messages"},
      {"INTERLACE_COPY_TRAFFIC", ""},
  };
  for (const auto& [variable, value] : wrong) {
    try {
      (void)read({{variable, value}});
      ADD_FAILURE() << variable << '=' << value << " is taken";
    } catch (const usage_error& error) {
      const std::string text = error.what();
      EXPECT_EQ(text.find(variable + "='" + value + "'"), 0U) << text;
      EXPECT_EQ(text.find('\n'), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace interlace::copy_settings_tests
