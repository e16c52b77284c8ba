// Reads small files as a whole. It uses no streams, for the reason given in cut_text.hpp.
#pragma once

#include <array>
#include <cstdio>
#include <optional>
#include <string>

namespace interlace {

// Nothing if the file cannot be read. The size of files in /proc and /sys is unknown before
// reading.
inline std::optional<std::string> read_file(const std::string& path) {
  std::FILE* const file = std::fopen(path.c_str(), "rbe");
  if (file == nullptr) return std::nullopt;
  std::string text;
  std::array<char, 4096> part{};
  while (const std::size_t bytes = std::fread(part.data(), 1, part.size(), file))
    text.append(part.data(), bytes);
  const bool whole = std::ferror(file) == 0;
  (void)std::fclose(file);
  if (!whole) return std::nullopt;
  return text;
}

}  // namespace interlace
