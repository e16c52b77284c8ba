#include "preload/settings.hpp"

#include <charconv>
#include <cstdlib>
#include <string_view>
#include <system_error>

#include "base/size_text.hpp"

namespace interlace::preload {
namespace {

std::string_view value_of(const char* variable) {
  const char* value = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe): not set here
  return value == nullptr ? "" : value;
}

void read_bytes(const char* variable, std::uint64_t& bytes, std::string& problem) {
  const std::string_view text = value_of(variable);
  if (text.empty()) return;
  if (const auto size = size_of_text(text))
    bytes = *size;
  else
    problem = std::string(variable) + "='" + std::string(text) +
              "' is not a size; give bytes, such as 65536, 64K, 2M";
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
              "' is not a way to start; give background, wait or never";
}

void read_blocks(std::optional<unsigned>& blocks, std::string& problem) {
  const std::string_view text = value_of("INTERLACE_PRELOAD_BLOCKS");
  if (text.empty() || text == "auto") return;
  unsigned value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size() && value <= 1024)
    blocks = value;
  else
    problem = "INTERLACE_PRELOAD_BLOCKS='" + std::string(text) +
              "' is not a number of multiprocessors; give 0 to 1024, or auto";
}

settings settings_of_environment() {
  settings found;
  read_bytes("INTERLACE_PRELOAD_THRESHOLD", found.threshold_bytes, found.problem);
  read_bytes("INTERLACE_PRELOAD_AFTER", found.after_bytes, found.problem);
  read_start(found.start, found.problem);
  read_blocks(found.most_blocks, found.problem);
  found.counters = value_of("INTERLACE_PRELOAD_COUNTERS");
  return found;
}

}  // namespace

const settings& process_settings() {
  // This object is never destroyed, because a program can copy after its last static object has
  // been destroyed.
  static const settings& found = *new settings(settings_of_environment());
  return found;
}

}  // namespace interlace::preload
