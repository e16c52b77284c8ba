// What programs have in common that see several GPUs as one: their arrays are unified, one launch
// is spread over all devices, and nothing says where data lie but the placement of pages.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kernel/placement.hpp"
#include "kernel/region.hpp"

namespace interlace::workload {

// `pages` takes the place of what each array of a workload has by itself.
struct unified_placement {
  std::optional<kernel::page_placement> pages;
  kernel::block_placement blocks = kernel::block_placement::contiguous;

  kernel::page_placement of(const kernel::page_placement& own) const { return pages.value_or(own); }
};

// Four neighbours, loaded and stored at once.
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
