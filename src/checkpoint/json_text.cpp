#include "checkpoint/json_text.hpp"

#include <array>
#include <charconv>
#include <cstdio>

namespace interlace::checkpoint {

namespace {

constexpr int most_depth = 64;

bool is_digit(char letter) { return letter >= '0' && letter <= '9'; }

// The number of bytes of the UTF-8 character at the beginning of `text`, or 0 if there is no valid
// character.
std::size_t character_bytes(std::string_view text) {
  const auto byte = [&](std::size_t k) -> std::uint32_t {
    return k < text.size() ? static_cast<unsigned char>(text[k]) : 0;
  };
  const std::uint32_t first = byte(0);
  if (first < 0x80) return 1;
  const auto follows = [&](std::size_t k) { return (byte(k) & 0xc0U) == 0x80; };
  if (first >= 0xc2 && first < 0xe0) return follows(1) ? 2 : 0;
  if (first >= 0xe0 && first < 0xf0) {
    if (!follows(1) || !follows(2)) return 0;
    if (first == 0xe0 && byte(1) < 0xa0) return 0;   // an encoding that is longer than necessary
    if (first == 0xed && byte(1) >= 0xa0) return 0;  // half of a surrogate pair
    return 3;
  }
  if (first >= 0xf0 && first < 0xf5) {
    if (!follows(1) || !follows(2) || !follows(3)) return 0;
    if (first == 0xf0 && byte(1) < 0x90) return 0;
    if (first == 0xf4 && byte(1) >= 0x90) return 0;  // a character beyond U+10FFFF
    return 4;
  }
  return 0;
}

void append_utf8(std::string& into, std::uint32_t code) {
  const auto byte = [&](std::uint32_t value) { into.push_back(static_cast<char>(value)); };
  if (code < 0x80) {
    byte(code);
  } else if (code < 0x800) {
    byte(0xc0U | code >> 6U);
    byte(0x80U | (code & 0x3fU));
  } else if (code < 0x10000) {
    byte(0xe0U | code >> 12U);
    byte(0x80U | (code >> 6U & 0x3fU));
    byte(0x80U | (code & 0x3fU));
  } else {
    byte(0xf0U | code >> 18U);
    byte(0x80U | (code >> 12U & 0x3fU));
    byte(0x80U | (code >> 6U & 0x3fU));
    byte(0x80U | (code & 0x3fU));
  }
}

}  // namespace

void json_text::fail(const std::string& what) const { throw json_error(what, at_); }

void json_text::check_utf8() const {
  for (std::size_t at = 0; at < text_.size();) {
    const std::size_t bytes = character_bytes(text_.substr(at));
    if (bytes == 0) throw json_error("it is not UTF-8", at);
    at += bytes;
  }
}

char json_text::peek() {
  while (at_ < text_.size()) {
    const char letter = text_[at_];
    if (letter != ' ' && letter != '\t' && letter != '\n' && letter != '\r') return letter;
    ++at_;
  }
  return 0;
}

bool json_text::take(char letter) {
  if (peek() != letter || at_ == text_.size()) return false;
  ++at_;
  return true;
}

void json_text::need(char letter) {
  if (!take(letter)) fail(std::string("there is no '") + letter + "' where one belongs");
}

void json_text::end() {
  (void)peek();
  if (at_ != text_.size()) fail("there is text after its end");
}

std::string json_text::string() {
  need('"');
  std::string read;
  for (;;) {
    const std::size_t begin = at_;
    while (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\\' &&
           static_cast<unsigned char>(text_[at_]) >= 0x20) {
      ++at_;
    }
    read.append(text_.substr(begin, at_ - begin));
    if (at_ == text_.size()) fail("a text has no end");
    const char letter = text_[at_];
    if (letter != '"' && letter != '\\') fail("a text has a control character");
    ++at_;
    if (letter == '"') return read;
    escape(read);
  }
}

void json_text::escape(std::string& into) {
  if (at_ == text_.size()) fail("a text has no end");
  constexpr std::string_view letters = "\"\\/bfnrt";
  constexpr std::string_view meant = "\"\\/\b\f\n\r\t";
  const char letter = text_[at_];
  if (const auto found = letters.find(letter); found != std::string_view::npos) {
    into.push_back(meant[found]);
    ++at_;
    return;
  }
  if (letter != 'u') fail("a text has an unknown escape");
  ++at_;
  std::uint32_t code = four_digits();
  if (code >= 0xd800 && code < 0xe000) {
    const bool first = code < 0xdc00 && text_.substr(at_, 2) == "\\u";
    if (first) at_ += 2;
    const std::uint32_t second = first ? four_digits() : 0;
    if (second < 0xdc00 || second >= 0xe000) fail("a text has half a surrogate pair");
    code = 0x10000 + ((code - 0xd800) << 10U) + (second - 0xdc00);
  }
  append_utf8(into, code);
}

std::uint32_t json_text::four_digits() {
  std::uint32_t code = 0;
  const std::string_view four = text_.substr(at_, 4);
  const auto [last, error] = std::from_chars(four.data(), four.data() + four.size(), code, 16);
  if (error != std::errc() || last != four.data() + 4)
    fail("\\u is not followed by four hexadecimal digits");
  at_ += 4;
  return code;
}

std::string_view json_text::value() {
  (void)peek();
  const std::size_t begin = at_;
  skip(0);
  return text_.substr(begin, at_ - begin);
}

std::optional<std::uint64_t> json_text::count() {
  const std::string_view text = value();
  std::uint64_t number = 0;
  const auto [last, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || last != text.data() + text.size()) return std::nullopt;
  return number;
}

void json_text::skip(int depth) {
  if (depth > most_depth) fail("it is nested too deeply");
  switch (peek()) {
    case '{':
      ++at_;
      if (take('}')) return;
      do {
        (void)peek();
        skip_string();
        need(':');
        skip(depth + 1);
      } while (take(','));
      need('}');
      return;
    case '[':
      array([&] { skip(depth + 1); });
      return;
    case '"':
      skip_string();
      return;
    case 't':
      word("true");
      return;
    case 'f':
      word("false");
      return;
    case 'n':
      word("null");
      return;
    default:
      skip_number();
  }
}

void json_text::skip_string() { (void)string(); }

void json_text::word(std::string_view expected) {
  if (text_.substr(at_, expected.size()) != expected) fail("a value is missing or not valid");
  at_ += expected.size();
}

void json_text::digits() {
  const std::size_t begin = at_;
  while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
  if (at_ == begin) fail("a value is missing or not valid");
}

void json_text::skip_number() {
  const auto next = [&](char letter) {
    if (at_ == text_.size() || text_[at_] != letter) return false;
    ++at_;
    return true;
  };
  (void)next('-');
  if (!next('0')) digits();
  if (next('.')) digits();
  if (next('e') || next('E')) {
    if (!next('+')) (void)next('-');
    digits();
  }
}

std::string in_quotes(std::string_view text) {
  constexpr std::size_t most = 200;
  std::string made = "'";
  while (!text.empty() && made.size() < most) {
    const std::size_t bytes = character_bytes(text);
    const auto first = static_cast<unsigned char>(text.front());
    if (bytes > 1) {
      made.append(text.substr(0, bytes));
    } else if (first == '\'' || first == '\\') {
      made.push_back('\\');
      made.push_back(text.front());
    } else if (bytes == 0 || first < 0x20 || first == 0x7f) {
      std::array<char, 8> escaped{};
      std::snprintf(escaped.data(), escaped.size(), "\\x%02x", static_cast<unsigned>(first));
      made += escaped.data();
    } else {
      made.push_back(text.front());
    }
    text.remove_prefix(bytes == 0 ? 1 : bytes);
  }
  return made + (text.empty() ? "'" : "...'");
}

}  // namespace interlace::checkpoint
