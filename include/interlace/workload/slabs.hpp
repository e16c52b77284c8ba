// Grids that devices share as slabs. A slab is a contiguous range of planes. Planes are the slowest
// dimension of the grid. The device that owns a slab also needs some planes of the neighbouring
// slabs: the halo.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "interlace/base/array_view.hpp"
#include "interlace/base/errors.hpp"
#include "interlace/kernel/region.hpp"

namespace interlace::workload {

// The size of a grid in points. Columns are the fastest dimension. A grid of two dimensions has
// planes of one row.
struct grid_shape {
  std::uint32_t planes = 0;
  std::uint32_t rows = 0;
  std::uint32_t columns = 0;

  // The number of points of one plane.
  std::uint64_t plane() const { return std::uint64_t{rows} * columns; }
  // The number of points of the whole grid.
  std::uint64_t points() const { return planes * plane(); }
};

// The shape of a grid. Throws usage_error for a grid that is too large.
inline grid_shape shape_of(const array_view<float, 3>& grid) {
  constexpr std::size_t most = std::size_t{1} << 31U;
  for (std::size_t k = 0; k < 3; ++k) {
    if (grid.extent(k) < most) continue;
    throw usage_error("a grid has " + std::to_string(grid.extent(k)) +
                      " points along a dimension; at most 2^31 - 1 are possible");
  }
  const auto extent = [&](std::size_t k) { return static_cast<std::uint32_t>(grid.extent(k)); };
  return {extent(0), extent(1), extent(2)};
}

// The position of a point.
struct grid_point {
  std::uint32_t plane, row, column;
};
// The position of element i of a grid. Columns are the fastest dimension.
INTERLACE_HOST_DEVICE grid_point point_of(const grid_shape& shape, std::uint32_t i) {
  const std::uint32_t line = i / shape.columns;
  const std::uint32_t plane = line / shape.rows;
  return {plane, line - plane * shape.rows, i - line * shape.columns};
}

// A line of a grid through a point. It has the point's element, the numbers of points before and
// after the point on the line, and the distance in elements between neighbouring points.
struct grid_line {
  std::uint32_t at, before, behind, stride;

  // The element that is k points before the point. If fewer than k points of the line are before
  // the point, this is the line's first element.
  INTERLACE_HOST_DEVICE std::uint32_t lower(std::uint32_t k) const {
    return at - (k < before ? k : before) * stride;
  }
  // The element that is k points after the point. If fewer than k points of the line are after the
  // point, this is the line's last element.
  INTERLACE_HOST_DEVICE std::uint32_t upper(std::uint32_t k) const {
    return at + (k < behind ? k : behind) * stride;
  }
};

// Throws usage_error if the grid has no points, or if the number of all values is 2^31 or more.
// Each point has `values` values.
inline void check_grid(const grid_shape& shape, std::uint32_t values) {
  constexpr std::uint64_t most = std::uint64_t{1} << 31U;
  const auto text = std::to_string(shape.planes) + " x " + std::to_string(shape.rows) + " x " +
                    std::to_string(shape.columns);
  if (shape.planes == 0 || shape.rows == 0 || shape.columns == 0 ||
      shape.plane() >= most / values || shape.points() >= most / values) {
    throw usage_error("a grid of " + text + " points cannot be used; give at least one, and " +
                      "fewer than " + std::to_string(most / values));
  }
}

// Throws model_error unless each part of a region consists of whole planes of `elements` elements.
inline void check_planes(const std::vector<std::uint64_t>& boundaries, std::uint64_t elements) {
  for (const std::uint64_t b : boundaries) {
    if (b % elements == 0) continue;
    throw model_error("a boundary of the grid is element " + std::to_string(b) +
                      ", where no plane begins");
  }
}

// Sets the subscribers for a grid in which every device needs `reach` elements on both sides of its
// part.
inline kernel::region_options with_halo(kernel::region_options options, std::uint64_t reach) {
  const auto& cut = options.boundaries;
  const auto devices = static_cast<std::uint32_t>(cut.size()) - 1;
  options.subscribers.resize(devices);
  for (std::uint32_t owner = 0; owner < devices; ++owner) {
    std::vector<subscriber_range>& to = options.subscribers[owner];
    std::uint32_t whole = 0;  // devices that need the whole part; bit d stands for device d
    for (std::uint32_t d = 0; d < devices; ++d) {
      if (d == owner || cut[d] == cut[d + 1]) continue;
      const std::uint64_t begin = std::max(cut[owner], cut[d] - std::min(cut[d], reach));
      const std::uint64_t end = std::min(cut[owner + 1], cut[d + 1] + reach);
      if (begin >= end) continue;
      if (begin == cut[owner] && end == cut[owner + 1]) {
        whole |= 1U << d;
      } else {
        to.push_back({begin, end, 1U << d});
      }
    }
    if (whole != 0) to.push_back({cut[owner], cut[owner + 1], whole});
    if (to.size() <= max_subscriber_ranges) continue;
    // The number of ranges can exceed the limit only if parts are small compared with the reach. In
    // this case, all devices in `whole` get the whole part.
    for (const subscriber_range& r : to) whole |= r.devices;
    to = {{cut[owner], cut[owner + 1], whole}};
  }
  return options;
}

}  // namespace interlace::workload
