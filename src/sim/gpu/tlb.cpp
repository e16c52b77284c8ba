#include "sim/gpu/tlb.hpp"

#include <algorithm>

namespace interlace::sim {

tlb::tlb(std::uint32_t entries, std::uint32_t ways)
    : set_mask_(entries / ways - 1), ways_(ways), marks_(entries, 0) {}

bool tlb::find_behind_first(std::uint64_t* set, std::uint64_t mark) const {
  std::uint64_t* end = set + ways_;
  std::uint64_t* found = std::find(set + 1, end, mark);
  if (found == end) return false;
  std::rotate(set, found, found + 1);
  return true;
}

void tlb::insert(std::uint64_t page) {
  std::uint64_t* set = set_of(page);
  std::copy_backward(set, set + ways_ - 1, set + ways_);
  set[0] = page + 1;
}

void tlb::erase(std::uint64_t page) {
  std::uint64_t* set = set_of(page);
  std::uint64_t* end = set + ways_;
  std::uint64_t* found = std::find(set, end, page + 1);
  if (found == end) return;
  std::copy(found + 1, end, found);
  *(end - 1) = 0;
}

}  // namespace interlace::sim
