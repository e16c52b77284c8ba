#include "base/host_memory.hpp"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "base/cut_text.hpp"
#include "base/read_file.hpp"
#include "base/units.hpp"

namespace interlace {

namespace {

std::optional<std::uint64_t> number_of(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  return number;
}

std::optional<std::uint64_t> number_in(const std::string& file) {
  const auto text = read_file(file);
  return text ? number_of(*text) : std::nullopt;
}

// The number that follows a key at the beginning of a line.
std::optional<std::uint64_t> value_of(const std::string& text, std::string_view key) {
  std::string_view rest = text;
  while (!rest.empty()) {
    const auto words = words_of(cut_text(rest, '\n'));
    if (words.size() > 1 && words.front() == key) return number_of(words[1]);
  }
  return std::nullopt;
}

// The names of a control group's files in the two versions.
struct group_files {
  const char* limit;
  const char* used;
  const char* cache_1;  // statistic of the cached bytes in `used`, which the kernel can reclaim
  const char* cache_2;
};
constexpr group_files version_2{"/memory.max", "/memory.current", "inactive_file", "active_file"};
constexpr group_files version_1{"/memory.limit_in_bytes", "/memory.usage_in_bytes",
                                "total_inactive_file", "total_active_file"};

// The memory that the group can still use. There is no value if the group has no limit.
std::optional<std::uint64_t> left_in(const std::string& folder, const group_files& names) {
  const auto limit = number_in(folder + names.limit);
  const auto used = number_in(folder + names.used);
  if (!limit || !used) return std::nullopt;
  std::uint64_t fixed = *used;
  if (const auto text = read_file(folder + "/memory.stat"))
    for (const char* cache : {names.cache_1, names.cache_2})
      fixed -= std::min(fixed, value_of(*text, cache).value_or(0));
  return *limit - std::min(*limit, fixed);
}

}  // namespace

std::optional<std::uint64_t> available_host_bytes(const std::string& proc,
                                                  const std::string& groups) {
  const auto memory = read_file(proc + "/meminfo");
  if (!memory) return std::nullopt;
  const auto kilobytes = value_of(*memory, "MemAvailable:");
  if (!kilobytes) return std::nullopt;
  std::uint64_t least = *kilobytes * kib;
  const std::string own = read_file(proc + "/self/cgroup").value_or("");
  std::string_view rest = own;
  while (!rest.empty()) {
    std::string_view line = cut_text(rest, '\n');
    (void)cut_text(line, ':');
    const std::string_view controllers = cut_text(line, ':');
    const bool first = controllers == "memory";
    if (!first && !controllers.empty()) continue;
    const std::string root = groups + (first ? "/memory" : "");
    // In a container, the process's own group appears as the root. In this case, the path of the
    // group may not exist, so the loop also tries the parent folders.
    for (std::string path(line);; path.resize(path.rfind('/'))) {
      if (const auto left = left_in(root + path, first ? version_1 : version_2))
        least = std::min(least, *left);
      if (path.find('/') == std::string::npos) break;
    }
  }
  return least;
}

}  // namespace interlace
