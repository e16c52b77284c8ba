// Bytes as text.
#pragma once

#include <span>
#include <string>

namespace interlace {

// Writes each byte as two hexadecimal digits in lower case.
inline std::string hexadecimal(std::span<const char> bytes) {
  constexpr const char* digits = "0123456789abcdef";
  std::string text;
  text.reserve(2 * bytes.size());
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    text += digits[byte / 16];
    text += digits[byte % 16];
  }
  return text;
}

}  // namespace interlace
