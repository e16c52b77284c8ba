// An array that a caller owns: a pointer to its first element, and its extents. Elements are
// contiguous, and the last dimension varies fastest.
#pragma once

#include <array>
#include <cstddef>

namespace interlace {

template <class T, std::size_t Rank = 1>
class array_view {
 public:
  array_view(const T* first, const std::array<std::size_t, Rank>& extents)
      : first_(first), extents_(extents) {}

  const T* data() const { return first_; }
  const T* begin() const { return first_; }
  const T* end() const { return first_ + size(); }
  std::size_t extent(std::size_t dimension) const { return extents_[dimension]; }
  std::size_t size() const {
    std::size_t elements = 1;
    for (const std::size_t extent : extents_) elements *= extent;
    return elements;
  }

 private:
  const T* first_;
  std::array<std::size_t, Rank> extents_;
};

}  // namespace interlace
