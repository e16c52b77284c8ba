// Propagation of seismic waves, as every node runs it.
#pragma once

#include <cstdint>
#include <vector>

#include "run/workload.hpp"
#include "workload/eqwp.hpp"

namespace interlace::run {

struct eqwp_problem {
  workload::grid_shape shape;
  const float* velocity = nullptr;              // [planes][x, y, z][rows][columns]
  std::vector<workload::elastic_plane> medium;  // [planes]

  std::uint64_t elements() const { return workload::elastic_points::components * shape.points(); }

  template <class Node>
  workload::eqwp<Node> on(Node& node, const kernel::region_options& options) const {
    return {node, {shape, velocity, medium.data()}, options};
  }
};

}  // namespace interlace::run
