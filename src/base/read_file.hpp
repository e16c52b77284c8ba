// Reads small files as a whole. The function uses no streams, for the reason that cut_text.hpp
// gives.
#pragma once

#include <array>
#include <cstdio>
#include <optional>
#include <string>

namespace interlace {

// The contents of a file. There is no value if the file cannot be read. The function does not ask
// for the size of the file, because files in /proc and /sys do not state their size.
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
