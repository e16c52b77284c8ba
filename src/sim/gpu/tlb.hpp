// A translation look-aside buffer: a set-associative list of pages with least-recently-used
// replacement. The buffer decides only whether a page hits or misses. The address map knows where a
// page is.
#pragma once

#include <cstdint>
#include <vector>

namespace interlace::sim {

class tlb {
 public:
  // `entries` must be `ways` times a power of two, which is the number of sets. With one set the
  // buffer is fully associative. The low bits of a page's number select its set.
  tlb(std::uint32_t entries, std::uint32_t ways);

  // Whether the page is in the buffer. If it is, it becomes the most recently used page of its set.
  bool find(std::uint64_t page) {
    const std::uint64_t mark = page + 1;
    std::uint64_t* set = set_of(page);
    if (set[0] == mark) return true;  // the case of nearly all accesses to neighbouring lines
    return find_behind_first(set, mark);
  }
  // Adds a page that is not in the buffer. If the set is full, the set's least recently used page
  // is dropped.
  void insert(std::uint64_t page);
  // Removes a page if the buffer has it.
  void erase(std::uint64_t page);

 private:
  std::uint64_t* set_of(std::uint64_t page) { return &marks_[(page & set_mask_) * ways_]; }
  bool find_behind_first(std::uint64_t* set, std::uint64_t mark) const;

  std::uint64_t set_mask_;
  std::uint32_t ways_;
  // The index is [set][recency], and the most recently used page comes first. A value is a page's
  // number plus 1. The places after the last page hold 0.
  std::vector<std::uint64_t> marks_;
};

}  // namespace interlace::sim
