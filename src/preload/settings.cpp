#include "preload/settings.hpp"

#include <charconv>
#include <cstdlib>
#include <limits>
#include <string_view>

namespace interlace::preload {
namespace {

std::string_view value_of(const char* variable) {
  const char* value = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe): not set here
  return value == nullptr ? "" : value;
}

void read_bytes(const char* variable, std::uint64_t& bytes, std::string& problem) {
  const std::string_view text = value_of(variable);
  if (text.empty()) return;
  std::string_view digits = text;
  unsigned shift = 0;
  switch (digits.back()) {
    case 'K':
      shift = 10;
      break;
    case 'M':
      shift = 20;
      break;
    case 'G':
      shift = 30;
      break;
    default:
      break;
  }
  if (shift != 0) digits.remove_suffix(1);
  std::uint64_t number = 0;
  const char* end = digits.data() + digits.size();
  const auto [last, error] = std::from_chars(digits.data(), end, number);
  if (digits.empty() || error != std::errc() || last != end ||
      number > std::numeric_limits<std::uint64_t>::max() >> shift)
    problem = std::string(variable) + "='" + std::string(text) +
              "' is no size; give bytes, such as 65536, 64K, 2M";
  else
    bytes = number << shift;
}

void read_start(start_mode& start, std::string& problem) {
  const std::string_view text = value_of("INTERLACE_PRELOAD_START");
  if (text.empty() || text == "background") return;
  if (text == "wait")
    start = start_mode::wait;
  else if (text == "never")
    start = start_mode::never;
  else
    problem = "INTERLACE_PRELOAD_START='" + std::string(text) +
              "' is no way to start; there are background, wait and never";
}

settings settings_of_environment() {
  settings found;
  read_bytes("INTERLACE_PRELOAD_THRESHOLD", found.threshold_bytes, found.problem);
  read_bytes("INTERLACE_PRELOAD_AFTER", found.after_bytes, found.problem);
  read_start(found.start, found.problem);
  found.counters = value_of("INTERLACE_PRELOAD_COUNTERS");
  return found;
}

}  // namespace

const settings& chosen() {
  // Never destroyed: copies may come after the process's last objects.
  static const settings& found = *new settings(settings_of_environment());
  return found;
}

}  // namespace interlace::preload
