#include "plan/profile_path.hpp"

#include <cctype>

namespace interlace::plan {

std::optional<std::string> profile_path(
    const std::string& kind, const std::string& model,
    const std::function<std::optional<std::string>(const std::string&)>& value_of) {
  std::string base;
  if (const auto stated = value_of("XDG_CONFIG_HOME"); stated && stated->front() == '/')
    base = *stated;
  else if (const auto home = value_of("HOME"))
    base = *home + "/.config";
  else
    return std::nullopt;
  // This function turns a name into a word of the path. The function in profiles.py uses the same
  // rule.
  std::string word;
  for (const char letter : model) {
    const auto code = static_cast<unsigned char>(letter);
    if (code < 0x80 && (std::isalnum(code) != 0 || letter == '.'))
      word.push_back(static_cast<char>(std::tolower(code)));
    else if (word.empty() || word.back() != '-')
      word.push_back('-');
  }
  const auto first = word.find_first_not_of("-.");
  const auto last = word.find_last_not_of("-.");
  word = first == std::string::npos ? "" : word.substr(first, last - first + 1);
  return base + "/interlace/profiles/" + kind + "-" + word.substr(0, 40) + ".json";
}

}  // namespace interlace::plan
