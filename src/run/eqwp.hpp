// Propagation of seismic waves, as every node runs it.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "run/chosen.hpp"
#include "run/point_kernel.hpp"
#include "run/workload.hpp"
#include "workload/eqwp.hpp"

namespace interlace::run {

struct eqwp_problem {
  workload::grid_shape shape;
  const float* velocity = nullptr;              // [planes][x, y, z][rows][columns]
  std::vector<workload::elastic_plane> medium;  // [planes]

  point_kernel kernel = point_kernel::runs;

  std::uint64_t elements() const { return workload::elastic_components * shape.points(); }

  template <class Node>
  auto on(Node& node, const kernel::region_options& options) const {
    using by_runs = workload::eqwp<Node, workload::point_runs>;
    using by_tiles = workload::eqwp<Node, workload::point_tiles>;
    using work = chosen<by_runs, by_tiles>;
    const workload::elastic_start start{shape, velocity, medium.data()};
    return kernel == point_kernel::runs ? work(std::in_place_type<by_runs>, node, start, options)
                                        : work(std::in_place_type<by_tiles>, node, start, options);
  }
};

}  // namespace interlace::run
