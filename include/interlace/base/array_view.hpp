// An array that a caller owns: a pointer to its first element, and its extents. Elements are
// contiguous, and the last dimension varies fastest.
#pragma once

#include <array>
#include <cstddef>

namespace interlace {

// A view of a caller's array of `Rank` dimensions. The view neither owns nor copies the array, so
// the array must outlive the view.
template <class T, std::size_t Rank = 1>
class array_view {
 public:
  // Views the array that begins at `first`. `extents` gives the number of elements in each
  // dimension, the slowest dimension first.
  array_view(const T* first, const std::array<std::size_t, Rank>& extents)
      : first_(first), extents_(extents) {}

  // The address of the first element.
  const T* data() const { return first_; }
  // The first element, for loops over all elements in memory order.
  const T* begin() const { return first_; }
  // The address after the last element.
  const T* end() const { return first_ + size(); }
  // The number of elements of one dimension. Dimensions count from 0; `dimension` must be below
  // `Rank`.
  std::size_t extent(std::size_t dimension) const { return extents_[dimension]; }
  // The number of elements of all dimensions together.
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
