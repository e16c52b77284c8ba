// Which GPU's memory an address is.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/trace/instruction.hpp"

namespace interlace::sim::trace {

// Throws usage_error unless there are 1 to 16 GPUs, a warp of 1 to 64 lanes, and ranges that are
// not empty, do not overlap and belong to these GPUs.
void check_header(const header& h);

class address_ranges {
 public:
  // Of a header that check_header takes.
  explicit address_ranges(const header& h);

  // The home of `bytes` at an address; nothing if they are not all in one range.
  std::optional<std::uint32_t> home(std::uint64_t address, std::uint64_t bytes) const {
    const range* r = find(address);
    if (r == nullptr || bytes > r->end - address) return std::nullopt;
    if (r->page_bytes == 0) return r->gpu;
    return static_cast<std::uint32_t>((address - r->begin) / r->page_bytes % gpus_);
  }
  // The range that an address is in, and its number in ascending order; null if there is none.
  const range* find(std::uint64_t address) const {
    if (last_ < ranges_.size() && address >= ranges_[last_].begin && address < ranges_[last_].end) {
      return &ranges_[last_];
    }
    return search(address);
  }
  std::size_t number(const range* r) const { return static_cast<std::size_t>(r - ranges_.data()); }
  const std::vector<range>& all() const { return ranges_; }

  // Throws usage_error, which begins with `where`, for an access with a lane in no range, and for
  // atomics that are not aligned to their size.
  void check(const instruction& access, const std::string& where) const;
  // Whether check would throw.
  bool refuses(const instruction& access) const;

 private:
  const range* search(std::uint64_t address) const;

  std::uint32_t gpus_;
  std::vector<range> ranges_;  // ascending
  mutable std::size_t last_ = 0;
};

// "0x7f00"
std::string hex(std::uint64_t value);

}  // namespace interlace::sim::trace
