// Sizes in the form in which people write them.
#pragma once

#include <charconv>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/units.hpp"

namespace interlace {

// Parses a whole number of bytes. K, M or G may follow the number and mean 2^10, 2^20 or 2^30.
// There is no value for any other text, or for a number that does not fit in 64 bits.
inline std::optional<std::uint64_t> size_of_text(std::string_view text) {
  unsigned shift = 0;
  if (!text.empty()) {
    const char unit = text.back();
    shift = unit == 'K' ? 10 : unit == 'M' ? 20 : unit == 'G' ? 30 : 0;
    if (shift != 0) text.remove_suffix(1);
  }
  std::uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || last != end ||
      number > std::numeric_limits<std::uint64_t>::max() >> shift)
    return std::nullopt;
  return number << shift;
}

// Formats a number of bytes in the largest binary unit that gives a whole number, for example "256
// KiB".
inline std::string size_text(std::uint64_t bytes) {
  const std::pair<std::uint64_t, const char*> units[] = {
      {gib, " GiB"}, {mib, " MiB"}, {kib, " KiB"}};
  for (const auto& [size, name] : units) {
    if (bytes >= size && bytes % size == 0) return std::to_string(bytes / size) + name;
  }
  return std::to_string(bytes) + " B";
}

}  // namespace interlace
