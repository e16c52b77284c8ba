// Miss status holding registers. Each entry records which pieces of its line are in flight
// (DualOpt, PACT 2022, section 4.1.2 and Fig. 8). An entry keeps its number until the entry is
// released, so the number can serve as the ID of a reply.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "sim/remote/bitmask_generator.hpp"

namespace interlace::sim {

class masked_mshr {
 public:
  // `hit`, `other_mask` and `other_line` are the cases A, B and C of Fig. 8. `full` is a miss that
  // must wait for an entry.
  enum class outcome : std::uint8_t { hit, other_mask, other_line, full };
  struct answer {
    outcome what = outcome::full;
    std::uint32_t entry = 0;  // entry that fetches the pieces; not set if the outcome is `full`
  };

  explicit masked_mshr(std::uint32_t entries) : entries_(entries) {
    for (std::uint32_t k = entries; k-- > 0;) free_.push_back(k);
  }

  // Requests pieces of a line. Case A: an entry of the line already fetches all the pieces, and
  // this entry serves the new request as well. Case B: entries of the line fetch other pieces. Case
  // C: the line has no entry. Cases B and C take a new entry.
  answer request(std::uint64_t line, piece_mask pieces) {
    bool same_line = false;
    for (std::uint32_t k = 0; k < entries_.size(); ++k) {
      const slot& e = entries_[k];
      if (e.pieces == 0 || e.line != line) continue;
      if ((pieces & ~e.pieces) == 0) return {outcome::hit, k};
      same_line = true;
    }
    if (free_.empty()) return {};
    const std::uint32_t taken = free_.back();
    free_.pop_back();
    entries_[taken] = {line, pieces};
    return {same_line ? outcome::other_mask : outcome::other_line, taken};
  }

  // Whether a request for these pieces would be case A.
  bool serves(std::uint64_t line, piece_mask pieces) const {
    return std::any_of(entries_.begin(), entries_.end(), [&](const slot& e) {
      return e.pieces != 0 && e.line == line && (pieces & ~e.pieces) == 0;
    });
  }

  piece_mask pieces(std::uint32_t entry) const { return entries_[entry].pieces; }
  std::uint64_t line(std::uint32_t entry) const { return entries_[entry].line; }
  void release(std::uint32_t entry) {
    entries_[entry].pieces = 0;
    free_.push_back(entry);
  }
  std::uint32_t used() const { return static_cast<std::uint32_t>(entries_.size() - free_.size()); }

 private:
  struct slot {
    std::uint64_t line = 0;
    piece_mask pieces = 0;  // 0 if the entry is free
  };
  std::vector<slot> entries_;
  std::vector<std::uint32_t> free_;
};

}  // namespace interlace::sim
