// The kernels that can go over the rows of a graph.
#pragma once

#include <cstdint>
#include <string>

#include "interlace/base/errors.hpp"

namespace interlace::workload {

enum class row_kernel : std::uint8_t {
  balanced,      // edge_units
  warp_per_row,  // row_warps
};

// Throws usage_error for an unknown name.
inline row_kernel parse_row_kernel(const std::string& name) {
  if (name == "balanced") return row_kernel::balanced;
  if (name == "warp-per-row") return row_kernel::warp_per_row;
  throw usage_error("unknown kernel '" + name + "'; there are balanced and warp-per-row");
}

}  // namespace interlace::workload
