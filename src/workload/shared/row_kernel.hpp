// The kernels that can go over a graph. In all kernels except `push`, a row has the in-edges of a
// vertex.
#pragma once

#include <cstdint>
#include <string>

#include "interlace/base/errors.hpp"

namespace interlace::workload {

enum class row_kernel : std::uint8_t {
  balanced,      // edge_units
  warp_per_row,  // row_warps
  push,          // push_edges; with this kernel, a row of the graph has the out-edges of a vertex
};

// Throws usage_error for an unknown name.
inline row_kernel parse_row_kernel(const std::string& name) {
  if (name == "balanced") return row_kernel::balanced;
  if (name == "warp-per-row") return row_kernel::warp_per_row;
  if (name == "push") return row_kernel::push;
  throw usage_error("unknown kernel '" + name + "'; give 'balanced', 'warp-per-row' or 'push'");
}

}  // namespace interlace::workload
