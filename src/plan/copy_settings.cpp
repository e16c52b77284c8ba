#include "plan/copy_settings.hpp"

#include <charconv>
#include <cstdlib>
#include <limits>
#include <string_view>

#include "base/errors.hpp"

namespace interlace {
namespace {

std::optional<std::uint64_t> whole(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::uint64_t bytes_of(const std::string& variable, const std::string& text) {
  std::string_view digits = text;
  unsigned shift = 0;
  if (!digits.empty()) {
    const char unit = digits.back();
    shift = unit == 'K' ? 10 : unit == 'M' ? 20 : unit == 'G' ? 30 : 0;
    if (shift != 0) digits.remove_suffix(1);
  }
  const auto number = whole(digits);
  if (!number || *number > std::numeric_limits<std::uint64_t>::max() >> shift)
    throw usage_error(variable + "='" + text + "' is no size; give bytes, such as 65536, 64K, 1M");
  return *number << shift;
}

copy_executor executor_of(const std::string& variable, const std::string& text) {
  if (text == "auto") return copy_executor::automatic;
  if (text == "direct") return copy_executor::direct;
  if (text == "streams") return copy_executor::streams;
  if (text == "graphs") return copy_executor::graphs;
  throw usage_error(variable + "='" + text +
                    "' is no way to copy; there are auto, direct, streams and graphs");
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
      throw usage_error(variable + "='" + text +
                        "' names no places; give all, none, or a list such as gpu1,gpu2,host");
    if (comma == std::string_view::npos) return places;
    rest.remove_prefix(comma + 1);
  }
}

std::uint32_t graphs_of(const std::string& variable, const std::string& text) {
  const auto number = whole(text);
  if (!number || *number == 0 || *number > 65536)
    throw usage_error(variable + "='" + text +
                      "' is not from 1 to 65536; INTERLACE_COPY=streams uses no graphs");
  return static_cast<std::uint32_t>(*number);
}

constexpr const char* executor_variable = "INTERLACE_COPY";
constexpr const char* threshold_variable = "INTERLACE_COPY_THRESHOLD";
constexpr const char* relays_variable = "INTERLACE_COPY_RELAYS";
constexpr const char* staging_variable = "INTERLACE_COPY_STAGING";
constexpr const char* graphs_variable = "INTERLACE_COPY_GRAPHS";

}  // namespace

copy_options copy_options::from_environment() {
  return plan::read_copy_options([](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());  // NOLINT(concurrency-mt-unsafe): not set here
    if (value == nullptr || *value == '\0') return std::nullopt;
    return value;
  });
}

namespace plan {

const std::vector<copy_setting>& copy_settings() {
  static const std::vector<copy_setting> all{
      {executor_variable, "auto",
       "how large messages are copied: auto, direct (one plain copy), streams, graphs"},
      {threshold_variable, "1M", "a message of fewer bytes is one plain copy"},
      {relays_variable, "all", "where messages may be staged: all, none, or as gpu1,gpu2,host"},
      {staging_variable, "256M", "staging memory on each GPU, and on the host, at most"},
      {graphs_variable, "128", "executable graphs that are kept"},
  };
  return all;
}

copy_options read_copy_options(
    const std::function<std::optional<std::string>(const std::string&)>& value_of) {
  copy_options made;
  if (const auto text = value_of(executor_variable))
    made.executor = executor_of(executor_variable, *text);
  if (const auto text = value_of(threshold_variable))
    made.threshold_bytes = bytes_of(threshold_variable, *text);
  if (const auto text = value_of(relays_variable)) made.relays = relays_of(relays_variable, *text);
  if (const auto text = value_of(staging_variable))
    made.staging_bytes = bytes_of(staging_variable, *text);
  if (const auto text = value_of(graphs_variable)) made.graphs = graphs_of(graphs_variable, *text);
  return made;
}

}  // namespace plan
}  // namespace interlace
