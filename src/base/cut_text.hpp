// Splits texts at separators, without C++ streams. A process can contain a second C++ standard
// library, for example that of a framework. The streams of the two libraries would share parts of
// the locale.
#pragma once

#include <string_view>
#include <vector>

namespace interlace {

// Removes the text before the separator, and the separator, from `rest`. Returns the removed text
// without the separator. If there is no separator, removes and returns the whole text.
inline std::string_view cut_text(std::string_view& rest, std::string_view separator) {
  const auto at = rest.find(separator);
  const std::string_view first = rest.substr(0, at);
  rest.remove_prefix(at == std::string_view::npos ? rest.size() : at + separator.size());
  return first;
}
inline std::string_view cut_text(std::string_view& rest, char separator) {
  return cut_text(rest, std::string_view(&separator, 1));
}

// The words of a text, separated by blanks and line ends.
inline std::vector<std::string_view> words_of(std::string_view text) {
  constexpr std::string_view blanks = " \t\r\n";
  std::vector<std::string_view> words;
  for (;;) {
    const auto begin = text.find_first_not_of(blanks);
    if (begin == std::string_view::npos) return words;
    text.remove_prefix(begin);
    words.push_back(text.substr(0, text.find_first_of(blanks)));
    text.remove_prefix(words.back().size());
  }
}

}  // namespace interlace
