#include "plan/copy_settings.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <map>
#include <string_view>

#include "base/size_text.hpp"
#include "base/units.hpp"
#include "interlace/base/errors.hpp"

namespace interlace {
namespace {

std::optional<std::uint64_t> whole(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::uint64_t bytes_of(const std::string& variable, const std::string& text) {
  const auto size = size_of_text(text);
  if (!size)
    throw usage_error(variable + "='" + text +
                      "' is not a size; give bytes, such as 65536, 64K, 1M");
  return *size;
}

copy_executor executor_of(const std::string& variable, const std::string& text) {
  if (text == "auto") return copy_executor::automatic;
  if (text == "direct") return copy_executor::direct;
  if (text == "streams") return copy_executor::streams;
  if (text == "graphs") return copy_executor::graphs;
  throw usage_error(variable + "='" + text +
                    "' is not a way to copy; give auto, direct, streams or graphs");
}

std::optional<std::vector<int>> relays_of(const std::string& variable, const std::string& text) {
  if (text == "all") return std::nullopt;
  std::vector<int> places;
  if (text == "none") return places;
  std::string_view rest = text;
  for (;;) {
    const auto comma = rest.find(',');
    const std::string_view name = rest.substr(0, comma);
    std::optional<std::uint64_t> gpu;
    if (name.substr(0, 3) == "gpu") gpu = whole(name.substr(3));
    if (name == "host")
      places.push_back(copy_through_host);
    else if (gpu && *gpu <= 1023)
      places.push_back(static_cast<int>(*gpu));
    else
      throw usage_error(std::string(variable).append("='").append(text).append(
          "' names no places; give all, none, or a list such as gpu1,gpu2,host"));
    if (comma == std::string_view::npos) return places;
    rest.remove_prefix(comma + 1);
  }
}

std::optional<std::uint64_t> threshold_of(const std::string& variable, const std::string& text) {
  if (text == "auto") return std::nullopt;
  return bytes_of(variable, text);
}

std::uint32_t chunks_of(const std::string& variable, const std::string& text) {
  if (text == "auto") return 0;
  const auto number = whole(text);
  if (!number || *number == 0 || *number > most_copy_chunks)
    throw usage_error(variable + "='" + text + "' is neither auto nor from 1 to " +
                      std::to_string(most_copy_chunks));
  return static_cast<std::uint32_t>(*number);
}

// The size of staging memory, which is bounded from below. With too little memory, chunks would be
// small and numerous, and all-reduces would have no memory.
std::uint64_t staging_of(const std::string& variable, const std::string& text) {
  const std::uint64_t bytes = bytes_of(variable, text);
  if (bytes != 0 && bytes < mib)
    throw usage_error(variable + "='" + text +
                      "' is too little staging memory; give 0, or 1M and more");
  return bytes;
}

std::string profile_of(const std::string& variable, const std::string& text) {
  if (text != "auto" && text != "none" && text.find('/') == std::string::npos)
    throw usage_error(variable + "='" + text +
                      "' is neither auto nor none nor the path of a file (./profile.json)");
  return text;
}

std::uint32_t graphs_of(const std::string& variable, const std::string& text) {
  const auto number = whole(text);
  if (!number || *number == 0 || *number > 65536)
    throw usage_error(variable + "='" + text +
                      "' is not from 1 to 65536; INTERLACE_COPY=streams uses no graphs");
  return static_cast<std::uint32_t>(*number);
}

std::optional<std::string> traffic_file_of(const std::string& variable, const std::string& text) {
  if (text == "auto") return std::nullopt;
  if (text == "none") return std::string();
  if (text.find('/') == std::string::npos)
    throw usage_error(variable + "='" + text +
                      "' is not a file; give auto, none, or a path such as /dev/shm/copies");
  return text;
}

constexpr const char* executor_variable = "INTERLACE_COPY";
constexpr const char* threshold_variable = "INTERLACE_COPY_THRESHOLD";
constexpr const char* relays_variable = "INTERLACE_COPY_RELAYS";
constexpr const char* chunks_variable = "INTERLACE_COPY_CHUNKS";
constexpr const char* profile_variable = "INTERLACE_COPY_PROFILE";
constexpr const char* staging_variable = "INTERLACE_COPY_STAGING";
constexpr const char* graphs_variable = "INTERLACE_COPY_GRAPHS";
constexpr const char* traffic_variable = "INTERLACE_COPY_TRAFFIC";

}  // namespace

copy_options copy_options::from_environment() {
  return plan::read_copy_options(plan::value_of_environment);
}

namespace plan {

const std::vector<copy_setting>& copy_settings() {
  static const std::vector<copy_setting> all{
      {executor_variable, "auto",
       "how large messages are copied: auto, direct (one plain copy), streams, graphs"},
      {threshold_variable, "auto",
       "a message of fewer bytes is one plain copy; auto: 1M, or less if the profile says so"},
      {relays_variable, "all",
       "places that may stage messages: all, none, or a list such as gpu1,gpu2,host"},
      {chunks_variable, "auto", "the number of chunks of a staged part: auto, or 1 to 1024"},
      {profile_variable, "auto",
       "the profile of tuned copies: auto (the profile of interlace tune copy for these GPUs), "
       "none, or a file"},
      {staging_variable, "256M",
       "the largest amount of staging memory on each GPU and on the host: 0, or at least 1M"},
      {graphs_variable, "128", "the largest number of executable graphs that are kept"},
      {traffic_variable, "auto",
       "the file in which processes see each other's messages: auto (in /dev/shm), none, or a "
       "path"},
  };
  return all;
}

std::optional<std::string> value_of_environment(const std::string& name) {
  const char* value = std::getenv(name.c_str());  // NOLINT(concurrency-mt-unsafe): not set here
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

copy_options read_copy_options(
    const std::function<std::optional<std::string>(const std::string&)>& value_of) {
  copy_options made;
  if (const auto text = value_of(executor_variable))
    made.executor = executor_of(executor_variable, *text);
  if (const auto text = value_of(threshold_variable))
    made.threshold_bytes = threshold_of(threshold_variable, *text);
  if (const auto text = value_of(relays_variable)) made.relays = relays_of(relays_variable, *text);
  if (const auto text = value_of(chunks_variable)) made.chunks = chunks_of(chunks_variable, *text);
  if (const auto text = value_of(profile_variable))
    made.profile = profile_of(profile_variable, *text);
  if (const auto text = value_of(staging_variable))
    made.staging_bytes = staging_of(staging_variable, *text);
  if (const auto text = value_of(graphs_variable)) made.graphs = graphs_of(graphs_variable, *text);
  if (const auto text = value_of(traffic_variable))
    made.traffic_file = traffic_file_of(traffic_variable, *text);
  return made;
}

copy_options read_copy_options(const std::vector<std::string>& words) {
  std::map<std::string, std::string> given;
  for (const std::string& word : words) {
    const auto equals = word.find('=');
    const std::string name = word.substr(0, equals);
    const auto& all = copy_settings();
    if (equals == std::string::npos ||
        std::none_of(all.begin(), all.end(), [&](const auto& one) { return one.variable == name; }))
      throw usage_error("'" + word +
                        "' is not a setting of copies; give words such as INTERLACE_COPY=streams");
    given.insert_or_assign(name, word.substr(equals + 1));
  }
  return read_copy_options([&](const std::string& name) {
    const auto found = given.find(name);
    return found == given.end() ? value_of_environment(name) : std::optional(found->second);
  });
}

}  // namespace plan
}  // namespace interlace
