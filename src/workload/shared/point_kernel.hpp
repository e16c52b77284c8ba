// The ways in which blocks of a kernel cover the points of a grid.
#pragma once

#include <cstdint>
#include <string>

#include "interlace/base/errors.hpp"

namespace interlace::workload {

enum class point_kernel : std::uint8_t {
  runs,   // point_runs
  tiles,  // point_tiles
};

// Throws usage_error for an unknown name.
inline point_kernel parse_point_kernel(const std::string& name) {
  if (name == "runs") return point_kernel::runs;
  if (name == "tiles") return point_kernel::tiles;
  throw usage_error("unknown kernel '" + name + "'; give 'runs' or 'tiles'");
}

}  // namespace interlace::workload
