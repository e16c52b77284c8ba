#include "preload/overlap.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <numeric>
#include <vector>

namespace interlace::preload {
namespace {

using cuda::device_address;

// Whether two blocks overlap, by sorting them.
bool overlap_sorted(std::span<const device_address> addresses, std::span<const std::size_t> bytes) {
  std::vector<std::size_t> order(addresses.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t one, std::size_t other) { return addresses[one] < addresses[other]; });
  device_address end = 0;
  for (const std::size_t at : order) {
    if (bytes[at] == 0) continue;
    if (addresses[at] < end) return true;
    end = addresses[at] + bytes[at];
  }
  return false;
}

// Blocks by the cells of memory that they touch. A cell is as large as the largest block, so a
// block touches at most two.
class cells {
 public:
  cells(std::size_t blocks, std::size_t largest)
      : shift_(static_cast<int>(std::bit_width(largest - 1))),
        mask_(std::bit_ceil(4 * blocks) - 1),
        heads_(mask_ + 1, 0) {
    entries_.reserve(2 * blocks + 1);
    entries_.push_back({});
  }

  enum class found : std::uint8_t { nothing, overlap, too_many };
  found add(device_address begin, std::size_t bytes) {
    const device_address first = begin >> shift_;
    const device_address last = (begin + bytes - 1) >> shift_;
    for (device_address cell = first; cell <= last; ++cell) {
      std::uint32_t& head = heads_[(cell * 0x9E3779B97F4A7C15U >> 20U) & mask_];
      int steps = 0;
      for (std::uint32_t at = head; at != 0; at = entries_[at].next) {
        const entry& other = entries_[at];
        if (begin < other.end && other.begin < begin + bytes) return found::overlap;
        if (++steps == 16) return found::too_many;
      }
      entries_.push_back({begin, begin + bytes, head});
      head = static_cast<std::uint32_t>(entries_.size() - 1);
    }
    return found::nothing;
  }

 private:
  struct entry {
    device_address begin = 0;
    device_address end = 0;
    std::uint32_t next = 0;  // 0: none
  };

  int shift_;
  std::size_t mask_;
  std::vector<std::uint32_t> heads_;
  std::vector<entry> entries_;
};

}  // namespace

bool overlap(std::span<const device_address> addresses, std::span<const std::size_t> bytes) {
  // Many programs list their blocks in ascending order.
  device_address end = 0;
  std::size_t largest = 0;
  bool ascending = true;
  for (std::size_t at = 0; at < addresses.size(); ++at) {
    largest = std::max(largest, bytes[at]);
    if (bytes[at] == 0) continue;
    ascending = ascending && addresses[at] >= end;
    end = addresses[at] + bytes[at];
  }
  if (ascending) return false;
  constexpr std::size_t most_in_cells = std::size_t{1} << 18U;
  if (addresses.size() > most_in_cells) return overlap_sorted(addresses, bytes);
  cells touched(addresses.size(), largest);
  for (std::size_t at = 0; at < addresses.size(); ++at) {
    if (bytes[at] == 0) continue;
    switch (touched.add(addresses[at], bytes[at])) {
      case cells::found::nothing:
        break;
      case cells::found::overlap:
        return true;
      case cells::found::too_many:
        return overlap_sorted(addresses, bytes);
    }
  }
  return false;
}

}  // namespace interlace::preload
