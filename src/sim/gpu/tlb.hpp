// A translation look-aside buffer: which pages it has translations of, set-associative, with
// least-recently-used replacement. Where a page lies is in the address map; what is kept here
// decides hits.
#pragma once

#include <cstdint>
#include <vector>

namespace interlace::sim {

class tlb {
 public:
  // `entries` are `ways` times a power of two of sets; one set of all is a fully associative
  // buffer. Sets are by the low bits of the page's number.
  tlb(std::uint32_t entries, std::uint32_t ways);

  // Whether it has the page, which is then the most recently used of its set.
  bool find(std::uint64_t page) {
    const std::uint64_t mark = page + 1;
    std::uint64_t* set = set_of(page);
    if (set[0] == mark) return true;  // of neighbouring lines nearly always
    return find_behind_first(set, mark);
  }
  // A page that it does not have; the least recently used of the set goes if it is full.
  void insert(std::uint64_t page);
  // Forgets a page, which it need not have.
  void erase(std::uint64_t page);

 private:
  std::uint64_t* set_of(std::uint64_t page) { return &marks_[(page & set_mask_) * ways_]; }
  bool find_behind_first(std::uint64_t* set, std::uint64_t mark) const;

  std::uint64_t set_mask_;
  std::uint32_t ways_;
  // [set][recency], the most recently used first: a page's number plus 1, or 0, behind all pages.
  std::vector<std::uint64_t> marks_;
};

}  // namespace interlace::sim
