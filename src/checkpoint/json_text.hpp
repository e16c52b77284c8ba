// Reads a JSON text (RFC 8259) strictly, from beginning to end. It creates only the values for
// which the caller asks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

namespace interlace::checkpoint {

// Thrown for a text that is not JSON, or not UTF-8.
class json_error : public std::runtime_error {
 public:
  json_error(const std::string& what, std::size_t at) : std::runtime_error(what), at_(at) {}
  std::size_t at() const { return at_; }  // position of the error, in bytes

 private:
  std::size_t at_;
};

// A reader of a JSON text. All members throw json_error. Blanks before a token are skipped.
class json_text {
 public:
  explicit json_text(std::string_view text) : text_(text) {}

  // Throws unless the whole text is UTF-8.
  void check_utf8() const;

  // The next character that is not blank, or 0 at the end.
  char peek();
  // Reads the next character if it is `letter`. Returns whether it was read.
  bool take(char letter);
  void need(char letter);
  // Throws if the rest of the text has anything but blanks.
  void end();

  std::string string();
  // Reads any value, and returns its text.
  std::string_view value();
  // Reads any value. Returns the value if it is a count. A count is a whole number from 0 to 2^64 -
  // 1, without a sign, a fraction or an exponent.
  std::optional<std::uint64_t> count();

  // Reads an object. `member` is called after each key, and must read the key's value.
  template <class Member>
  void object(const Member& member) {
    need('{');
    if (take('}')) return;
    do {
      std::string key = string();
      need(':');
      member(std::move(key));
    } while (take(','));
    need('}');
  }

  // Reads an array. `element` is called for each element, and must read the element.
  template <class Element>
  void array(const Element& element) {
    need('[');
    if (take(']')) return;
    do element();
    while (take(','));
    need(']');
  }

 private:
  [[noreturn]] void fail(const std::string& what) const;
  void skip(int depth);
  void skip_string();
  void skip_number();
  void word(std::string_view expected);
  void digits();
  std::uint32_t four_digits();
  void escape(std::string& into);

  std::string_view text_;
  std::size_t at_ = 0;
};

// A text in quotes for a message. Control characters are escaped, and a long text is shortened.
std::string in_quotes(std::string_view text);

}  // namespace interlace::checkpoint
