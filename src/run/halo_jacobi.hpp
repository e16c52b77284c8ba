// Jacobi with halos that go round a ring, as every node runs it.
#pragma once

#include <cstdint>

#include "run/workload.hpp"
#include "workload/halo_jacobi.hpp"

namespace interlace::run {

struct halo_jacobi_problem {
  workload::halo_jacobi_grid grid;

  std::uint64_t elements() const { return grid.points(); }

  template <class Node>
  workload::halo_jacobi<Node> on(Node& node, const kernel::region_options& options) const {
    return {node, grid, options};
  }
};

}  // namespace interlace::run
