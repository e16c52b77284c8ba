// Splits a text into lines. The text comes in pieces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace interlace::sim::trace {

class line_splitter {
 public:
  static constexpr std::size_t max_line_bytes = std::size_t{1} << 20U;

  // Calls take(line) for each complete line, without the line feed at its end, and without a
  // carriage return before the line feed. If a line is longer than max_line_bytes, returns false
  // and stops.
  template <class Take>
  bool feed(std::string_view bytes, const Take& take) {
    while (!bytes.empty()) {
      const std::size_t end = bytes.find('\n');
      if (end == std::string_view::npos) {
        begun_ += bytes;
        if (begun_.size() > max_line_bytes) ++number_;
        return begun_.size() <= max_line_bytes;
      }
      std::string_view line = bytes.substr(0, end);
      if (!begun_.empty()) {
        begun_ += line;
        line = begun_;
      }
      ++number_;
      if (line.size() > max_line_bytes) return false;
      if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
      take(line);
      begun_.clear();
      bytes.remove_prefix(end + 1);
    }
    return true;
  }
  // Takes the last line, if the text does not end with the end of a line.
  template <class Take>
  void finish(const Take& take) {
    if (begun_.empty()) return;
    ++number_;
    take(std::string_view(begun_));
    begun_.clear();
  }
  std::uint64_t number() const { return number_; }  // number of the last line, counted from 1

 private:
  std::string begun_;
  std::uint64_t number_ = 0;
};

}  // namespace interlace::sim::trace
