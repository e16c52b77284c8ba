// Finds the GPU that owns the memory at an address.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/trace/instruction.hpp"

namespace interlace::sim::trace {

// Throws usage_error unless the header is valid. There must be 1 to 16 GPUs, and warps must have 1
// to 64 lanes. Every range must belong to one of the GPUs, must not be empty and must not overlap
// another range.
void check_header(const header& h);

class address_ranges {
 public:
  // `h` must have passed check_header.
  explicit address_ranges(const header& h);

  // The GPU that owns `bytes` bytes at an address. There is no value if no single range contains
  // all of these bytes.
  std::optional<std::uint32_t> home(std::uint64_t address, std::uint64_t bytes) const {
    const range* r = find(address);
    if (r == nullptr || bytes > r->end - address) return std::nullopt;
    if (r->page_bytes == 0) return r->gpu;
    return static_cast<std::uint32_t>((address - r->begin) / r->page_bytes % gpus_);
  }
  // The range that contains an address, or null. number() returns the index of such a range in
  // ascending order.
  const range* find(std::uint64_t address) const {
    if (last_ < ranges_.size() && address >= ranges_[last_].begin && address < ranges_[last_].end) {
      return &ranges_[last_];
    }
    return search(address);
  }
  std::size_t number(const range* r) const { return static_cast<std::size_t>(r - ranges_.data()); }
  const std::vector<range>& all() const { return ranges_; }

  // Throws usage_error in two cases. The error's message begins with `where`.
  // - The bytes of a lane are not all in one range.
  // - An atomic is not aligned to its size, or its size is not a power of two. If `aligned` is set,
  //   this rule holds for loads and stores, too.
  void check(const instruction& access, const std::string& where, bool aligned) const;
  // Whether check() would throw.
  bool refuses(const instruction& access, bool aligned) const;

 private:
  const range* search(std::uint64_t address) const;

  std::uint32_t gpus_;
  std::vector<range> ranges_;  // ascending
  mutable std::size_t last_ = 0;
};

// Formats a number in the form "0x7f00".
std::string hex(std::uint64_t value);

}  // namespace interlace::sim::trace
