// Splits a line of text into words and numbers.
#pragma once

#include <array>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace interlace::sim::trace {

// Removes the next blank-separated word from the line and returns the word. The result is empty at
// the end of the line.
inline std::string_view next_word(std::string_view& line) {
  std::size_t begin = 0;
  while (begin < line.size() && (line[begin] == ' ' || line[begin] == '\t')) ++begin;
  std::size_t end = begin;
  while (end < line.size() && line[end] != ' ' && line[end] != '\t') ++end;
  const std::string_view word = line.substr(begin, end - begin);
  line.remove_prefix(end);
  return word;
}

// Parses the whole word as a number. There is no value if the word is not a number, or if the
// number does not fit.
template <class Number>
std::optional<Number> number_of(std::string_view word, int base = 10) {
  Number value{};
  const char* end = word.data() + word.size();
  const auto result = std::from_chars(word.data(), end, value, base);
  if (result.ec != std::errc{} || result.ptr != end || word.empty()) return std::nullopt;
  return value;
}

// Parses an address such as "0x7f00" or "7f00".
inline std::optional<std::uint64_t> address_of(std::string_view word) {
  if (word.substr(0, 2) == "0x") word.remove_prefix(2);
  return number_of<std::uint64_t>(word, 16);
}

// Removes `prefix` from the beginning of a text. Returns false if the text does not begin with it.
inline bool take_prefix(std::string_view& text, std::string_view prefix) {
  if (text.substr(0, prefix.size()) != prefix) return false;
  text.remove_prefix(prefix.size());
  return true;
}

// Three numbers separated by commas, as in "1,2,3".
inline std::optional<std::array<std::uint32_t, 3>> triple_of(std::string_view text) {
  std::array<std::uint32_t, 3> found{};
  for (std::size_t k = 0; k < 3; ++k) {
    const std::size_t end = k < 2 ? text.find(',') : text.size();
    if (end == std::string_view::npos) return std::nullopt;
    const auto number = number_of<std::uint32_t>(text.substr(0, end));
    if (!number) return std::nullopt;
    found[k] = *number;
    text.remove_prefix(k < 2 ? end + 1 : end);
  }
  return found;
}

// The word in a short and printable form for messages.
inline std::string shown(std::string_view word) {
  constexpr std::size_t most = 40;
  std::string text(word.substr(0, most));
  for (char& c : text) {
    if (c < ' ' || c > '~') c = '?';
  }
  return "'" + text + (word.size() > most ? "...'" : "'");
}

}  // namespace interlace::sim::trace
