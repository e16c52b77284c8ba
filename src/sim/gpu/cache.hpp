// The tags of a sectored, set-associative cache with least-recently-used replacement. The cache
// does not hold data, because the data is in the simulated program's own memory. The tags decide
// hits and write-backs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "interlace/machine/machine.hpp"
#include "sim/engine/event_queue.hpp"

namespace interlace::sim {

class cache {
 public:
  struct line {
    std::uint64_t address = 0;
    picoseconds ready = 0;     // the time when the last requested sectors arrive
    std::uint32_t entry = 0;   // the entry of the miss that fetches the pending sectors
    std::uint8_t pending = 0;  // one bit for each sector
    std::uint8_t valid = 0;
    std::uint8_t dirty = 0;
  };
  struct victim {
    std::uint64_t address = 0;
    // The dirty sectors; 0 if no line was displaced or if the displaced line was clean.
    std::uint8_t dirty = 0;
  };

  explicit cache(const machine::cache& m)
      : line_shift_(static_cast<std::uint32_t>(__builtin_ctz(m.line_bytes))),
        multiplier_(m.modulo_sets ? 1 : 0x9E3779B97F4A7C15U),
        set_shift_(m.modulo_sets ? 0 : 40) {
    std::uint64_t sets = 1;
    while (sets * 2 * m.ways * m.line_bytes <= m.bytes) sets *= 2;
    set_mask_ = sets - 1;
    // The number of sets is rounded down to a power of two. The number of ways grows accordingly,
    // so that the capacity stays the same.
    ways_ = static_cast<std::uint32_t>(m.bytes / (sets * m.line_bytes));
    marks_.assign(sets * ways_, 0);
    used_.assign(sets * ways_, 0);
    lines_.resize(sets * ways_);
  }

  // Finds the line at `address`, a multiple of the line size, and makes the line the most recently
  // used one. Returns nullptr if the cache does not have the line.
  line* find(std::uint64_t address) {
    const std::uint64_t hash = hash_of(address);
    const std::size_t first = first_of(hash);
    const std::uint32_t mark = mark_of(hash);
    for (std::size_t k = first; k < first + ways_; ++k) {
      if (marks_[k] == mark && lines_[k].address == address) {
        used_[k] = ++clock_;
        return &lines_[k];
      }
    }
    return nullptr;
  }

  // Allocates a line for `address`. The line has no valid sectors. find() must have returned
  // nullptr for `address`.
  line& allocate(std::uint64_t address, victim& displaced) {
    const std::uint64_t hash = hash_of(address);
    const std::size_t first = first_of(hash);
    std::size_t oldest = first;
    for (std::size_t k = first; k < first + ways_; ++k) {
      if (marks_[k] == 0) {
        oldest = k;
        break;
      }
      if (used_[k] < used_[oldest]) oldest = k;
    }
    line& l = lines_[oldest];
    displaced = {l.address, marks_[oldest] == 0 ? std::uint8_t{0} : l.dirty};
    marks_[oldest] = mark_of(hash);
    used_[oldest] = ++clock_;
    l = line{};
    l.address = address;
    return l;
  }

  // Does the same as allocate, but never displaces a line whose data is in flight. Returns nullptr
  // if the data of every line of the set is in flight.
  line* allocate_over_arrived(std::uint64_t address, victim& displaced) {
    const std::size_t first = first_of(hash_of(address));
    std::size_t oldest = first + ways_;
    for (std::size_t k = first; k < first + ways_; ++k) {
      if (marks_[k] == 0) {
        oldest = k;
        break;
      }
      if (lines_[k].pending == 0 && (oldest == first + ways_ || used_[k] < used_[oldest])) {
        oldest = k;
      }
    }
    if (oldest == first + ways_) return nullptr;
    line& l = lines_[oldest];
    displaced = {l.address, marks_[oldest] == 0 ? std::uint8_t{0} : l.dirty};
    marks_[oldest] = mark_of(hash_of(address));
    used_[oldest] = ++clock_;
    l = line{};
    l.address = address;
    return &l;
  }

  std::uint64_t dirty_sectors() const {
    std::uint64_t sum = 0;
    for (std::size_t k = 0; k < lines_.size(); ++k) {
      if (marks_[k] != 0) sum += static_cast<std::uint64_t>(__builtin_popcount(lines_[k].dirty));
    }
    return sum;
  }

  void prefetch(std::uint64_t address) const {
    const std::size_t first = first_of(hash_of(address));
    __builtin_prefetch(&marks_[first]);
    __builtin_prefetch(&used_[first]);
    __builtin_prefetch(&lines_[first], 1);
  }

  // Drops the line at `address` together with its dirty data, if the cache has the line.
  void erase(std::uint64_t address) {
    const std::uint64_t hash = hash_of(address);
    const std::size_t first = first_of(hash);
    for (std::size_t k = first; k < first + ways_; ++k) {
      if (marks_[k] == mark_of(hash) && lines_[k].address == address) marks_[k] = 0;
    }
  }

  void invalidate() { std::fill(marks_.begin(), marks_.end(), 0U); }

 private:
  // The hash spreads power-of-two strides over the sets. With modulo_sets the hash is the line's
  // number, so the lines of such a stride all go to one set.
  std::uint64_t hash_of(std::uint64_t address) const {
    return (address >> line_shift_) * multiplier_;
  }
  std::size_t first_of(std::uint64_t hash) const {
    return (hash >> set_shift_ & set_mask_) * ways_;
  }
  // The result is never 0, because 0 marks an empty line.
  static std::uint32_t mark_of(std::uint64_t hash) {
    return static_cast<std::uint32_t>(hash >> 8U) | 1U;
  }

  std::uint32_t ways_ = 0;
  std::uint32_t line_shift_;
  std::uint64_t multiplier_;
  std::uint32_t set_shift_;
  std::uint64_t set_mask_ = 0;
  std::uint32_t clock_ = 0;
  // The marks of all lines. The marks of a set are adjacent in memory, and a search reads nothing
  // else.
  std::vector<std::uint32_t> marks_;
  std::vector<std::uint32_t> used_;
  std::vector<line> lines_;
};

}  // namespace interlace::sim
