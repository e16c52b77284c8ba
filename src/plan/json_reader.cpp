#include "plan/json_reader.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

namespace interlace::plan {
namespace {

class json_reader {
 public:
  explicit json_reader(std::string_view text) : rest_(text) {}

  json_value whole() {
    json_value read = next(0);
    space();
    if (!rest_.empty()) throw usage_error("there is text after its end");
    return read;
  }

 private:
  static constexpr int most_depth = 64;

  void space() {
    const auto first = rest_.find_first_not_of(" \t\r\n");
    rest_.remove_prefix(first == std::string_view::npos ? rest_.size() : first);
  }
  bool take(char letter) {
    space();
    if (rest_.empty() || rest_.front() != letter) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void need(char letter) {
    if (!take(letter))
      throw usage_error(std::string("there is no '") + letter + "' where one belongs");
  }
  bool take(std::string_view word) {
    if (rest_.substr(0, word.size()) != word) return false;
    rest_.remove_prefix(word.size());
    return true;
  }

  // Reads a string. Escapes are not decoded, because no name or word in a profile has an escape.
  std::string text() {
    need('"');
    std::size_t end = 0;
    while (end < rest_.size() && rest_[end] != '"') end += rest_[end] == '\\' ? 2 : 1;
    if (end >= rest_.size()) throw usage_error("a text has no end");
    std::string read(rest_.substr(0, end));
    rest_.remove_prefix(end + 1);
    return read;
  }

  json_value number() {
    const auto end = std::min(rest_.find_first_not_of("+-.0123456789eE"), rest_.size());
    const std::string_view digits = rest_.substr(0, end);
    if (digits.empty()) throw usage_error("a value is missing or not valid");
    rest_.remove_prefix(end);
    std::uint64_t read = 0;
    const auto [last, error] = std::from_chars(digits.data(), digits.data() + digits.size(), read);
    if (error != std::errc() || last != digits.data() + digits.size()) return {};
    return {read};
  }

  json_value next(int depth) {
    if (depth > most_depth) throw usage_error("it is nested too deeply");
    space();
    if (take("true")) return {true};
    if (take("false")) return {false};
    if (take("null")) return {};
    if (rest_.empty()) throw usage_error("it ends too early");
    if (rest_.front() == '"') return {text()};
    if (take('[')) {
      std::vector<json_value> all;
      if (take(']')) return {std::move(all)};
      do all.push_back(next(depth + 1));
      while (take(','));
      need(']');
      return {std::move(all)};
    }
    if (take('{')) {
      json_value::object all;
      if (take('}')) return {std::move(all)};
      do {
        space();
        std::string key = text();
        need(':');
        all.insert_or_assign(std::move(key), next(depth + 1));
      } while (take(','));
      need('}');
      return {std::move(all)};
    }
    return number();
  }

  std::string_view rest_;
};

}  // namespace

json_value read_json(std::string_view text) { return json_reader(text).whole(); }

const json_value::object& profile_members(const json_value& read, std::string_view kind,
                                          std::uint64_t format) {
  const auto* top = read.as<json_value::object>();
  const auto found = top == nullptr ? json_value::object::const_iterator() : top->find("kind");
  if (top == nullptr || found == top->end() || found->second.as<std::string>() == nullptr ||
      *found->second.as<std::string>() != kind)
    throw usage_error("it is not a profile of this kind");
  if (const auto given = json_member<std::uint64_t>(*top, "format"); given != format)
    throw usage_error("its format is " + std::to_string(given) + ", and this version reads " +
                      std::to_string(format));
  return *top;
}

}  // namespace interlace::plan
