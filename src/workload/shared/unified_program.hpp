// Functions for programs that see several GPUs as one. The arrays of these programs are unified,
// one launch is spread over all devices, and only the placement of pages decides where data is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "interlace/base/array_view.hpp"
#include "interlace/base/errors.hpp"
#include "interlace/kernel/placement.hpp"
#include "interlace/kernel/region.hpp"

namespace interlace::workload {

// The placement of arrays. If `pages` is set, it replaces the placement that a workload chooses for
// each array.
struct unified_placement {
  std::optional<kernel::page_placement> pages;
  kernel::block_placement blocks = kernel::block_placement::contiguous;

  kernel::page_placement of(const kernel::page_placement& own) const { return pages.value_or(own); }
};

// A copy of an array, owned by a problem.
template <class T, std::size_t Rank>
std::vector<T> values_of(const array_view<T, Rank>& array) {
  return {array.begin(), array.end()};
}

// The number of rows (dimension 0) or columns (dimension 1) of a matrix. Throws usage_error if
// there are too many.
template <class T>
std::uint32_t extent_of(const array_view<T, 2>& matrix, std::size_t dimension) {
  constexpr std::size_t most = std::size_t{1} << 20U;
  const std::size_t n = matrix.extent(dimension);
  if (n <= most) return static_cast<std::uint32_t>(n);
  throw usage_error("a matrix has " + std::to_string(n) + " rows or columns; at most " +
                    std::to_string(most) + " are possible");
}

// Four adjacent values, loaded and stored together.
struct alignas(16) float4_value {
  float x[4] = {};
};

template <class T, class Node>
unified<T> put_unified(Node& node, const std::vector<T>& values,
                       const kernel::page_placement& pages) {
  auto array = node.template allocate_unified<T>(values.size(), pages);
  node.upload(array, values);
  return array;
}

inline std::vector<float4_value> in_fours(const float* values, std::uint64_t count) {
  std::vector<float4_value> fours(count / 4);
  for (std::uint64_t k = 0; k < count; ++k) fours[k / 4].x[k % 4] = values[k];
  return fours;
}
inline std::vector<float> from_fours(const std::vector<float4_value>& fours) {
  std::vector<float> values;
  values.reserve(fours.size() * 4);
  for (const float4_value& f : fours) values.insert(values.end(), f.x, f.x + 4);
  return values;
}

}  // namespace interlace::workload
